"""A tool: its name, its word, who may call it, and how a function becomes one.

Covers forge_cli.core.calls, forge_cli.core.context, forge_cli.core.errors, forge_cli.core.source, forge_cli.core.tool.
"""

import functools
from pathlib import Path
from typing import Any, Optional

import anyio
import pytest

from forge_cli.core.approval import Approval, Effect
from forge_cli.core.calls import ToolCall, ToolOutcome
from forge_cli.core.context import ToolContext
from forge_cli.core.errors import SchemaError
from forge_cli.core.interrupt import InterruptSignal
from forge_cli.core.results import VALUE_LIMIT, Text
from forge_cli.core.text import cut
from forge_cli.core.tool import Preview, Validated
from forge_cli.schema.tool import Tool, is_manual_tool, llm_tools, manual_tools, tool
from forge_cli.schema.tool_fields import ManualExecution

CONTEXT = ToolContext(
    call_id="c1",
    tool="t",
    worker="w",
    workspace=Path("/"),
    sandbox=None,
    interrupt=InterruptSignal(),  # type: ignore[arg-type]
)


async def _nothing(args: dict[str, Any], context: ToolContext) -> None: ...


def made(**options: Any) -> Tool:
    given: dict[str, Any] = {
        "name": "t",
        "description": "",
        "input_schema": {"type": "object"},
        "execute": _nothing,
    }
    return Tool(**{**given, **options})


def executed(subject: Tool, **args: Any) -> Any:
    """The result of the tool for these args; outside of tests, only the gate executes tools."""
    return anyio.run(subject.execute, subject.schema.validate(args), CONTEXT)


@pytest.mark.parametrize("name", ["", "x" * 65, "read file", "git.push", "é", "a\n", "a/b"])
def test_invalid_tool_names_are_refused(name: str) -> None:
    with pytest.raises(SchemaError) as caught:
        made(name=name)
    assert (
        str(caught.value)
        == f"{name!r} is not a name for a tool: use 1 to 64 letters, digits, '_' and '-'"
    )


@pytest.mark.parametrize(
    ("effects", "read_only", "risk"),
    [
        (None, False, "high"),
        (frozenset(), True, "low"),
        (frozenset({Effect.READ}), True, "low"),
        (frozenset({Effect.READ, Effect.WRITE}), False, "medium"),
        (frozenset({Effect.EXECUTE}), False, "high"),
    ],
)
def test_only_declared_effects_count(
    effects: frozenset[Effect] | None, read_only: bool, risk: str
) -> None:
    subject = made(name="get_read_list", effects=effects)
    assert (subject.read_only, subject.risk) == (read_only, risk)


def test_mode_decides_who_may_call_a_tool() -> None:
    silent, llm, manual, both = (
        made(name="silent"),
        made(name="llm", manual=ManualExecution("llm")),
        made(name="manual", manual=ManualExecution("manual")),
        made(name="both", manual=ManualExecution("both")),
    )
    everything = [silent, llm, manual, both]
    assert llm_tools(everything) == [silent, llm, both]
    assert manual_tools(everything) == [manual, both]
    assert [is_manual_tool(each) for each in everything] == [False, False, True, True]
    assert silent.mode == "llm"


def test_function_without_a_docstring_is_still_described() -> None:
    def bare(n: int) -> int:
        return n

    assert Tool.from_function(bare).description == "Custom tool: bare"


def test_tool_decorator_options_are_kept_and_overridden() -> None:
    async def show(args: dict[str, Any], context: ToolContext) -> Preview:
        return Preview(Text("shown"))

    @tool(
        name="push",
        description="Push it.",
        needs_approval=Approval.ASK,
        manual="both",
        label="Push",
        category="Git",
        effects=["network", Effect.READ],
        timeout=2.5,
        preview=show,
    )
    def git_push(branch: str) -> str:
        """Not this text."""
        return branch

    assert git_push("main") == "main"
    made_of_it = Tool.from_function(git_push)
    assert made_of_it == Tool(
        name="push",
        description="Push it.",
        input_schema=made_of_it.input_schema,
        execute=made_of_it.execute,
        needs_approval=Approval.ASK,
        manual=ManualExecution("both", "Push", "Git"),
        effects=frozenset({Effect.NETWORK, Effect.READ}),
        timeout=2.5,
        preview=show,
    )
    assert Tool.from_function(git_push, name="other", needs_approval=False).name == "other"


def test_unknown_option_is_an_error() -> None:
    with pytest.raises(TypeError) as caught:
        tool(need_approval=True)  # type: ignore[call-overload]
    assert (
        str(caught.value) == "@tool has no option 'need_approval'; did you mean 'needs_approval'?"
    )
    with pytest.raises(TypeError, match="need_approval"):
        made(need_approval=True)


def test_tool_accepts_only_its_fields() -> None:
    for name in (
        "manual_execution",
        "manualExecution",
        "needsApproval",
        "read_only",
        "label",
        "category",
    ):
        with pytest.raises(TypeError, match=name):
            made(**{name: True})


def test_function_may_omit_the_context() -> None:
    def explain(n: int = 1, ctx: ToolContext | None = None, more: Optional[str] = None) -> str:  # noqa: UP045
        return f"{n} {ctx} {more}"

    def optional(ctx: Optional[ToolContext] = None) -> str:  # noqa: UP045
        return str(ctx)

    assert list(Tool.from_function(explain).schema.json_schema["properties"]) == ["n", "more"]
    assert not Tool.from_function(optional).schema.json_schema.get("properties")


def test_context_parameter_without_its_type_is_an_argument() -> None:
    def explain(context: str) -> str:
        return context

    assert executed(Tool.from_function(explain), context="all of it") == "all of it"


def test_sync_function_may_return_an_awaitable() -> None:
    async def later(n: int) -> int:
        return n + 1

    def now(n: int) -> Any:
        return later(n)

    assert executed(Tool.from_function(now), n=1) == 2
    assert executed(Tool.from_function(functools.partial(later)), n=1) == 2


def test_huge_error_message_is_bounded() -> None:
    huge = "x" * (2 * VALUE_LIMIT)
    outcome = ToolOutcome.failed(ToolCall("c1", "t", {}), "error", huge)
    assert outcome.value == Text(cut(huge, VALUE_LIMIT))
    assert outcome.error == cut(huge, VALUE_LIMIT)


def test_input_can_be_validated_without_a_call() -> None:
    def repeat(text: str, times: int = 2) -> str:
        raise AssertionError

    subject = Tool.from_function(repeat)
    assert subject.validate_input({"text": "a", "times": "3"}) == Validated(
        ok=True, args={"text": "a", "times": 3}
    )
    for wrong in ({"times": 3}, [], None, {"text": 1, "times": "x"}):
        found = subject.validate_input(wrong)
        assert (found.ok, found.args) == (False, None)
        assert found.error
