"""A session read from its log: its history is valid for a provider wherever the log ends."""

from collections.abc import Sequence
from typing import Any

import pytest

from forge_cli.core.actions import ApprovalResponse
from forge_cli.core.approval import ApprovalDecision
from forge_cli.core.events import Event, MessageEvent
from forge_cli.events import Attachment, Message, OnAsk
from forge_cli.record.line import Line
from forge_cli.record.pending import requests_of
from forge_cli.record.resume import Past, Resumed, read_past
from forge_cli.testing import Project, Seen, call, calls
from tests.support.lines import lines_of
from tests.support.listener import Listener

TOOLS = '''
"""Tools that look and tools that change something."""

from forge_cli import Effect, tool


@tool(effects={Effect.READ}, needs_approval=False)
def look(at: str) -> str:
    """Look at something."""
    return f"seen {at}"


@tool(effects={Effect.WRITE}, needs_approval=False)
def change(what: str) -> str:
    """Change something."""
    return f"changed {what}"


@tool(effects={Effect.WRITE})
def risk(what: str) -> str:
    """Change something that matters."""
    return f"risked {what}"
'''

WORKER = """
name: boss
description: Tells others what to do
instructions: You work.
toolsets:
  custom: {module: ./tools.py, tools: [look, change, risk]}
  workers: {allowed: [helper.yaml], approval: {default: preApproved}}
"""

HELPER = """
name: helper
description: Helps
instructions: You help.
model: script:helper-script.yaml
toolsets:
  custom: {module: ./tools.py, tools: [look, change, risk]}
"""

HELPER_SCRIPT = """
turns:
  - calls: [{tool: look, input: {at: below}}, {tool: risk, input: {what: below}}]
  - text: "Helped: {results[1]}"
"""

LONG = (
    calls(call("look", at="a"), call("change", what="b"), text="First. "),
    calls(call("risk", what="c"), call("look", at="d"), call("nonsense")),
    calls(call("helper", input="do it"), call("change", what="e")),
    "Done.",
)


