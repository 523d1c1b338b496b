"""Execution at the gate: every call has one result, for every return value and exception of a tool.

Covers forge_cli.engine.gate.guard, forge_cli.engine.gate.outcome.
"""

import asyncio
import json
import re
import threading
from typing import Any

import anyio
import pytest

from forge_cli import ApprovalDecision, Tool, ToolContext, ToolError
from forge_cli.core.events import Event, StatusEvent, ToolResult
from forge_cli.core.results import VALUE_LIMIT, Custom, Json, ResultValue, Text
from forge_cli.core.text import cut
from forge_cli.errors import BlockedError
from forge_cli.events import ToolOutcome
from forge_cli.testing import Project, call, calls
from tests.engine.conftest import Gate, OpenGate, Recorded

pytestmark = pytest.mark.anyio

INTERRUPTED = '{"type": "interrupted"}'


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even that")


def ring() -> list[Any]:
    itself: list[Any] = ["ring"]
    itself.append(itself)
    return itself


def tool_of(function: Any, **options: Any) -> Tool:
    return Tool.from_function(function, name="act", needs_approval=False, **options)


async def outcome_of(gate: OpenGate, function: Any, **options: Any) -> ToolOutcome:
    opened = gate(tool_of(function, **options))
    with anyio.fail_after(60):
        outcome = await opened("act")
    assert opened.types == ["toolStarted", "approvalDecided", "toolResult"]
    reported = opened.events[-1]
    assert isinstance(reported, ToolResult)
    assert (reported.status, reported.value, reported.error) == (
        outcome.status,
        outcome.value,
        outcome.error,
    )
    json.dumps(reported.payload(), allow_nan=False).encode()
    return outcome


