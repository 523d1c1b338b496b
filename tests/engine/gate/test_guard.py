"""The gate's order: exists, caller allowed, input valid, verdict, consent; and one result for every call.

Covers forge_cli.engine.gate.judge, forge_cli.engine.gate.steps.
"""

import threading
from dataclasses import replace
from typing import Any

import pytest

from forge_cli import Approval, ApprovalDecision, Tool, ToolContext, Verdict, tool
from forge_cli.core.actions import ApprovalResponse
from forge_cli.core.errors import Mark
from forge_cli.core.events import (
    ApprovalDecided,
    ApprovalRequired,
    Event,
    StatusEvent,
    ToolResult,
    ToolStarted,
)
from forge_cli.core.results import Json, Text
from forge_cli.core.source import ToolMode
from forge_cli.engine.gate.steps import Caller
from forge_cli.events import ToolCall
from forge_cli.hooks import ManualExecution
from forge_cli.testing import Project, call, calls
from tests.engine.conftest import OpenGate, Recorded

pytestmark = pytest.mark.anyio


def refused(
    name: str, status: Any, sentence: str, args: dict[str, Any] | None = None
) -> list[Event]:
    """All events of a call without a question: its start and its result."""
    return [
        ToolStarted("c1", name, args or {}),
        ToolResult("c1", name, status, Text(sentence), 0, sentence),
    ]


async def test_unknown_tool_is_an_error(gate: OpenGate) -> None:
    opened = gate(Recorded("act").tool, Recorded("look").tool, answers=[])
    await opened("atc", text="x")
    sentence = "there is no tool 'atc'; did you mean 'act'? the tools are: act, look"
    assert opened.happened == refused("atc", "not_found", sentence, {"text": "x"})
    assert opened.asked == []


async def test_unknown_tool_suggests_similar_names(gate: OpenGate) -> None:
    known = [Recorded(name).tool for name in ("read_file", "web_fetch", "git_status", "demo__add")]
    opened = gate(
        *known, replace(Recorded("push").tool, manual=ManualExecution(mode="manual")), answers=[]
    )
    meant = {
        "webfetch": "web_fetch",
        "WebFetch": "web_fetch",
        "web-fetch": "web_fetch",
        "fetch_web": None,
        "ReadFile": "read_file",
        "readFile": "read_file",
        "functions.read_file": "read_file",
        "read_files": "read_file",
        "add": "demo__add",
        "ADD": "demo__add",
        "mcp.add": "demo__add",
        "mcp__demo__add": "demo__add",
        "other__add": "demo__add",
        "demo/read_file": "read_file",
        "server__": None,
        "__": None,
        "gitstatus": "git_status",
        "pusH": None,
        "x" * 100_000: None,
        "": None,
    }
    told = {name: (await opened(name)).error or "" for name in meant}
    assert {
        name: said.partition("did you mean '")[2].partition("'")[0] or None
        for name, said in told.items()
    } == meant


async def test_unknown_tool_name_with_control_characters_is_escaped(
    gate: OpenGate,
) -> None:
    opened = gate(answers=[])
    outcome = await opened("\x1b[2Jls")
    assert outcome.error == "there is no tool '\\x1b[2Jls'; the tools are: none"


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ({"text": 7, "more": 1}, "invalid input for act: text: must be a string, got 7"),
        ({"txt": "x"}, "invalid input for act: unknown field 'txt' (did you mean 'text'?)"),
        (
            {"text": "\ud800"},
            "invalid input for act: it contains a lone surrogate, which is not text",
        ),
    ],
)
async def test_invalid_input_is_an_error(
    gate: OpenGate, args: dict[str, Any], sentence: str
) -> None:
    act = Recorded(needs_approval=True)
    opened = gate(act.tool, answers=[])
    outcome = await opened("act", **args)
    assert (outcome.status, opened.types) == ("invalid", ["toolStarted", "toolResult"])
    assert str(outcome.error).startswith(sentence)
    assert act.executed == opened.asked == []


async def test_unreadable_input_is_an_error(gate: OpenGate) -> None:
    opened = gate(Recorded(needs_approval=True).tool, answers=[])
    await opened.guard.call(ToolCall("c1", "act", {}, unreadable='{"text": '), Caller.MODEL)
    assert opened.happened == refused(
        "act", "invalid", 'the input of act is not a JSON object: {"text": '
    )
    assert opened.asked == []


