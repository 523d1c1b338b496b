"""The state of a session, computed from its lines."""

import csv
import io
import tracemalloc

from msgspec.structs import replace

from forge_cli import ApprovalDecision, ApprovalRequest, Text
from forge_cli.core.actions import ApprovalResponse
from forge_cli.core.events import (
    ApprovalDecided,
    ApprovalRequired,
    ContextUsage,
    Event,
    MessageEvent,
    SessionStart,
    ToolResult,
    ToolStarted,
    TurnStart,
    WorkerUpdate,
)
from forge_cli.core.messages import Summary
from forge_cli.events import Message, ToolCall
from forge_cli.record.calls import decisions_csv
from forge_cli.record.resume import past_of, read_past
from forge_cli.record.state import SessionState, fold_lines
from forge_cli.record.undo import calls_since
from tests.support.lines import CHILD, lines_of

START = SessionStart("script:x", "/w", "interactive")
HELP, PAY = ToolCall("h", "child", {}), ToolCall("p", "pay", {"to": "Ana"})
ASKED = ApprovalRequired(
    ApprovalRequest("r", "p", "pay", PAY.args, "child wants to pay", "it asks", "high", None, None)
)
YES = ApprovalDecision(True)


def said(text: str) -> MessageEvent:
    return MessageEvent(Message("user", text))


def told(*calls: ToolCall, text: str = "") -> MessageEvent:
    return MessageEvent(Message("assistant", text, calls))


def decided(call: ToolCall, approved: bool = True, request: str | None = None) -> ApprovalDecided:
    return ApprovalDecided(
        call.id, "ask", approved, "user", None, None, "why", cached=False, request_id=request
    )


def started(call: ToolCall) -> ToolStarted:
    return ToolStarted(call.id, call.name, call.args)


def ended(call: ToolCall) -> ToolResult:
    return ToolResult(call.id, call.name, "success", Text("done"), 1)


def below(*events: Event) -> list[Event]:
    """The same, from the child worker."""
    return [replace(event, origin=CHILD) for event in events]


def story() -> list[Event]:
    """A child worker that asks, is answered later and resumed; then other tasks and an undo."""
    return [
        *(
            START,
            said("go"),
            TurnStart(1, "d", ("child",)),
            told(HELP),
            started(HELP),
            decided(HELP),
        ),
        *below(WorkerUpdate("started", "w", "h"), said("help"), told(PAY), started(PAY), ASKED),
        *(ApprovalResponse("r", YES), START),
        *below(
            decided(PAY, request="r"),
            ended(PAY),
            told(text="Helped."),
            WorkerUpdate("completed", "w", "h"),
        ),
        *(
            ended(HELP),
            ContextUsage(5, 100, elided=("h",)),
            told(text="Done."),
            said("more"),
            told(text="Yes."),
        ),
        *(
            MessageEvent(Message("user", "so far", summary=Summary("short")), summary_of=3),
            said("and more"),
        ),
        *(
            told(text="Well."),
            ContextUsage(0, 100, rewound=20),
            said("otherwise"),
            ContextUsage(0, 100, cleared=True),
        ),
    ]


def test_reading_the_state_does_not_change_it() -> None:
    lines, state = lines_of(*story()), SessionState()
    failures = []
    for end, line in enumerate(lines, 1):
        state.take(line)
        if past_of(state) != read_past(lines[:end]):
            failures.append(end)
    assert failures == []


def test_undo_restores_messages_from_before_a_compaction() -> None:
    def texts(*events: Event) -> list[str]:
        return [message.text for message in read_past(lines_of(*events)).messages]

    talk = [START, said("a"), told(text="b"), said("c"), told(text="d"), said("e"), told(text="f")]
    summary = MessageEvent(Message("user", "abcd", summary=Summary("s")), summary_of=4)
    after = [summary, said("g"), told(text="h")]
    assert texts(*talk, *after) == ["abcd", "e", "f", "g", "h"]
    assert texts(*talk, *after, ContextUsage(0, 9, rewound=9)) == ["abcd", "e", "f"]
    assert texts(*talk, *after, ContextUsage(0, 9, rewound=6)) == ["a", "b", "c", "d"]
    assert texts(
        *talk, *after, ContextUsage(0, 9, rewound=6), said("i"), ContextUsage(0, 9, rewound=4)
    ) == ["a", "b"]


def test_repeated_call_id_is_another_call() -> None:
    other = ToolCall("p", "pay", {"to": "Bob"})
    events = [
        START,
        told(PAY),
        started(PAY),
        decided(PAY),
        ended(PAY),
        told(other),
        started(other),
        decided(other),
    ]
    state = fold_lines(lines_of(*events))
    assert [(each.call, each.result is not None, each.number) for each in state.calls] == [
        (PAY, True, 1),
        (other, False, 2),
    ]
    assert calls_since(lines_of(*events), 1).unknown == (PAY, other)


def test_long_conversation_is_not_copied_for_each_message() -> None:
    lines = lines_of(
        *(event for number in range(1500) for event in (said(f"{number}"), told(text="ok")))
    )
    for line in lines:
        _ = line.event
    tracemalloc.start()
    state = fold_lines(lines)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(state.workers[None].messages) == 3000
    assert most < 4_000_000, most


def test_decision_has_the_end_of_its_own_call() -> None:
    other = ToolCall("p", "pay", {"to": "Bob"})
    lines = lines_of(
        START,
        told(PAY),
        started(PAY),
        decided(PAY),
        ended(PAY),
        told(other),
        started(other),
        decided(other),
    )
    rows = list(csv.DictReader(io.StringIO(decisions_csv([lines]))))
    assert [(row["input"], row["status"]) for row in rows] == [
        ('{"to": "Ana"}', "success"),
        ('{"to": "Bob"}', ""),
    ]