@pytest.mark.parametrize(
    ("returned", "value"),
    [
        (None, Text("The tool returned nothing.")),
        (b"\xff", Text("[1 bytes that are not UTF-8 text]")),
        ({3, 1, 2}, Json([1, 2, 3])),
        ([float("nan")], Json(["nan"])),
        ({"kind": "git.status", "data": 1}, Custom("git.status", 1)),
        ("x" * (2 * VALUE_LIMIT), Text(cut("x" * (2 * VALUE_LIMIT), VALUE_LIMIT))),
        (["x" * (2 * VALUE_LIMIT)], Text(cut(json.dumps(["x" * (2 * VALUE_LIMIT)]), VALUE_LIMIT))),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_every_return_value_becomes_a_result(
    gate: OpenGate, returned: Any, value: ResultValue
) -> None:
    async def act() -> Any:
        return returned

    outcome = await outcome_of(gate, act)
    assert (outcome.status, outcome.value, outcome.error) == ("success", value, None)


ERRORS = [
    (RuntimeError("broken"), "error", "RuntimeError: broken"),
    (KeyError("k"), "error", "KeyError: 'k'"),
    (ValueError(), "error", "ValueError"),
    (ToolError("no such branch"), "error", "no such branch"),
    (ToolError(), "error", "act failed without a message"),
    (Mute(), "error", "Mute"),
    (ToolError(Mute()), "error", "ToolError"),
    (ToolError("no such branch", value=ring()), "error", "no such branch"),
    (ToolError("no such branch", value=Unspeakable()), "error", "no such branch"),
    (BlockedError("act", "never on Fridays"), "blocked", "act: never on Fridays"),
    (SystemExit(3), "error", "SystemExit: 3"),
    (SystemExit(), "error", "SystemExit"),
    (TimeoutError("upstream"), "error", "TimeoutError: upstream"),
    (StopIteration("odd"), "error", "RuntimeError: coroutine raised StopIteration"),
    (asyncio.CancelledError("mine"), "error", "CancelledError: mine"),
    (
        BaseExceptionGroup("two", [SystemExit(1), ValueError("x")]),
        "error",
        "BaseExceptionGroup: two (2 sub-exceptions)",
    ),
]


@pytest.mark.parametrize(
    ("error", "status", "sentence"), ERRORS, ids=lambda value: type(value).__name__
)
async def test_every_exception_of_an_async_tool_becomes_a_result(
    gate: OpenGate, error: BaseException, status: str, sentence: str
) -> None:
    async def act() -> Any:
        raise error

    outcome = await outcome_of(gate, act)
    assert (outcome.status, outcome.value) == (status, Text(outcome.error))
    assert without_place(outcome.error) == sentence


@pytest.mark.parametrize(
    ("error", "status", "sentence"),
    [
        *[row for row in ERRORS if not isinstance(row[0], StopIteration)],
        (StopIteration("odd"), "error", "RuntimeError: StopIteration: odd"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_every_exception_of_a_sync_tool_becomes_a_result(
    gate: OpenGate, error: BaseException, status: str, sentence: str
) -> None:
    def act() -> Any:
        raise error

    outcome = await outcome_of(gate, act)
    assert (outcome.status, outcome.value) == (status, Text(outcome.error))
    assert without_place(outcome.error) == sentence


def without_place(sentence: str | None) -> str:
    """The error of a tool, without its line."""
    return re.sub(r" \(test_guard_execution\.py:\d+\)$", "", sentence or "")


@pytest.mark.parametrize("error", [RuntimeError("broken"), SystemExit(3)])
async def test_error_result_names_the_line_of_the_author(
    gate: OpenGate, error: BaseException
) -> None:
    def deeper() -> Any:
        raise error

    def act() -> Any:
        return deeper()

    line = deeper.__code__.co_firstlineno + 1
    outcome = await outcome_of(gate, act)
    assert (outcome.error or "").endswith(f" (test_guard_execution.py:{line})")
    assert "\n" not in (outcome.error or "")


# --- timeouts


async def test_async_tool_is_stopped_after_its_timeout(gate: OpenGate) -> None:
    stopped: list[bool] = []

    async def act() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            stopped.append(True)

    outcome = await outcome_of(gate, act, timeout=0.01)
    sentence = "act was stopped after 0.01 seconds"
    assert (outcome.status, outcome.error, stopped) == ("timeout", sentence, [True])


async def test_sync_tool_is_abandoned_after_its_timeout(gate: OpenGate) -> None:
    let_go = threading.Event()

    def act() -> None:
        let_go.wait()

    try:
        outcome = await outcome_of(gate, act, timeout=0.01)
    finally:
        let_go.set()
    assert (outcome.status, outcome.error) == ("timeout", "act was stopped after 0.01 seconds")


async def test_time_at_the_prompt_does_not_count_for_a_tool(gate: OpenGate) -> None:
    async def think(request: Any) -> ApprovalDecision:
        await anyio.sleep(0.05)
        return ApprovalDecision(True)

    assert (await gate(Recorded(timeout=0.04).tool, answers=think)("act")).ok


# --- interruption


async def test_interrupt_stops_an_async_tool(gate: OpenGate) -> None:
    stopped: list[bool] = []

    async def act() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            stopped.append(True)

    opened = gate(tool_of(act))
    await _interrupted_when(opened, "approvalDecided")
    assert stopped == [True]


async def test_interrupt_abandons_a_thread(gate: OpenGate) -> None:
    let_go = threading.Event()

    def act() -> None:
        let_go.wait()

    opened = gate(tool_of(act))
    try:
        await _interrupted_when(opened, "approvalDecided")
    finally:
        let_go.set()


async def test_interrupt_ends_a_question_to_a_callback(gate: OpenGate) -> None:
    async def never(request: Any) -> ApprovalDecision:
        await anyio.sleep_forever()
        raise AssertionError

    act = Recorded()
    await _interrupted_when(gate(act.tool, answers=never), "approvalRequired")
    assert act.executed == []


async def test_interrupt_ends_a_question_on_the_bus(gate: OpenGate) -> None:
    act = Recorded()
    opened = gate(act.tool)
    opened.bus.subscribe(lambda event: None, answers=True)
    await _interrupted_when(opened, "approvalRequired")
    assert act.executed == []


async def test_interrupt_by_the_callback_overrides_its_yes(gate: OpenGate) -> None:
    async def stop_it(request: Any) -> ApprovalDecision:
        opened.interrupt.interrupt()
        return ApprovalDecision(True)

    act = Recorded()
    opened = gate(act.tool, answers=stop_it)
    assert (await opened("act")).status == "interrupted"
    assert act.executed == []


@pytest.mark.parametrize("mode", ["approve_all", "interactive"])
async def test_call_after_an_interrupt_is_not_executed(gate: OpenGate, mode: str) -> None:
    act = Recorded(needs_approval=mode == "approve_all")
    opened = gate(act.tool, mode=mode)
    opened.interrupt.interrupt()
    outcome = await opened("act")
    assert (outcome.status, outcome.error) == ("interrupted", INTERRUPTED)
    assert opened.types == ["toolStarted", "toolResult"]
    assert act.executed == []


async def test_tool_that_ends_despite_an_interrupt_keeps_its_result(
    gate: OpenGate,
) -> None:
    async def act(context: ToolContext) -> str:
        context.interrupt.interrupt()
        return "done all the same"

    assert (await outcome_of(gate, act)).value == Text("done all the same")


async def _interrupted_when(opened: Gate, event_type: str) -> None:
    """Call ``act``, interrupt once the event has come and everybody waits; the call must end so."""

    def hear(event: Event) -> None:
        if event.type == event_type:
            reached.set()

    reached = anyio.Event()
    opened.bus.subscribe(hear)
    outcomes: list[ToolOutcome] = []

    async def work() -> None:
        outcomes.append(await opened("act"))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work)
            await reached.wait()
            await anyio.lowlevel.checkpoint()
            opened.interrupt.interrupt()
    (outcome,) = outcomes
    assert (outcome.status, outcome.value, outcome.error) == (
        "interrupted",
        Text(INTERRUPTED),
        INTERRUPTED,
    )
    assert opened.types.count("toolResult") == 1


# --- the whole story


def test_failed_call_stops_neither_other_calls_nor_the_work(project: Project) -> None:
    project.write(
        "tools.py",
        "import sys\ndef leaves(how: str) -> str: sys.exit(how)\nasync def divides(by: int) -> float: return 1 / by\n",
    )
    project.write(
        "worker.yaml",
        "name: w\n"
        "toolsets:\n"
        "  custom: {module: ./tools.py, tools: [leaves, divides], approval: {default: preApproved}}\n",
    )
    turn = calls(call("leaves", how="bye"), call("divides", by=0), call("divides", by=2))
    seen = project.run(turn, "{results[0]} | {results[1]} | {results[2]}")
    assert seen.statuses == ["error", "error", "success"]
    assert seen.result.response == (
        "SystemExit: bye (tools.py:2) | ZeroDivisionError: division by zero (tools.py:3) | 0.5"
    )


def test_results_over_their_limits_are_cut_and_each_cut_is_named(
    project: Project,
) -> None:
    project.write("tools.py", "def pour(n: int) -> str: return 'a' * n + 'z' * n\n")
    project.write(
        "worker.yaml",
        "name: w\ntoolsets: {custom: {module: ./tools.py, tools: [pour], approval: {default: preApproved}}}\n",
    )
    n = 1024 * 1024
    seen = project.run(calls(call("pour", n=n)), "{result}")
    kept = cut("a" * n + "z" * n, VALUE_LIMIT)
    assert seen.outcomes[0].value == Text(kept)
    assert seen.result.response == cut(kept, 20_000)
    assert len(kept) <= VALUE_LIMIT
    assert len(seen.result.response) <= 20_000
    read = seen.result.response.count("a", 0, 15_000) + seen.result.response.count("z")
    assert read > 19_900


def test_invalid_result_kind_becomes_json_with_a_warning(project: Project) -> None:
    project.write(
        "tools.py", "def odd() -> dict:\n    'Odd.'\n    return {'kind': 'text', 'body': 'x'}\n"
    )
    project.write(
        "worker.yaml",
        "name: w\ntoolsets: {custom: {module: ./tools.py, tools: [odd], approval: {default: preApproved}}}\n",
    )
    seen = project.run(calls(call("odd")), "done")
    assert seen.outcomes[0].value == Json({"kind": "text", "body": "x"})
    warnings = [
        event.message
        for event in seen.events
        if isinstance(event, StatusEvent) and event.level == "warning"
    ]
    assert [sentence.partition(":")[0] for sentence in warnings] == ["odd"]


async def test_tool_is_notified_of_the_end_of_its_calls(gate: OpenGate) -> None:
    told: list[tuple[dict[str, Any], str]] = []

    def note(args: dict[str, Any], status: str) -> None:
        told.append((args, status))
        raise ValueError("nobody minds")

    def act(text: str) -> str:
        return text

    opened = gate(
        Tool.from_function(act, needs_approval=True, on_outcome=note), answers=[True, False]
    )
    statuses = [
        (await opened("act", **args)).status for args in ({"text": "a"}, {"text": "b"}, {"n": 1})
    ]
    assert statuses == ["success", "denied", "invalid"]
    assert told == [({"text": "a"}, "success"), ({"text": "b"}, "denied"), ({"n": 1}, "invalid")]
