"""The loop: turns of model and tools, and the ways in which they end.

Covers forge_cli.engine.turns.environment, forge_cli.engine.turns.stream.
"""

from collections.abc import AsyncGenerator
from typing import Any

import anyio
import pytest

from forge_cli import (
    ApprovalDecision,
    ApprovalRequest,
    EventBus,
    InterruptSignal,
    WorkerRuntime,
    load_worker,
)
from forge_cli.core.actions import Interrupt
from forge_cli.core.calls import is_legal_id
from forge_cli.core.errors import ExitCode
from forge_cli.core.events import Event, MessageEvent, StatusEvent, Streaming, ToolStarted
from forge_cli.core.messages import Delta, Restart
from forge_cli.engine.turns.summary import listen
from forge_cli.events import CallResult, Message, OnAsk, ToolCall, Usage
from forge_cli.files.worker import Limits
from forge_cli.hooks import ModelRequest, TextDelta, TurnEnd
from forge_cli.testing import Project, Seen, call, calls
from tests.support.listener import Listener

TOOLS = """
import anyio
from forge_cli import Approval, ToolContext, tool

def look(n: int = 1) -> int: return n
def write(text: str) -> str: return f"wrote {text}"

@tool(needs_approval=Approval.BLOCKED)
def never() -> int: return 1

async def hang(context: ToolContext) -> str:
    context.interrupt.interrupt()
    await anyio.sleep_forever()
"""
WORKER = """
name: w
instructions: You work.
toolsets:
  custom:
    module: ./tools.py
    tools: [look, write, never, hang]
    approval: {default: ask, tools: {look: preApproved, hang: preApproved}}
"""
HEADLESS = "write was not called; denied: forge could not ask (not interactive)"


@pytest.fixture
def worker(project: Project) -> Project:
    project.write("tools.py", TOOLS)
    project.write("worker.yaml", WORKER)
    return project


def ended(seen: Seen) -> tuple[str, int, str, str | None]:
    return seen.result.status, seen.result.exit_code, seen.result.response, seen.result.error


def test_task_emits_its_events_in_order(worker: Project) -> None:
    seen = worker.run(calls(call("look", n=3), text="Let me see."), "It is {result}.", task="Look!")
    assert seen.types == [
        "sessionStart",
        "message",
        "turnStart",
        "message",
        "turnEnd",
        "toolStarted",
        "approvalDecided",
        "toolResult",
        "turnStart",
        "message",
        "turnEnd",
        "sessionEnd",
    ]
    asked, called, answered = [event.payload()["message"] for event in seen.of(MessageEvent)]
    assert asked == {"role": "user", "content": "Look!"}
    assert (called["role"], called["content"]) == ("assistant", "Let me see.")
    assert called["calls"] == [{"toolCallId": "call_1_1", "toolName": "look", "args": {"n": 3}}]
    assert (answered["role"], answered["content"]) == ("assistant", "It is 3.")
    assert "calls" not in answered
    assert "".join(event.delta for event in seen.of(Streaming)) == "Let me see.It is 3."
    assert [event.done for event in seen.of(Streaming)].count(True) == 2
    assert ended(seen) == ("completed", 0, "It is 3.", None)


def test_request_contains_the_expected_messages(worker: Project) -> None:
    first = [
        TextDelta("Hm."),
        ToolCall("a", "look", {"n": 3}),
        ToolCall("b", "nowhere", {}),
        TurnEnd("tool_use"),
    ]
    model = Listener(first, [TextDelta("Done."), TurnEnd("end", Usage(10, 5))])
    seen = worker.run(model=model, task="Look!")
    one, two = model.requests
    assert model.closed
    assert one.system.startswith("You work.\n\nYour environment:\n")
    assert [spec.name for spec in one.tools] == ["look", "write", "never", "hang"]
    assert list(one.messages) == [Message("user", "Look!")]
    not_found = "there is no tool 'nowhere'; the tools are: hang, look, never, write"
    assert list(two.messages) == [
        Message("user", "Look!"),
        Message(
            "assistant",
            "Hm.",
            calls=(ToolCall("a", "look", {"n": 3}), ToolCall("b", "nowhere", {})),
        ),
        Message(
            "tool",
            results=(
                CallResult("a", "look", "3"),
                CallResult("b", "nowhere", not_found, is_error=True),
            ),
        ),
    ]
    assert seen.result.usage == Usage(10, 5)


