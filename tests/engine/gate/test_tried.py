"""Tools that try a call first: the prompt shows the changes, and a yes makes exactly these permanent.

Covers forge_cli.core.tool, forge_cli.engine.gate.requesting, forge_cli.engine.gate.execution.
"""

import json
from typing import Any

import pytest

from forge_cli import (
    Approval,
    ApprovalDecision,
    ApprovalRequest,
    Preview,
    Text,
    Tool,
    ToolContext,
    Toolset,
    Verdict,
    tool,
)
from forge_cli.core.errors import SchemaError
from forge_cli.errors import Stale
from forge_cli.events import CommandTried, JudgedPart
from forge_cli.hooks import Tried
from forge_cli.testing import OpenForTest, Project
from tests.engine.conftest import ANY_TEXT, OpenGate

pytestmark = pytest.mark.anyio

UNRULED = Verdict.of_parts([JudgedPart("set it", "ask", "no rule covers it")])


class Shelf:
    """Something with a text that a call replaces, if it is approved."""

    def __init__(self, text: str = "old", **options: Any) -> None:
        self.text = text
        self.happened: list[str] = []
        self.blocked: Verdict | None = None
        given = {"needs_approval": True, "effects": ["write"], **options}
        self.tool = Tool(
            name="put",
            description="Put a text.",
            input_schema=ANY_TEXT,
            execute=self._put,
            preview=self._try,
            apply=self._apply,
            **given,
        )

    def changes(self, args: dict[str, Any]) -> list[list[str]]:
        return [] if self.text == args["text"] else [[self.text, args["text"]]]

    async def _put(self, args: dict[str, Any], context: ToolContext) -> str:
        self.happened.append("put")
        self.text = args["text"]
        return "put without a trial"

    async def _try(self, args: dict[str, Any], context: ToolContext) -> Tried:
        self.happened.append("try")
        changes = self.changes(args)
        value = Text(f"{self.text} -> {args['text']}")
        return Tried(value, changes, shows=("text",), risk="low", blocked=self.blocked)

    async def _apply(self, args: dict[str, Any], context: ToolContext, tried: Tried) -> str:
        self.happened.append("apply")
        tried.require_same(self.changes(args))
        assert context.stamp == tried.stamp
        self.text = args["text"]
        return "applied"


async def test_yes_applies_the_shown_changes(gate: OpenGate) -> None:
    shelf = Shelf()
    opened = gate(shelf.tool, answers=[True])
    outcome = await opened("put", text="new")
    assert (outcome.status, outcome.text(), shelf.text) == ("success", "applied", "new")
    assert shelf.happened == ["try", "apply"]
    [request] = opened.asked
    assert (request.preview, request.recap, request.risk) == (Text("old -> new"), "1 change", "low")
    assert (request.previewed, request.once, request.offers) == (("text",), True, None)
    tried = [event for event in opened.events if isinstance(event, CommandTried)]
    assert [(each.outcome, each.summary, each.exit_code, each.applied) for each in tried] == [
        ("effects", "1 change", None, False),
        ("effects", "1 change", None, True),
    ]
    assert tried[0].sentence().startswith("tried: 1 change (")
    assert tried[1].sentence() == "applied: 1 change"


async def test_no_changes_nothing(gate: OpenGate) -> None:
    shelf = Shelf()
    outcome = await gate(shelf.tool, answers=[False])("put", text="new")
    assert outcome.error == "put was not called; the user said no, and nothing was changed"
    assert (shelf.text, shelf.happened) == ("old", ["try"])


async def test_trial_without_a_person_changes_nothing(gate: OpenGate) -> None:
    shelf = Shelf()
    outcome = await gate(shelf.tool)("put", text="new")
    assert (outcome.status, shelf.text, shelf.happened) == ("denied", "old", ["try"])


