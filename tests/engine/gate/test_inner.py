"""Tools that call tools: through the same gate, with the caller named, and each call with a result of its own.

Covers forge_cli.engine.gate.contexts.
"""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from forge_cli.core.approval import Approval, ApprovalDecision, ApprovalRequest
from forge_cli.core.calls import Denial, ToolOutcome
from forge_cli.core.context import CallContext, ToolContext
from forge_cli.core.errors import ToolError
from forge_cli.core.events import ApprovalDecided, ToolResult, ToolStarted
from forge_cli.core.results import Text
from forge_cli.core.tool import Args, Preview
from forge_cli.engine.gate.steps import Caller
from forge_cli.schema.tool import Tool
from forge_cli.schema.tool_fields import ManualExecution
from tests.engine.conftest import ANY_TEXT, OpenGate, Recorded

pytestmark = pytest.mark.anyio


class Calling:
    """A tool that calls another one, and keeps the outcome."""

    def __init__(self, target: str, name: str = "outer", **options: Any) -> None:
        self.outcomes: list[ToolOutcome] = []
        self.target = target
        given: dict[str, Any] = {
            "description": "Call.",
            "input_schema": ANY_TEXT,
            "needs_approval": False,
            **options,
        }
        self.tool = Tool(name=name, execute=self._execute, **given)

    async def _execute(self, args: Args, context: ToolContext) -> str:
        self.outcomes.append(await context.call(self.target, {"text": "inside"}))
        return f"outer: {self.outcomes[-1].text()}"


async def test_inner_call_has_a_parent(gate: OpenGate) -> None:
    inner, outer = Recorded("inner", needs_approval=False), Calling("inner")
    opened = gate(inner.tool, outer.tool)

    outcome = await opened("outer")

    assert (outcome.status, outcome.text()) == ("success", "outer: done")
    assert inner.executed == [{"text": "inside"}]
    by_tool = {
        "verdict": "preApproved",
        "approved": True,
        "by": "tool",
        "rule": None,
        "where": None,
        "cached": False,
    }
    said: dict[str, Any] = {**by_tool, "reason": "the tool needs no approval for this call"}
    assert opened.happened == [
        ToolStarted("c1", "outer", {}),
        ApprovalDecided("c1", **said),
        ToolStarted("c1.1", "inner", {"text": "inside"}, "c1"),
        ApprovalDecided("c1.1", **said, caller="tool:outer"),
        ToolResult("c1.1", "inner", "success", Text("done"), 0, parent_call_id="c1"),
        ToolResult("c1", "outer", "success", Text("outer: done"), 0),
    ]


async def test_request_names_the_calling_tool(gate: OpenGate) -> None:
    inner, outer = Recorded("inner"), Calling("inner")
    opened = gate(inner.tool, outer.tool, answers=[True])

    assert (await opened("outer")).ok

    [request] = opened.asked
    assert (request.caller, request.description) == (
        "tool:outer",
        "the tool outer of tester wants to call inner",
    )
    [_, decided] = [event for event in opened.events if isinstance(event, ApprovalDecided)]
    assert (decided.caller, decided.by) == ("tool:outer", "user")


async def test_call_of_the_model_has_no_caller_in_the_log(gate: OpenGate) -> None:
    opened = gate(Recorded("inner").tool, answers=[True])

    await opened("inner")

    assert opened.asked[0].caller is None
    assert "caller" not in opened.events[-2].payload()


@pytest.mark.parametrize(
    ("options", "status", "by"),
    [({}, "denied", "headless"), ({"needs_approval": Approval.BLOCKED}, "blocked", "tool")],
)
async def test_refused_inner_call_is_an_outcome_and_denies_the_outer_call(
    gate: OpenGate, options: dict[str, Any], status: str, by: str
) -> None:
    inner, outer = Recorded("inner", **options), Calling("inner")
    opened = gate(inner.tool, outer.tool)

    outcome = await opened("outer")

    [refused] = outer.outcomes
    assert (refused.status, outcome.status, inner.executed) == (status, "success", [])
    assert outcome.denials == (Denial(refused.refusal, by),)
    assert refused.refusal.startswith(str(refused.error))


async def test_missing_or_invalid_inner_call_is_an_outcome(gate: OpenGate) -> None:
    strict = Recorded(
        "strict", input_schema={"type": "object", "properties": {}, "additionalProperties": False}
    )
    missing, wrong = Calling("missing"), Calling("strict", "wrong")
    opened = gate(strict.tool, missing.tool, wrong.tool)

    await opened("outer")
    await opened("wrong")

    assert [missing.outcomes[0].status, wrong.outcomes[0].status] == ["not_found", "invalid"]


async def test_inner_calls_can_be_three_deep(gate: OpenGate) -> None:
    last = Recorded("t4", needs_approval=False)
    chain = [Calling(f"t{number + 1}", f"t{number}") for number in range(4)]
    opened = gate(*(each.tool for each in chain), last.tool)

    assert (await opened("t0")).ok

    [refused] = chain[3].outcomes
    assert refused.error == "t4 was not called: calls of tools by tools nest 3 deep at most"
    assert (refused.call.id, last.executed) == ("c1.1.1.1.1", [])
    results = {
        event.tool_call_id: event.parent_call_id
        for event in opened.events
        if isinstance(event, ToolResult)
    }
    assert results["c1.1.1.1.1"] == "c1.1.1.1"