def test_calls_of_a_truncated_model_turn_are_not_made(
    worker: Project,
) -> None:
    seen = worker.run(model=Listener([TextDelta("I will"), ToolCall("a", "look", {})]))
    assert ended(seen) == (
        "failed",
        ExitCode.PROVIDER,
        "",
        "listener stopped in the middle of its answer",
    )
    assert seen.of(ToolStarted) == []


# --- nobody can be asked


def test_denied_call_does_not_end_the_work(worker: Project) -> None:
    seen = worker.run(
        calls(call("write", text="a"), call("look")), "I could not write: {results[0]}"
    )
    assert seen.statuses == ["denied", "success"]
    assert ended(seen) == ("completed", 0, f"I could not write: {HEADLESS}", None)
    why = f"{HEADLESS}; why it asked: the worker says ask ({worker.folder}/worker.yaml:8:25)"
    assert seen.result.denials == (
        {"tool": "write", "input": {"text": "a"}, "reason": why, "by": "headless"},
    )
    types = [kind for kind in seen.types if kind.startswith("approval")]
    assert types == ["approvalRequired", "approvalDecided", "approvalDecided"]


def test_every_refusal_is_in_the_denials(worker: Project) -> None:
    turn = calls(call("write", text="a"), call("never"), call("look", n="x"), call("nowhere"))
    seen = worker.run(turn, "done", answers=[ApprovalDecision(False, note="not now")])
    assert seen.result.tool_calls == 4
    assert seen.result.denials == (
        {
            "tool": "write",
            "input": {"text": "a"},
            "reason": "write was not called; the user said no: not now",
            "by": "user",
        },
        {
            "tool": "never",
            "input": {},
            "reason": "never is blocked: the tool says blocked",
            "by": "tool",
        },
    )


@pytest.mark.parametrize(
    ("refused", "status", "reason", "rule", "by"),
    [
        (
            call("write", text="a"),
            "denied",
            HEADLESS,
            "; why it asked: the worker says ask (WORKER:8:25)",
            "headless",
        ),
        (call("never"), "blocked", "never is blocked: the tool says blocked", "", "tool"),
    ],
)
def test_on_ask_fail_stops_at_the_first_refused_call(
    worker: Project, refused: dict[str, Any], status: str, reason: str, rule: str, by: str
) -> None:
    told = reason + rule.replace("WORKER", f"{worker.folder}/worker.yaml")
    turn = calls(
        call("look", n=1), refused, call("look", n=2), call("write", text="b"), text="Let me try."
    )
    seen = worker.run(turn, "never said", on_ask=OnAsk.FAIL)
    assert seen.statuses == ["success", status, "interrupted", "interrupted"]
    skipped = "not called: an earlier call was refused, and that ends the work"
    assert [outcome.error for outcome in seen.outcomes] == [None, reason, skipped, skipped]
    assert [event.tool_call_id for event in seen.of(ToolStarted)] == [
        "call_1_1",
        "call_1_2",
        "call_1_3",
        "call_1_4",
    ]
    assert ended(seen) == ("denied", ExitCode.DENIED, "Let me try.", told)
    assert (seen.result.turns, seen.result.tool_calls) == (1, 4)
    assert seen.result.denials == (
        {"tool": refused["tool"], "input": refused["input"], "reason": told, "by": by},
    )