async def test_other_changes_than_shown_are_asked_about_again(gate: OpenGate) -> None:
    shelf = Shelf()

    async def answer(request: ApprovalRequest) -> ApprovalDecision:
        if len(opened.asked) == 1:
            shelf.text = "changed meanwhile"
        return ApprovalDecision(True)

    opened = gate(shelf.tool, answers=answer)
    outcome = await opened("put", text="new")
    assert (outcome.text(), shelf.text) == ("applied", "new")
    assert shelf.happened == ["try", "apply", "try", "apply"]
    assert [request.preview for request in opened.asked] == [
        Text("old -> new"),
        Text("changed meanwhile -> new"),
    ]
    assert opened.asked[1].reason == (
        "what it would change is no longer what was shown; what was approved no longer holds, "
        "so it asks again"
    )


async def test_changes_that_never_rest_are_given_up(gate: OpenGate) -> None:
    shelf = Shelf()

    async def answer(request: ApprovalRequest) -> ApprovalDecision:
        shelf.text += "!"
        return ApprovalDecision(True)

    outcome = await gate(shelf.tool, answers=answer)("put", text="new")
    assert outcome.error == "put: what it works on keeps changing; try again later"
    assert shelf.text == "old!!!"


@pytest.mark.parametrize("verdict", [UNRULED, True])
async def test_trial_without_effect_asks_only_if_a_rule_says_so(
    gate: OpenGate, verdict: Any
) -> None:
    shelf = Shelf("new", needs_approval=verdict)
    answers = [True] if verdict is True else []
    opened = gate(shelf.tool, answers=answers)
    assert (await opened("put", text="new")).text() == "applied"
    assert len(opened.asked) == len(answers)
    [tried] = [event for event in opened.events if isinstance(event, CommandTried)]
    assert (tried.outcome, tried.sentence()[:17]) == ("noEffect", "tried: no effect ")


async def test_trial_with_a_blocked_effect_is_refused_without_a_question(gate: OpenGate) -> None:
    shelf = Shelf()
    shelf.blocked = Verdict(Approval.BLOCKED, "a trigger writes to audit", "rules.audit")
    opened = gate(shelf.tool, answers=[])
    outcome = await opened("put", text="new")
    assert (outcome.status, outcome.error) == (
        "blocked",
        "put is blocked: a trigger writes to audit",
    )
    assert (opened.asked, shelf.text) == ([], "old")


@pytest.mark.parametrize(
    ("options", "mode"), [({"needs_approval": False}, "interactive"), ({}, "approve_all")]
)
async def test_call_that_does_not_ask_is_not_tried(
    gate: OpenGate, options: dict[str, Any], mode: str
) -> None:
    shelf = Shelf(**options)
    outcome = await gate(shelf.tool, answers=[], mode=mode)("put", text="new")
    assert (outcome.text(), shelf.happened) == ("put without a trial", ["put"])


async def test_yes_covers_one_call_only(gate: OpenGate) -> None:
    shelf = Shelf()
    opened = gate(shelf.tool, answers=[ApprovalDecision(True, remember="session"), False])
    assert (await opened("put", text="new")).ok
    shelf.text = "precious"
    assert (await opened("put", text="new")).status == "denied"
    assert shelf.text == "precious"


async def test_trial_needs_an_apply_and_an_apply_a_preview(gate: OpenGate) -> None:
    shelf = Shelf()
    shelf.tool.apply = None
    opened = gate(shelf.tool, answers=[False])
    await opened("put", text="new")
    assert opened.asked[0].preview == Text(
        "no preview: TypeError: it returned a Tried, but the tool has no apply"
    )
    with pytest.raises(SchemaError, match="put: apply needs a preview that returns a Tried"):
        Tool(
            name="put",
            description="",
            input_schema=ANY_TEXT,
            execute=shelf._put,
            apply=shelf._apply,
        )
    with pytest.raises(SchemaError, match=r"x: apply must take \(args, context, tried\)"):
        Tool(
            name="x",
            description="",
            input_schema=ANY_TEXT,
            execute=shelf._put,
            preview=shelf._try,
            apply=shelf._put,  # type: ignore[arg-type]
        )


