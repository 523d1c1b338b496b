"""A session read to be repeated: its parts, the turns of each worker, and the result of every call."""

from pathlib import Path

import pytest

from forge_cli import ApprovalRequest, Text
from forge_cli.core.events import (
    ApprovalDecided,
    ApprovalRequired,
    ContextUsage,
    Event,
    MessageEvent,
    SessionStart,
    StatusEvent,
    ToolResult,
    ToolStarted,
    TurnEndEvent,
    TurnStart,
    WorkerUpdate,
)
from forge_cli.core.messages import Summary
from forge_cli.engine.replay.recording import Recording, read_recording
from forge_cli.errors import WorkerError
from forge_cli.events import Message, ToolCall, Usage
from forge_cli.record.line import BadLine, Line
from forge_cli.record.log import Log

from ...lines import CHILD, lines_of
from ...rows import each_row

START = SessionStart("script:x", "/w", "interactive", worker_file="/w/worker.yaml", output_schema={"type": "object"})
CALL = ToolCall("c", "pay", {"to": "Ana"})
TASK = MessageEvent(Message("user", "go"))
ASKED = ApprovalRequired(ApprovalRequest("r", "c", "pay", CALL.args, "w wants to pay", "it asks", "high", None, None))
DECIDED = ApprovalDecided("c", "ask", True, "user", "rule", None, "yes", cached=False)
PAID = ToolResult("c", "pay", "success", Text("paid"), 1)


def read(*events: Event) -> Recording:
    return read_recording(Log(Path("record.jsonl"), tuple(lines_of(*events))))


def turn(number: int, *calls: ToolCall, said: str = "") -> list[Event]:
    start, end = TurnStart(number, "digest", ("pay",)), TurnEndEvent(number, "end", Usage(1, 2))
    return [start, MessageEvent(Message("assistant", said, calls, native={"n": number})), end]


def test_where_it_came_from() -> None:
    found = read(START, TASK, *turn(1, said="Done."))
    assert (found.session, found.worker, found.model, found.workspace) == ("s", "w", "script:x", "/w")
    assert (found.worker_file, found.output_schema) == ("/w/worker.yaml", {"type": "object"})


def test_a_part_for_each_task_and_each_start() -> None:
    again = MessageEvent(Message("user", "again"))
    found = read(START, TASK, *turn(1, said="a"), *turn(2, said="b"), again, *turn(1, said="c"), START, *turn(1))
    assert [part.task.text for part in found.parts] == ["go", "again", ""]
    assert [len(part.track().turns) - 1 for part in found.parts] == [2, 1, 1]
    assert [[message.text for message in part.past.messages] for part in found.parts] == [
        [],
        ["go", "a", "b"],
        ["go", "a", "b", "again", "c"],
    ]
    assert [part.last.seq if part.last else None for part in found.parts] == [None, 8, 12]


def test_a_turn_has_its_request_its_answer_and_its_calls() -> None:
    events = [*turn(1, CALL, said="I pay."), ToolStarted("c", "pay", CALL.args), ASKED, DECIDED, PAID]
    (part,) = read(START, TASK, *events, ContextUsage(5, 100)).parts
    track = part.track()
    first, found = track.turns
    assert (first.number, first.request, first.calls, track.window) == (0, None, {}, 100)
    assert (found.number, found.seq, found.tools, found.said) == (1, 3, ("pay",), (TASK.message,))
    assert found.reply == Message("assistant", "I pay.", (CALL,))
    assert found.end is not None
    assert (found.end.stop, found.end.usage, found.end.native) == ("end", Usage(1, 2), {"n": 1})
    outcome = found.calls["c"].outcome(CALL)
    assert outcome is not None
    assert (outcome.status, outcome.value, outcome.by) == ("success", Text("paid"), "user")


def test_a_call_is_settled_by_its_verdict_or_by_the_request_that_was_left_open() -> None:
    for events, verdict in (([ASKED], "ask"), ([ASKED, DECIDED], "ask"), ([DECIDED, DECIDED], "ask"), ([], None)):
        (part,) = read(START, TASK, *turn(1, CALL), ToolStarted("c", "pay", CALL.args), *events).parts
        found = part.track().turns[1].calls["c"]
        assert (found.verdict and found.verdict.verdict, found.ended) == (verdict, None)
        assert (found.decided and found.decided.type) == (events[-1].type if events else None)


def test_a_child_has_a_track_of_its_own() -> None:
    (part,) = read(
        *(START, TASK, *turn(1, CALL), WorkerUpdate("started", "w", "c", origin=CHILD)),
        *(MessageEvent(Message("user", "the task"), origin=CHILD), TurnStart(1, "d", ("look",), origin=CHILD)),
        WorkerUpdate("failed", "w", "c", error="no", origin=CHILD),
    ).parts
    assert (part.track().given, part.track().failed) == ({"c": [("child", "task_1")]}, {"c"})
    own = part.track("task_1")
    assert [(turn.tools, [message.text for message in turn.said]) for turn in own.turns] == [
        ((), []),
        (("look",), ["the task"]),
    ]
    assert own.tools == ("look",)


def test_a_turn_for_a_summary_stands_beside_the_conversation() -> None:
    summary = MessageEvent(Message("user", "so far", summary=Summary("short")), summary_of=1)
    events = [TurnStart(1, "d", ()), summary, TurnEndEvent(1, "end", Usage()), *turn(2, said="Done.")]
    _, apart, told = read(START, TASK, *events).parts[0].track().turns
    assert (apart.said, apart.reply) == ((), Message("assistant", "short"))
    assert told.said == (TASK.message,)


def test_what_a_provider_wants_back_must_not_have_lost_a_secret() -> None:
    said = MessageEvent(Message("assistant", "x", native={"key": "[redacted:A_KEY]"}))
    track = read(START, TASK, TurnStart(1, "d", ()), said, TurnEndEvent(1, "end", Usage())).parts[0].track()
    assert (track.turns[1].end and track.turns[1].end.native) is None


@each_row(
    ("events", "problem"),
    [
        ([], "this is not a record of a session"),
        ([StatusEvent("info", "x")], "this is not a record of a session"),
        ([START, TASK], "no turn of a model"),
    ],
)
def test_what_cannot_be_repeated(events: list[Event], problem: str) -> None:
    with pytest.raises(WorkerError, match=problem):
        read(*events)


def test_a_broken_line_anywhere_is_an_error() -> None:
    *lines, last = lines_of(START, TASK, *turn(1), StatusEvent("info", "x", origin=CHILD))
    with pytest.raises(BadLine, match="status.message: not a text"):
        read_recording(Log(Path("record.jsonl"), (*lines, Line({**last.data, "message": 5}))))