def test_on_ask_fail_has_no_effect_with_a_person(worker: Project) -> None:
    seen = worker.run(calls(call("write", text="a")), "fine", answers=[False], on_ask=OnAsk.FAIL)
    assert ended(seen) == ("completed", 0, "fine", None)


@pytest.mark.parametrize(
    ("tool", "status"),
    [(call("write", text="a"), "completed"), (call("never"), "denied")],
    ids=["asked", "blocked"],
)
def test_on_ask_fail_under_approve_all_stops_only_at_blocked_calls(
    worker: Project, tool: dict[str, Any], status: str
) -> None:
    seen = worker.run(calls(tool), "fine", approval_mode="approve_all", on_ask=OnAsk.FAIL)
    assert ended(seen)[0] == status


# --- limits


def test_work_ends_at_the_limit_of_turns_and_keeps_its_results(worker: Project) -> None:
    turns = [calls(call("look", n=n), text=f"turn {n}") for n in range(1, 4)]
    seen = worker.run(*turns, limits=Limits(max_turns=2))
    assert ended(seen) == ("limit", ExitCode.LIMIT, "turn 2", "the limit of 2 turns was reached")
    assert seen.statuses == ["success", "success"]
    assert (seen.result.turns, seen.result.tool_calls) == (2, 2)


def test_answer_in_the_last_turn_does_not_exceed_the_limit(worker: Project) -> None:
    assert ended(worker.run(calls(call("look")), "done", limits=Limits(max_turns=2))) == (
        "completed",
        0,
        "done",
        None,
    )


# --- interruption


def test_interrupt_ends_a_running_tool(worker: Project) -> None:
    seen = worker.run(
        calls(call("hang"), call("look"), call("write", text="a")), "never said", answers=[]
    )
    assert seen.statuses == ["interrupted"] * 3
    assert {outcome.error for outcome in seen.outcomes} == {'{"type": "interrupted"}'}
    assert len(seen.of(ToolStarted)) == 3
    assert seen.asked == []
    assert ended(seen) == ("interrupted", ExitCode.INTERRUPTED, "[Interrupted]", None)
    assert (seen.result.success, seen.result.turns, seen.result.denials) == (True, 1, ())


def test_interrupt_ends_an_open_prompt(worker: Project) -> None:
    signal = InterruptSignal()

    async def never(request: ApprovalRequest) -> ApprovalDecision:
        signal.interrupt()
        await anyio.sleep_forever()
        raise AssertionError

    turn = calls(call("look"), call("write", text="a"), call("look"))
    seen = worker.run(turn, "never said", interrupt_signal=signal, approval_callback=never)
    assert seen.statuses == ["success", "interrupted", "interrupted"]
    assert ended(seen)[::2] == ("interrupted", "[Interrupted]")


