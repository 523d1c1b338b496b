"""A session at a glance: what it was about and how it ended, also of a log that somebody broke."""

from pathlib import Path

import pytest

from forge_cli import Text
from forge_cli.core.approval import ApprovalDecision
from forge_cli.core.errors import ForgeError
from forge_cli.core.events import (
    ApprovalResponse,
    Event,
    MessageEvent,
    SessionEnd,
    SessionStart,
    StatusEvent,
    ToolResult,
    TurnEndEvent,
)
from forge_cli.events import Message, Usage
from forge_cli.record.log import session_file
from forge_cli.record.overview import overview
from forge_cli.record.writer import SessionLog

from ..lines import CHILD, lines_of
from ..rows import each_row

START = SessionStart("script:x", "/somewhere", "interactive", worker_file="/somewhere/worker.yaml")


def keep(*events: Event) -> Path:
    with SessionLog.create(session_file("s1")) as log:
        log.copy(lines_of(START, *events))
    return log.path


def test_what_a_session_was_about() -> None:
    path = keep(
        MessageEvent(Message("user", "the task")),
        TurnEndEvent(1, "tool_use", Usage()),
        ToolResult("c", "t", "success", Text('{"depth": 0, "type": "turnEnd", "turn": 1}'), 1),
        MessageEvent(Message("user", "of a child"), origin=CHILD),
        TurnEndEvent(1, "end", Usage(), origin=CHILD),
        TurnEndEvent(2, "end", Usage()),
        SessionEnd({"status": "completed"}),
        SessionStart("script:y", "/elsewhere", "interactive", resumed=8),
        MessageEvent(Message("user", "another task")),
    )
    seen = overview(path)
    assert (seen.task, seen.turns, seen.tool_calls, seen.status) == ("the task", 3, 1, "interrupted")
    assert (seen.model, seen.workspace, seen.worker_file) == ("script:y", "/elsewhere", None)
    assert (seen.started <= seen.ended, seen.started != "") == (True, True)


def test_what_somebody_broke_is_left_out() -> None:
    path = keep(MessageEvent(Message("user", "the task")), SessionEnd({"status": "completed"}))
    text = path.read_text()
    path.write_text(text.replace('"content": "the task"', '"content": 5').replace('"result": {', '"result": 5, "x": {'))
    seen = overview(path)
    assert (seen.task, seen.status, seen.waits, seen.model) == ("", "interrupted", True, "script:x")
    path.write_text(text.replace('"model": "script:x"', '"model": null'))
    assert (overview(path).model, overview(path).workspace, overview(path).task) == ("", "", "the task")


@each_row(
    ("events", "status", "waits"),
    [
        ([], "interrupted", True),
        ([SessionEnd({"status": "completed"})], "completed", False),
        ([SessionEnd({"status": "parked"})], "parked", True),
        ([SessionEnd({"status": "parked"}), ApprovalResponse("r", ApprovalDecision(True))], "parked", True),
        ([SessionEnd({"status": "parked"}), ApprovalResponse("r", ApprovalDecision(True)), START], "interrupted", True),
        ([SessionEnd({"status": "limit"})], "limit", False),
        ([SessionEnd({"status": "limit"}), START], "limit", False),
    ],
)
def test_a_session_at_a_glance(events: list[Event], status: str, waits: bool) -> None:
    seen = overview(keep(StatusEvent("info", "a"), *events))
    assert (seen.session, seen.worker, seen.model, seen.workspace) == ("s1", "w", "script:x", "/somewhere")
    assert (seen.status, seen.waits, seen.pid, seen.task) == (status, waits, None, "")


def test_a_glance_at_half_a_line_and_at_none() -> None:
    path = keep(SessionEnd({"status": "completed"}))
    with path.open("ab") as file:
        file.write(b'{"v": 1, "seq": 4, "type": "sess')
    assert overview(path).status == "completed"
    for content, problem in (
        (b"", "is empty"),
        (b'{"seq"', "is empty"),
        (b"x\n", "not a line"),
        (b"[1]\n{}\n", "not a line"),
    ):
        path.write_bytes(content)
        with pytest.raises(ForgeError, match=problem):
            overview(path)
    path.unlink()
    with pytest.raises(ForgeError, match="cannot be read"):
        overview(path)