@pytest.mark.parametrize("word", [None, True, False, Approval.BLOCKED])
async def test_manual_tool_cannot_be_called_by_the_model(gate: OpenGate, word: Any) -> None:
    act = Recorded(needs_approval=word, manual=ManualExecution("manual"))
    opened = gate(act.tool, answers=[], mode="approve_all")
    outcome = await opened("act")
    assert opened.happened == refused("act", "blocked", "act can only be called by a person")
    assert outcome.by == "tool"
    assert act.executed == opened.asked == []


@pytest.mark.parametrize(
    ("mode", "callers"),
    [
        (None, {Caller.MODEL, Caller.OPERATOR, Caller.PROGRAM}),
        ("llm", {Caller.MODEL, Caller.OPERATOR, Caller.PROGRAM}),
        ("manual", {Caller.PERSON, Caller.OPERATOR, Caller.PROGRAM}),
        ("both", set(Caller)),
    ],
)
async def test_caller_kinds_limit_the_tools(
    gate: OpenGate, mode: ToolMode | None, callers: set[Caller]
) -> None:
    act = Recorded(needs_approval=False, manual=ManualExecution(mode) if mode else None)
    opened = gate(act.tool)
    allowed = {caller for caller in Caller if (await opened("act", caller=caller)).ok}
    assert allowed == callers
    assert len(act.executed) == len(callers)


async def test_model_tool_cannot_be_called_by_a_person_in_a_conversation(gate: OpenGate) -> None:
    opened = gate(Recorded(needs_approval=False).tool)
    await opened("act", caller=Caller.PERSON)
    assert opened.happened == refused("act", "blocked", "act can only be called by the model")


async def test_approval_of_a_tool_is_not_evaluated_before_its_input_is_valid(
    gate: OpenGate,
) -> None:
    heard: list[Any] = []

    def word(args: dict[str, Any]) -> bool:
        heard.append(args)
        return False

    opened = gate(Recorded(needs_approval=word).tool)
    await opened("act", text=1)
    assert heard == []
    await opened("act", text="x")
    assert heard == [{"text": "x"}]


async def test_asked_call_has_all_its_events(gate: OpenGate) -> None:
    where = Mark("rules.yaml", 3, 7)
    act = Recorded(needs_approval=Verdict(Approval.ASK, "it sends mail", "mail", where, by="rule"))
    opened = gate(act.tool, answers=[ApprovalDecision(True, note="just this once")])
    await opened("act", text="hi")
    request = opened.asked[0]
    assert (request.args, request.risk, request.reason) == ({"text": "hi"}, "high", "it sends mail")
    started, required, *later = opened.happened
    assert (started, required.type) == (
        ToolStarted("c1", "act", {"text": "hi"}),
        "approvalRequired",
    )
    assert later == [
        ApprovalResponse(request.request_id, ApprovalDecision(True, note="just this once")),
        ApprovalDecided(
            "c1",
            verdict="ask",
            approved=True,
            by="user",
            rule="mail",
            where=where,
            reason="it sends mail; just this once",
            cached=False,
            request_id=request.request_id,
        ),
        ToolResult("c1", "act", "success", Text("done"), 0),
    ]


async def test_asked_call_over_the_bus_has_the_same_events(gate: OpenGate) -> None:
    act = Recorded(needs_approval=True)
    opened = gate(act.tool)

    def answer(event: Event) -> None:
        if isinstance(event, ApprovalRequired):
            opened.bus.answer(event.request.request_id, ApprovalDecision(True))

    opened.bus.subscribe(answer, answers=True)
    await opened("act")
    assert opened.types == [
        "toolStarted",
        "approvalRequired",
        "approvalResponse",
        "approvalDecided",
        "toolResult",
    ]
    assert act.executed == [{}]


@pytest.mark.parametrize("spoil", ["word", "preview", "answer", "event"])
async def test_executed_call_is_the_approved_one(gate: OpenGate, spoil: str) -> None:
    """Code that inspects the args of a call cannot change them."""

    def spoiled(args: Any, who: str) -> None:
        if who == spoil:
            args["text"] = "something else"

    def word(args: dict[str, Any]) -> bool:
        spoiled(args, "word")
        return True

    async def preview(args: dict[str, Any], context: ToolContext) -> Any:
        spoiled(args, "preview")

    async def answer(request: Any) -> ApprovalDecision:
        spoiled(request.args, "answer")
        return ApprovalDecision(True)

    act = Recorded(needs_approval=word, preview=preview)
    opened = gate(act.tool, answers=answer)
    opened.bus.subscribe(
        lambda event: (
            spoiled(event.request.args, "event") if isinstance(event, ApprovalRequired) else None
        )
    )
    await opened("act", text="as asked")
    assert act.executed == [{"text": "as asked"}]


