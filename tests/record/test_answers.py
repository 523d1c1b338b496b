"""Answers from another process to the request of a session at work: what counts, and what does not.

Covers forge_cli.record.answers, forge_cli.record.pending.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from forge_cli.core.actions import ApprovalResponse
from forge_cli.core.approval import ApprovalDecision, ApprovalRequest
from forge_cli.core.bus import EventBus
from forge_cli.core.events import (
    ApprovalDecided,
    ApprovalRequired,
    Event,
    SessionStart,
    StatusEvent,
    ToolResult,
)
from forge_cli.core.results import Text
from forge_cli.record import answers
from forge_cli.record.answers import LeftAnswer, answer_file, leave_answer, take_answers
from forge_cli.record.line import Line
from forge_cli.record.log import Log, read_session
from forge_cli.record.pending import may_be_asking, open_requests
from forge_cli.record.places import session_file
from forge_cli.record.recorder import Recorder, SessionLog
from forge_cli.sandbox.secrets import Redactor, own_redactor
from tests.support.approval import new_request

YES = ApprovalDecision(True, via="a test")
AT_HAND = ApprovalDecision(False, note="at hand")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FORGE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(answers, "POLL_INTERVAL", 0.01)


Leave = Callable[[Log, ApprovalRequest], Any]


def asked(left: Leave, request: ApprovalRequest) -> tuple[ApprovalDecision, list[Event]]:
    """Ask in a session at work, and let somebody leave something; the person at hand says no to a warning."""
    bus, seen = EventBus(), list[Event]()

    def hear(event: Event) -> None:
        seen.append(event)
        if isinstance(event, StatusEvent):
            bus.answer(request.request_id, AT_HAND)

    async def main() -> ApprovalDecision:
        with SessionLog.create(session_file("s1")) as log, anyio.fail_after(60):
            recorder = Recorder(log, session="s1", worker="w", redactor=own_redactor())
            bus.subscribe(recorder)
            bus.subscribe(hear, answers=True)
            end = take_answers(bus, log.path)
            async with anyio.create_task_group() as tasks:

                async def elsewhere() -> None:
                    await to_thread.run_sync(lambda: left(read_session(log.path), request))
                    if not answer_file(log.path).exists():
                        bus.answer(request.request_id, AT_HAND)

                bus.emit(SessionStart("m", "/", "interactive"))
                tasks.start_soon(elsewhere)
                decision = await bus.ask(request)
            end()
            return decision

    return anyio.run(main), seen


def test_answer_from_another_process_is_accepted_and_logged_with_its_source() -> None:
    counted = list[ApprovalDecision | None]()
    request = new_request(fingerprint="f", stamp="s")
    decision, seen = asked(
        lambda log, asked: counted.append(leave_answer(log, asked, YES)), request
    )
    assert (decision, counted) == (YES, [YES])
    assert next(event for event in seen if isinstance(event, ApprovalResponse)).decision == YES


def left_as(text: str) -> Callable[[Log, ApprovalRequest], None]:
    return lambda log, request: answer_file(log.path).write_text(text) and None


def changed(**changes: Any) -> Callable[[Log, ApprovalRequest], None]:
    """An answer that forge itself has written, to something else."""

    def leave(log: Log, request: ApprovalRequest) -> None:
        said = {
            "session": "s1",
            "request_id": request.request_id,
            "fingerprint": "f",
            "stamp": "s",
            **changes,
        }
        answer_file(log.path).write_text(
            LeftAnswer(**said, approved=True, note=None, via="x").text()
        )

    return leave


def forged(log: Log, request: ApprovalRequest) -> None:
    """The right answer, by somebody who does not have the key."""
    text = json.loads(LeftAnswer("s1", request.request_id, "f", "s", False, None, "x").text())
    text["answer"] = text["answer"].replace("false", "true")
    answer_file(log.path).write_text(json.dumps(text))


@pytest.mark.parametrize(
    "left",
    [
        changed(request_id="approval_other"),
        changed(fingerprint="other"),
        changed(stamp="other"),
        changed(stamp=None),
        changed(session="s2"),
        forged,
        left_as("yes"),
        left_as("[]"),
        left_as('{"answer": 1, "proof": "x"}'),
        left_as("[" * 10_000),
        left_as("x" * (answers.MAX_BYTES + 1)),
    ],
)
def test_answer_to_another_call_is_ignored(left) -> None:
    decision, seen = asked(left, new_request(fingerprint="f", stamp="s"))
    assert decision == AT_HAND
    warned = [event.message for event in seen if isinstance(event, StatusEvent)]
    assert warned == ["ignored an answer from another process: it is for a different call"]


def test_late_answer_is_told_which_answer_counted() -> None:
    def late(log: Log, request: ApprovalRequest) -> None:
        answer_file(log.path).mkdir()  # so that nothing can be taken
        try:
            with pytest.raises(Exception, match="cannot write the answer"):
                leave_answer(log, request, YES)
        finally:
            answer_file(log.path).rmdir()

    decision, _ = asked(late, new_request())
    assert decision == AT_HAND


def test_unread_answer_is_withdrawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(answers, "ANSWER_TIMEOUT", 0.05)
    file = tmp_path / "s1.jsonl"
    file.write_bytes(b"")
    assert leave_answer(Log(file, ()), new_request(), YES) is None
    assert os.listdir(tmp_path / "home") == ["proofs"]
    assert not answer_file(file).exists()


def lines(*events: Event) -> list[Line]:
    made = list[Line]()
    for event in events:
        after = made[-1] if made else None
        made.append(
            Line.of(event, session="s", worker="w", depth=0, redactor=Redactor({}), after=after)
        )
    return made


START, ASK = (
    SessionStart("m", "/", "interactive"),
    ApprovalRequired(new_request(request_id="approval_1")),
)
CALL = ASK.request.tool_call_id


@pytest.mark.parametrize(
    ("more", "open_ids", "may"),
    [
        ([], ["approval_1"], True),
        ([ApprovalResponse("approval_1", YES)], [], False),
        ([ApprovalResponse("approval_2", YES)], ["approval_1"], True),
        (
            [
                ApprovalDecided(
                    CALL, "ask", True, "user", None, None, "", False, request_id="approval_1"
                )
            ],
            [],
            False,
        ),
        ([ToolResult(CALL, "t", "interrupted", Text(""), 1)], [], True),
        ([START], [], True),
    ],
)
def test_open_requests_of_a_running_session_are_listed(
    more: list[Event], open_ids: list[str], may: bool, tmp_path: Path
) -> None:
    made = lines(START, ASK, *more)
    assert [waiting.id for waiting in open_requests(made)] == open_ids
    file = tmp_path / "s.jsonl"
    file.write_text("".join(line.text() for line in made))
    assert may_be_asking(file) is may


def test_log_without_a_request_has_no_open_question(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_text(lines(START)[0].text())
    assert not may_be_asking(file)
    assert not may_be_asking(tmp_path / "none.jsonl")