def test_changes_are_compared_as_json_whatever_the_order_of_keys() -> None:
    tried = Tried(None, {"a": (1, None), "b": "x"})
    tried.require_same({"b": "x", "a": [1, None]})
    assert tried.stamp == Tried(Text("other"), {"b": "x", "a": [1, None]}).stamp
    with pytest.raises(Stale):
        tried.require_same({"a": [1, "None"], "b": "x"})
    assert [Tried(None, each).summary for each in ([], {}, [1, 2], {"n": 2})] == [
        "0 changes",
        "no change",
        "2 changes",
        "changes",
    ]


class OwnThread(Toolset):
    """A toolset that is bound to a thread."""

    name = "own"
    thread = "own"

    def here(self) -> int:
        import threading

        return threading.get_ident()

    @tool(needs_approval=True, preview="look", apply="make")
    def act(self) -> list[int]:
        """Act."""
        return [self.here()]

    def look(self, args: dict[str, Any]) -> Tried:
        return Tried(None, [self.here()])

    def make(self, args: dict[str, Any], context: ToolContext, tried: Tried) -> list[int]:
        return [*tried.changes, self.here()]


def test_toolset_tries_and_applies_in_its_own_thread(forge_worker: OpenForTest) -> None:
    worker = forge_worker(OwnThread, answers=[True])
    [first, second] = json.loads(worker.call("act").text())
    assert first == second


TOOLS = '''
from pathlib import Path

from forge_cli import Text, ToolContext, tool
from forge_cli.hooks import Tried


def changed() -> list[str]:
    return [Path("state").read_text() if Path("state").exists() else "nothing"]


async def look(args, context):
    return Tried(Text("replaces " + changed()[0]), changed())


async def make(args, context, tried):
    tried.require_same(changed())
    Path("state").write_text("made")
    return "made it"


@tool(needs_approval=True, preview=look, apply=make)
def act() -> str:
    """Act."""
    raise AssertionError("it was not tried")
'''


@pytest.mark.parametrize("state", [None, "changed"])
def test_parked_trial_is_applied_if_its_changes_are_the_same(
    project: Project, state: str | None
) -> None:
    project.write("tools.py", TOOLS)
    project.write(
        "worker.yaml", "name: w\ntoolsets: {custom: {module: ./tools.py, tools: [act]}}\n"
    )
    project.write("script.yaml", "turns: [{calls: [{tool: act}]}, {text: done}]")
    run = ("run", "worker.yaml", "-p", "-m", "script:script.yaml", "--on-ask", "park")
    assert project.forge(*run, "go").returncode == 10
    [request] = json.loads(project.forge("approvals", "list", "--json").stdout)
    assert request["preview"] == {"kind": "text", "content": "replaces nothing"}
    assert project.forge("approvals", "answer", request["session"], "yes").returncode == 0
    if state:
        project.write("state", state)
    resumed = project.forge(*run, "-r", request["session"])
    assert resumed.returncode == (10 if state else 0), resumed.stderr
    assert (project.folder / "state").read_text() == (state or "made")


def test_approve_shows_a_trial_without_making_it(project: Project) -> None:
    project.write("tools.py", TOOLS)
    project.write(
        "worker.yaml", "name: w\ntoolsets: {custom: {module: ./tools.py, tools: [act]}}\n"
    )
    shown = json.loads(project.forge("approve", "worker.yaml", "act", "--try", "--json").stdout)
    assert (shown["trial"]["summary"], shown["trial"]["shown"]) == ("1 change", "replaces nothing")
    assert not (project.folder / "state").exists()


async def test_preview_of_a_tool_with_apply_may_be_a_plain_one(gate: OpenGate) -> None:
    """For calls that cannot be tried: a yes then makes the call as it is."""
    shelf = Shelf()

    async def look(args: dict[str, Any], context: ToolContext) -> Preview:
        return Preview(Text("cannot be tried"))

    shelf.tool.preview = look
    outcome = await gate(shelf.tool, answers=[True])("put", text="new")
    assert (outcome.text(), shelf.happened) == ("put without a trial", ["put"])