@pytest.mark.parametrize("waits", [True, False])
def test_interrupt_ends_a_streaming_model(worker: Project, waits: bool) -> None:
    signal = InterruptSignal()

    class Endless(Listener):
        async def answer(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
            yield TextDelta("Once upon")
            yield ToolCall("a", "look", {})
            signal.interrupt()
            if waits:
                await anyio.sleep_forever()
            yield TurnEnd("tool_use")

    seen = worker.run(model=Endless(), interrupt_signal=signal)
    assert ended(seen) == ("interrupted", ExitCode.INTERRUPTED, "[Interrupted]", None)
    assert seen.of(ToolStarted) == []
    *told, last = seen.of(Streaming)
    assert (
        "".join(event.delta for event in told),
        any(event.done for event in told),
        last.done,
    ) == (
        "Once upon",
        False,
        True,
    )
    assert [event.payload()["message"] for event in seen.of(MessageEvent)][1:] == [
        {"role": "assistant", "content": "Once upon", "cutOff": True}
    ]


def test_signal_ends_the_work(worker: Project) -> None:
    signal = InterruptSignal()
    signal.interrupt("terminated")
    assert ended(worker.run("never said", interrupt_signal=signal))[:2] == (
        "interrupted",
        ExitCode.TERMINATED,
    )


def test_interrupt_can_come_over_the_bus(worker: Project) -> None:
    bus = EventBus()

    def stop(event: Event) -> None:
        if isinstance(event, ToolStarted):
            bus.emit(Interrupt("enough"))

    bus.subscribe(stop)
    signal = InterruptSignal()
    seen = worker.run(
        calls(call("look"), call("look")), "never said", bus=bus, interrupt_signal=signal
    )
    assert (seen.statuses, signal.reason) == (["interrupted", "interrupted"], "enough")


def test_restarted_turn_discards_its_first_part(worker: Project) -> None:
    half = [
        TextDelta("Half"),
        ToolCall("a", "look", {}),
        Restart("the line was cut"),
        TextDelta("Whole."),
        TurnEnd(),
    ]
    assert anyio.run(listen, Listener(half), ModelRequest("Say a title.", [], ())) == (
        "Whole.",
        TurnEnd(),
    )
    seen = worker.run(model=Listener(half))
    assert ended(seen) == ("completed", 0, "Whole.", None)
    assert seen.of(ToolStarted) == []
    voided = "ignore the partial answer above, it is asked for again: the line was cut"
    assert StatusEvent("info", voided, about="void") in seen.events


@pytest.mark.parametrize("second", ["a", ""])
def test_calls_with_duplicate_or_missing_ids_get_new_ones(worker: Project, second: str) -> None:
    first: list[Delta] = [
        ToolCall("a", "look", {"n": 1}),
        ToolCall(second, "look", {"n": 2}),
        TurnEnd("tool_use"),
    ]
    model = Listener(first, [TextDelta("Done."), TurnEnd("end")])
    seen = worker.run(model=model)
    assert (seen.statuses, seen.result.response) == (["success"] * 2, "Done.")
    _, asked, told = model.requests[1].messages
    one, two = (call.id for call in asked.calls)
    assert (one, two not in ("", "a")) == ("a", True)
    assert [(result.call_id, result.text) for result in told.results] == [(one, "1"), (two, "2")]
    assert {event.tool_call_id for event in seen.outcomes} == {one, two}


@pytest.mark.parametrize("again", ["a", "a b", "ä", "x" * 65])
def test_call_id_that_was_used_or_is_invalid_is_replaced(worker: Project, again: str) -> None:
    turns = [
        [ToolCall(each, "look", {"n": 1}), TurnEnd("tool_use", native="x")] for each in ("a", again)
    ]
    model = Listener(*turns, [TextDelta("Done."), TurnEnd("end")])
    seen = worker.run(model=model)
    ids = [event.tool_call_id for event in seen.of(ToolStarted)]
    assert (ids[0], len(set(ids)), is_legal_id(ids[1])) == ("a", 2, True)
    assert [message.native for message in model.requests[2].messages if message.calls] == [
        "x",
        None,
    ]


@pytest.mark.parametrize("spelled", ["Look", "LOOK", "lo_ok", "l-o.o k"])
def test_tool_name_matches_without_case_and_separators(worker: Project, spelled: str) -> None:
    turn = [ToolCall("a", spelled, {"n": 4}), TurnEnd("tool_use", native="x")]
    model = Listener(turn, [TextDelta("Done."), TurnEnd("end")])
    seen = worker.run(model=model)
    assert [event.tool_name for event in seen.of(ToolStarted)] == ["look"]
    _, asked, told = model.requests[1].messages
    assert ([call.name for call in asked.calls], asked.native, told.results[0].text) == (
        ["look"],
        None,
        "4",
    )


def test_tool_found_by_another_spelling_is_judged_by_its_own_name(
    worker: Project,
) -> None:
    seen = worker.run(calls(call("Write", text="x"), call("NEVER"), call("luk")), "Done.")
    assert [event.status for event in seen.outcomes] == ["denied", "blocked", "not_found"]
    assert [event.tool_name for event in seen.of(ToolStarted)] == ["write", "never", "luk"]


def test_ambiguous_spelling_matches_no_tool(project: Project) -> None:
    project.write("tools.py", "def a_b() -> int: return 1\n\ndef ab_() -> int: return 2\n")
    options = "{module: ./tools.py, tools: [a_b, ab_], approval: {default: preApproved}}"
    project.write("worker.yaml", f"name: w\ninstructions: Work.\ntoolsets:\n  custom: {options}\n")
    seen = project.run(calls(call("ab"), call("ab_")), "Done.")
    assert [event.status for event in seen.outcomes] == ["not_found", "success"]


def test_partial_character_waits_for_its_rest(worker: Project) -> None:
    seen = worker.run(
        model=Listener([TextDelta("a\ud83d"), TextDelta("\ude00 \ud800"), TurnEnd("end")])
    )
    assert seen.result.response == "a😀 \ufffd"
    assert "".join(event.delta for event in seen.of(Streaming)) == "a😀 \ufffd"


@pytest.mark.anyio
async def test_late_subscriber_gets_the_whole_answer(
    worker: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is shown without a subscriber; a secret is redacted even if it began before."""
    monkeypatch.setenv("MY_TOKEN", "tops3cretvalue")
    bus, heard = EventBus(), list[Event]()

    class Late(Listener):
        async def answer(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
            yield TextDelta("It is tops3")
            bus.subscribe(heard.append, only=(Streaming,))
            yield TextDelta("cretvalue, ")
            yield TextDelta("is it?")
            yield TurnEnd("end")

    with worker.environment(), anyio.fail_after(60):
        async with WorkerRuntime(
            worker=load_worker(worker.folder / "worker.yaml"), model=Late(), bus=bus
        ) as runtime:
            await runtime.run("go")
    told = [event for event in heard if isinstance(event, Streaming)]
    assert "".join(event.delta for event in told) == "It is [redacted:MY_TOKEN], is it?"
    assert [event.done for event in told].count(True) == 1


@pytest.mark.long
def test_turn_makes_at_most_two_hundred_calls(worker: Project) -> None:
    seen = worker.run(calls(*(call("look", n=n) for n in range(1000))), "Done.")
    assert seen.statuses == ["success"] * 200 + ["error"] * 800
    told = "not called: a turn makes 200 calls at most; make this one again in your next turn"
    assert {outcome.error for outcome in seen.outcomes[200:]} == {told}
    assert (seen.result.status, seen.result.tool_calls) == ("completed", 1000)


LONG = "x" * 1001
ENDLESS: dict[str, list[Delta]] = {
    "text": [TextDelta(LONG)],
    "pieces": [TextDelta("x" * 100)] * 11,
    "call": [ToolCall("c1", "write", {"text": LONG})],
    "unreadable": [ToolCall("c1", "write", {}, LONG)],
    "together": [TextDelta("x" * 600), ToolCall("c1", "write", {"text": "x" * 600})],
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_overlong_answer_is_aborted(
    worker: Project, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("forge_cli.engine.turns.limits.MAX_ANSWER_CHARACTERS", 1000)
    seen = worker.run(model=Listener([*ENDLESS[kind], TurnEnd()]))
    assert seen.result.status == "failed"
    assert "the answer is longer than 0 MiB" in str(seen.result.error)
    assert seen.of(ToolStarted) == []


def test_discarded_attempt_does_not_count_for_the_length_of_an_answer(
    worker: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forge_cli.engine.turns.limits.MAX_ANSWER_CHARACTERS", 1000)
    tries = [TextDelta("x" * 900), Restart("it broke off")] * 3
    seen = worker.run(model=Listener([*tries, TextDelta("done"), TurnEnd()]))
    assert (seen.result.status, seen.result.response) == ("completed", "done")