async def test_failing_callback_is_not_a_yes(gate: OpenGate) -> None:
    async def broken(request: Any) -> ApprovalDecision:
        raise RuntimeError("no terminal")

    act = Recorded()
    outcome = await gate(act.tool, answers=broken)("act")
    assert (outcome.status, outcome.by) == ("denied", "headless")
    assert (
        outcome.error
        == "act was not called; denied: the approval callback failed: RuntimeError: no terminal"
    )
    assert act.executed == []


async def test_callback_cancelled_during_a_question_is_not_a_yes(gate: OpenGate) -> None:
    act = Recorded()
    opened = gate(act.tool)

    def leave(event: Event) -> None:
        if isinstance(event, ApprovalRequired):
            unsubscribe()

    unsubscribe = opened.bus.subscribe(leave, answers=True)
    outcome = await opened("act")
    assert (outcome.status, outcome.by) == ("denied", "headless")
    assert outcome.error == "act was not called; denied: no one is there to answer"
    assert act.executed == []


async def test_context_of_a_call_is_complete(gate: OpenGate) -> None:
    seen: list[ToolContext] = []

    async def look(args: Any, context: ToolContext) -> None:
        seen.append(context)
        context.progress("half way", 0.5)

    opened = gate(
        Tool(
            name="look",
            description="",
            input_schema={"type": "object"},
            execute=look,
            needs_approval=False,
        )
    )
    await opened("look")
    (context,) = seen
    assert (context.call_id, context.tool, context.worker) == ("c1", "look", "tester")
    assert (context.workspace, context.sandbox) == (
        opened.guard.judge.worker.workspace,
        context.sandbox,
    )
    assert context.interrupt is opened.interrupt
    assert StatusEvent("info", "half way", tool_call_id="c1", progress=0.5) in opened.events


async def test_progress_from_a_thread_precedes_the_result(gate: OpenGate) -> None:
    @tool(needs_approval=False)
    def slow(context: ToolContext) -> int:
        context.progress("one")
        context.progress("two", 1.0)
        return 3

    opened = gate(Tool.from_function(slow))
    threads: set[int] = set()
    opened.bus.subscribe(lambda event: threads.add(threading.get_ident()))
    await opened("slow")
    assert threads == {threading.get_ident()}
    assert opened.happened[-3:] == [
        StatusEvent("info", "one", tool_call_id="c1"),
        StatusEvent("info", "two", tool_call_id="c1", progress=1.0),
        ToolResult("c1", "slow", "success", Json(3), 0),
    ]


def test_every_call_of_a_turn_has_one_start_and_one_result(
    project: Project,
) -> None:
    project.write(
        "tools.py",
        "from forge_cli import Approval, tool\n"
        "def ok(n: int = 1) -> int: return n\n"
        "def fails() -> int: raise RuntimeError('broken')\n"
        "@tool(needs_approval=Approval.BLOCKED)\n"
        "def never() -> int: return 1\n"
        "@tool(manual='manual')\n"
        "def by_hand() -> int: return 1\n",
    )
    project.write(
        "worker.yaml",
        "name: w\n"
        "toolsets:\n"
        "  custom:\n"
        "    module: ./tools.py\n"
        "    tools: [ok, fails, never, by_hand]\n"
        "    approval: {tools: {fails: preApproved}}\n",
    )
    made = [call(name) for name in ("ok", "fails", "never", "by_hand", "nowhere", "ok")]
    made.append(call("ok", n="many"))
    seen = project.run(calls(*made), "done", answers=[False, True])
    assert seen.statuses == [
        "denied",
        "error",
        "blocked",
        "blocked",
        "not_found",
        "success",
        "invalid",
    ]
    started = [event.tool_call_id for event in seen.of(ToolStarted)]
    assert (
        started
        == [result.tool_call_id for result in seen.outcomes]
        == [f"call_1_{n}" for n in range(1, 8)]
    )
    assert len(seen.asked) == 2
    assert (seen.result.status, seen.result.tool_calls) == ("completed", 7)