@pytest.mark.parametrize(
    ("mode", "root", "allowed"),
    [
        ("llm", Caller.MODEL, True),
        ("both", Caller.MODEL, True),
        ("manual", Caller.MODEL, False),
        ("llm", Caller.PERSON, True),
        ("manual", Caller.PERSON, True),
        ("manual", Caller.OPERATOR, True),
    ],
)
async def test_inner_call_cannot_reach_manual_tools(
    gate: OpenGate, mode: Any, root: Caller, allowed: bool
) -> None:
    inner = Recorded("inner", needs_approval=False, manual=ManualExecution(mode=mode))
    outer = Calling("inner", manual=ManualExecution(mode="both"))
    opened = gate(inner.tool, outer.tool)

    await opened("outer", caller=root)

    assert outer.outcomes[0].ok is allowed
    if not allowed:
        assert outer.outcomes[0].error == "inner can only be called by a person"


async def test_own_check_of_a_tool_sees_the_caller(gate: OpenGate) -> None:
    def check(args: Args, context: CallContext) -> bool:
        callers.append(context.caller)
        return False

    callers: list[str] = []
    opened = gate(Recorded("inner", needs_approval=check).tool, Calling("inner").tool)

    await opened("outer")

    assert callers == ["tool:outer"]


async def test_approval_of_the_outer_call_does_not_cover_the_inner_one(gate: OpenGate) -> None:
    inner, outer = Recorded("inner"), Calling("inner", needs_approval=True)
    opened = gate(inner.tool, outer.tool, answers=[True, False])

    await opened("outer")

    assert [request.tool_name for request in opened.asked] == ["outer", "inner"]
    assert (outer.outcomes[0].status, inner.executed) == ("denied", [])


async def test_preview_cannot_call_tools(gate: OpenGate) -> None:
    async def preview(args: Args, context: ToolContext) -> Preview:
        await context.call("inner", {"text": "inside"})
        return Preview(Text("shown"))

    inner, outer = (
        Recorded("inner", needs_approval=False),
        Calling("inner", needs_approval=True, preview=preview),
    )
    opened = gate(inner.tool, outer.tool, answers=[True])

    outcome = await opened("outer")

    assert (outcome.status, outcome.error) == ("error", "outer cannot call other tools here")
    assert inner.executed == []


async def test_waiting_for_consent_does_not_count_for_the_outer_tool(
    gate: OpenGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(request: ApprovalRequest) -> ApprovalDecision:
        await anyio.sleep(0.4)
        return ApprovalDecision(True)

    monkeypatch.setattr("forge_cli.engine.gate.steps.TIME_LIMIT", 0.2)
    opened = gate(Recorded("inner").tool, Calling("inner").tool, answers=answer)
    with anyio.fail_after(60):
        assert (await opened("outer")).ok


async def test_outer_timeout_ends_the_inner_call(gate: OpenGate) -> None:
    async def wait(args: Args, context: ToolContext) -> str:
        await anyio.sleep_forever()
        return ""

    inner = Tool(
        name="inner", description="Wait.", input_schema=ANY_TEXT, execute=wait, needs_approval=False
    )
    outer = Calling("inner", timeout=0.1)
    opened = gate(inner, outer.tool)

    with anyio.fail_after(60):
        outcome = await opened("outer")

    assert outcome.status == "timeout"
    results = [
        (event.tool_call_id, event.status)
        for event in opened.events
        if isinstance(event, ToolResult)
    ]
    assert results == [("c1.1", "interrupted"), ("c1", "timeout")]


async def test_interrupt_ends_both_calls(gate: OpenGate) -> None:
    async def stop(args: Args, context: ToolContext) -> str:
        opened.interrupt.interrupt()
        await anyio.sleep_forever()
        return ""

    inner = Tool(
        name="inner", description="Stop.", input_schema=ANY_TEXT, execute=stop, needs_approval=False
    )
    opened = gate(inner, Calling("inner").tool)

    with anyio.fail_after(60):
        await opened("outer")

    results = [
        (event.tool_call_id, event.status)
        for event in opened.events
        if isinstance(event, ToolResult)
    ]
    assert results == [("c1.1", "interrupted"), ("c1", "interrupted")]


async def test_stopped_tool_cannot_call_tools(gate: OpenGate) -> None:
    async def insist(args: Args, context: ToolContext) -> str:
        while True:
            try:
                await context.call("inner", {"text": "again"})
            except ToolError as error:
                ends.append(str(error))
                raise
            except anyio.get_cancelled_exc_class():
                pass

    async def wait(args: Args, context: ToolContext) -> str:
        await anyio.sleep_forever()
        return ""

    ends: list[str] = []
    inner = Tool(
        name="inner", description="Wait.", input_schema=ANY_TEXT, execute=wait, needs_approval=False
    )
    outer = Tool(
        name="outer",
        description="Go.",
        input_schema=ANY_TEXT,
        execute=insist,
        needs_approval=False,
        timeout=0.1,
    )
    opened = gate(inner, outer)

    with anyio.fail_after(60):
        await opened("outer")

    assert ends == ["outer is being stopped, so it cannot call other tools"]