@pytest.fixture
def boss(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("helper.yaml", HELPER)
    project.write("helper-script.yaml", HELPER_SCRIPT)
    project.write("tools.py", TOOLS)
    return project


def kept(seen: Seen) -> list[Line]:
    return seen.record


def check(messages: Sequence[Message]) -> None:
    """Check the rules of providers: results follow their calls, complete and at once, and roles alternate."""
    for before, after in zip(messages, [*messages[1:], None], strict=False):
        if before.calls:
            assert after is not None
            assert [result.call_id for result in after.results] == [
                each.id for each in before.calls
            ]
        elif before.role == "assistant":
            assert after is None or after.role == "user"
        assert before.role != "tool" or after is None or after.role != "tool"
    assert not messages or messages[0].role == "user"


def test_history_of_a_log_cut_anywhere_is_valid(boss: Project) -> None:
    seen = boss.run(*LONG, answers=[True, True])
    lines = kept(seen)
    assert seen.result.status == "completed"
    spoken = [at for at, line in enumerate(lines) if line.type == "message" and line.depth == 0]
    first, last = spoken[0], spoken[-1]
    for end in range(len(lines) + 1):
        past = read_past(lines[:end])
        check(past.messages if not past.calls else past.messages[:-1])
        open_calls = {each.id for each in past.calls}
        assert open_calls >= past.pending.keys()
        assert past.unfinished is (first < end < len(lines))
        assert (past.reply is not None) is (last < end < len(lines))
        if past.calls:
            assert past.messages[-1].calls == past.calls
            assert past.results.keys() < open_calls


def test_history_is_restored_as_the_model_knew_it(boss: Project) -> None:
    model = Listener.scripted(*LONG)
    seen = boss.run(model=model, answers=[True, True])
    past = read_past(kept(seen))
    assert list(past.messages[:-1]) == model.requests[-1].messages
    assert past.messages[-1].text == "Done."


def test_attachments_are_restored() -> None:
    files = (
        Attachment("a.txt", "text/plain", b"words"),
        Attachment("b.png", "image/png", b"\x89PNG\x00\xff"),
    )
    message = Message("user", "look", attachments=files)
    assert past_of(MessageEvent(message)).messages == (message,)


def test_approved_call_without_a_result_may_have_run(boss: Project) -> None:
    lines = kept(boss.run(calls(call("change", what="x"), call("look", at="y")), "Done."))
    decided = next(at for at, line in enumerate(lines) if line.type == "approvalDecided")
    started = read_past(lines[:decided])
    assert (started.in_flight, [each.name for each in started.cut_off]) == (
        frozenset(),
        ["change", "look"],
    )
    approved = read_past(lines[: decided + 1])
    assert approved.in_flight == {'["change", {"what": "x"}]'}
    told = [result.text for result in approved.messages[-1].results]
    assert ["may have run" in text and "not repeated" in text for text in told] == [True, False]
    done = read_past(lines[: decided + 2])
    assert (done.in_flight, [each.name for each in done.cut_off]) == (frozenset(), ["look"])
    assert [result.text for result in done.messages[-1].results] == [
        "changed x",
        '{"type": "interrupted"}',
    ]


def test_parked_request_waits_for_a_decision(boss: Project) -> None:
    seen = boss.run(
        calls(call("look", at="a"), call("risk", what="b"), call("risk", what="c")),
        on_ask=OnAsk.PARK,
    )
    lines = kept(seen)
    past = read_past(lines)
    assert [each.name for each in past.calls] == ["look", "risk", "risk"]
    assert [result.text for result in past.results.values()] == ["seen a"]
    waiting = requests_of(lines)
    assert [(each.request.args, each.path, each.answer) for each in waiting] == [
        ({"what": "b"}, ("boss",), None),
        ({"what": "c"}, ("boss",), None),
    ]


def answered(lines: list[Line], request: str, approved: bool, note: str | None = None) -> None:
    lines += lines_of(
        ApprovalResponse(request, ApprovalDecision(approved, note=note)), after=lines[-1]
    )


def test_last_answer_counts(boss: Project) -> None:
    lines = kept(boss.run(calls(call("risk", what="b")), on_ask=OnAsk.PARK))
    (waiting,) = requests_of(lines)
    answered(lines, waiting.id, True)
    answered(lines, waiting.id, False, "rather not")
    answered(lines, "approval_of_nobody", True)
    (waiting,) = requests_of(lines)
    assert waiting.answer == ApprovalDecision(False, note="rather not")


def test_request_of_a_child_keeps_its_place(boss: Project) -> None:
    lines = kept(boss.run(calls(call("helper", input="do it")), "Done.", on_ask=OnAsk.PARK))
    past = read_past(lines)
    (waiting,) = requests_of(lines)
    assert (waiting.path, waiting.request.tool_name) == (("boss", "helper"), "risk")
    assert past.pending == {}
    ((below,),) = past.children.values()
    assert [each.name for each in below.past.calls] == ["look", "risk"]
    answered(lines, waiting.id, True)
    seen = go_on(boss, lines, calls(call("helper", input="do it")), "Done.")
    assert seen.result.status == "completed"
    assert [(each.tool_name, each.status) for each in seen.outcomes] == [
        ("risk", "success"),
        ("helper", "success"),
    ]


def go_on(project: Project, lines: list[Line], *turns: Any, **options: Any) -> Seen:
    return project.run(*turns, task="", resume=Resumed(read_past(lines), lines[-1]), **options)


def past_of(*events: Event) -> Past:
    return read_past(lines_of(*events))


def test_empty_session_and_unknown_events_are_accepted() -> None:
    assert past_of() == Past()
    invented = {
        "v": 1,
        "seq": 1,
        "time": "",
        "session": "s",
        "worker": "w",
        "depth": 0,
        "type": "invented later",
    }
    assert read_past([Line({**invented, "x": 1})]) == Past()
    assert not Past().unfinished
