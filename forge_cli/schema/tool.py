"""A tool: what a model or a person may call, from any of the five sources."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, get_overloads, overload

from forge_cli.core.approval import Effect, Risk, risk_of
from forge_cli.core.calls import OutcomeStatus
from forge_cli.core.context import ToolContext
from forge_cli.core.errors import InvalidInput, SchemaError, ToolError
from forge_cli.core.results import Custom, ResultValue
from forge_cli.core.source import Source, ToolMode
from forge_cli.core.tool import Args, Execute, MakePreview, NeedsApproval, StandsFor, Validated
from forge_cli.core.wire import JsonObject
from forge_cli.schema.json.input_schema import InputSchema
from forge_cli.schema.paths import PathUse, declared_accesses
from forge_cli.schema.tool_fields import (
    READ_ONLY,
    FunctionCall,
    InThread,
    ManualExecution,
    in_pool,
    read_fields,
    read_one,
    read_options,
    refuse_generator,
    without_short_forms,
)

if TYPE_CHECKING:
    from pydantic import BaseModel

Touches = Callable[[Args], Iterable[PathUse]]

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(kw_only=True)
class Tool:
    """One thing that can be called, behind the gate.

    Fields may be given as people write them: ``effects=["read"]``, ``manual="both"``, ``timeout="5"``. The other names
    that an option has (camelCase, ``read_only``) are those of ``@tool`` alone.
    """

    name: str
    description: str
    input_schema: JsonObject | type[BaseModel]
    """The schema that the model sees; validation is derived from the same thing."""
    execute: Execute
    preview: MakePreview | None = None
    """Asked only before a prompt: what the call would do."""
    needs_approval: NeedsApproval = None
    """The tool's own verdict, or a function of ``args``, or of ``(args, context)``; with None the worker decides."""
    touches: Touches | None = None
    """The paths inside other args; those that the schema declares are found without it."""
    manual: ManualExecution | None = None
    effects: frozenset[Effect] | None = None
    """The effects on the world; None is unknown, and unknown is high risk."""
    delegates: bool = False
    """It only gives work to other workers, whose own calls are judged: a read-only session lets it through."""
    parallel: int = 1
    """How many calls of one turn may run at the same time although they have effects, as child workers may."""
    bound_to_zones: bool = True
    """False where its author knows nothing of zones: it reaches any file, and the prompt says so."""
    lasting: bool = False
    """Its last call holds until the next one, as a plan does: it stays verbatim when the history is summarised."""
    timeout: float | None = None
    """Seconds for a call; None for the usual 30, in which child workers do not count."""
    on_outcome: Callable[[Args, OutcomeStatus], None] | None = None
    """Told how each call ended, refused ones included, for the tool's own statistics; what it raises is ignored."""
    digest: str | None = None
    """Content that a remembered grant is bound to, such as the hash of the source."""
    source: Source | None = None
    """The origin of the tool; filled in by forge."""
    origin: str | None = None
    """The addition of its toolset to the source for people to read, such as the package that it adapts."""
    stands_for: StandsFor | None = None
    """For a proxy tool of its toolset: the name (before ``prefix:``) and the args of the call that is meant.

    The gate judges that call too, the stricter verdict counts, and what is remembered is remembered of that call.
    """

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and TOOL_NAME.fullmatch(self.name)):
            raise SchemaError(
                f"{self.name!r} is not a name for a tool: use 1 to 64 letters, digits, '_' and '-'"
            )
        for name, value in read_fields(self.name, vars(self)).items():
            setattr(self, name, value)

    @property
    def manual_execution(self) -> ManualExecution | None:
        """The same as ``manual``."""
        return self.manual

    @cached_property
    def schema(self) -> InputSchema:
        return InputSchema.of(self.input_schema)

    def author_of(self, value: ResultValue) -> str | None:
        """The distribution whose renderer draws this result of the tool, where it is a custom one."""
        return self.source.distribution if self.source and isinstance(value, Custom) else None

    @property
    def mode(self) -> ToolMode:
        """The callers that it may have: ``llm``, ``manual`` or ``both``."""
        return self.manual.mode if self.manual else "llm"

    @property
    def read_only(self) -> bool:
        """Return True if it declares that it only reads."""
        return self.effects is not None and self.effects <= READ_ONLY

    @property
    def fits_read_only(self) -> bool:
        """Return True if a read-only session lets it through; a tool without declared effects is not let through."""
        return self.read_only or self.delegates

    @property
    def risk(self) -> Risk:
        """How much it can do, from its declared effects."""
        return risk_of(self.effects)

    @cached_property
    def has_paths(self) -> bool:
        """Return True if a call can name paths, so that zones are consulted."""
        return self.touches is not None or bool(declared_accesses(self.schema.json_schema))

    @cached_property
    def changes_paths(self) -> bool:
        """Return True if a call can name paths that it changes."""
        accesses = declared_accesses(self.schema.json_schema)
        return self.touches is not None or any(access.changes for access in accesses)

    def paths(self, args: Args) -> list[PathUse]:
        """The paths that a call with valid args declares."""
        if not self.has_paths:
            return []
        from forge_cli.schema.found_paths import declared_paths

        declared = declared_paths(self.schema.json_schema, args)
        named: Any = () if self.touches is None else self.touches(args)
        touched: list[Any] = [named] if named is None or isinstance(named, str) else list(named)
        if wrong := [use for use in touched if not isinstance(use, PathUse)]:
            raise ToolError(f"touches of {self.name} gave {wrong[0]!r}, which is not a PathUse")
        return [*declared, *touched]

    def validate_input(self, input: Any) -> Validated:
        """The args as the tool would get them, or what is wrong with them; nothing is raised."""
        try:
            return Validated(ok=True, args=self.schema.validate(input))
        except InvalidInput as error:
            return Validated(ok=False, error=str(error))

    @classmethod
    def from_function(
        cls,
        function: Callable[..., Any],
        *,
        schema: JsonObject | type[BaseModel] | None = None,
        in_thread: InThread | None = None,
        **overrides: Any,
    ) -> Tool:
        """A tool from a typed function; its schema comes from the hints unless ``schema`` decides.

        What ``@tool`` said on the function is kept; ``overrides`` are fields of Tool and win. ``in_thread`` calls a
        function that is not async, in a thread of its choice.
        """
        from forge_cli.schema.json.signature import describe, signature_model

        context_name = context_parameter(function)
        model = schema
        if model is None:
            model = signature_model(function, skip={context_name} if context_name else ())
        name = getattr(function, "__name__", type(function).__name__)
        read_one(name, function, refuse_generator)
        given: dict[str, Any] = {
            "name": name,
            "description": describe(function) or f"Custom tool: {name}",
            "input_schema": model,
            **getattr(function, OPTIONS, {}),
            **overrides,
        }
        checks_output = given.pop("check_output", True)
        if "execute" not in given:
            checked_as = given["name"] if checks_output else None
            given["execute"] = FunctionCall(
                function, model, context_name, in_thread or in_pool, checked_as
            )
        return cls(**given)


def context_parameter(function: Callable[..., Any]) -> str | None:
    """The parameter that wants the ToolContext, by its annotation."""
    try:
        hints = typing.get_type_hints(function)
    except (
        Exception
    ):  # hints are third-party code: a name that does not resolve is reported by signature_model
        hints = {}
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        raise SchemaError(
            "it does not say what it takes; call it in a function of your own"
        ) from None
    for name, parameter in parameters.items():
        if hints.get(name, parameter.annotation) in (
            ToolContext,
            ToolContext | None,
            "ToolContext",
        ):
            return name
    return None


OPTIONS = "__forge_tool__"
"""Holds what ``@tool`` says of a function, which stays callable as it was."""
BY_NAME = ("needs_approval", "preview", "touches")
"""Options that may be the name of a method of the toolset."""
Function = TypeVar("Function", bound=Callable[..., Any])


@overload
def tool(function: Function, /) -> Function: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    needs_approval: NeedsApproval = None,
    manual: ManualExecution | ToolMode | Mapping[str, str] | None = None,
    label: str | None = None,
    category: str | None = None,
    read_only: bool | None = None,
    effects: Iterable[Effect | str] | None = None,
    lasting: bool | None = None,
    timeout: float | None = None,
    preview: MakePreview | str | None = None,
    touches: Touches | str | None = None,
    check_output: bool | None = None,
) -> Callable[[Function], Function]: ...
def tool(function: Any = None, /, **options: Any) -> Any:
    """Mark a function, or a method of a Toolset, with how it is offered as a tool.

    The function stays callable as it was. Its schema comes from the type hints, its description from the docstring.
    In a Toolset, ``needs_approval``, ``preview`` and ``touches`` may be the name of a method.

    Args:
        name: Instead of the name of the function.
        description: Instead of its docstring: what the model reads.
        needs_approval: The tool's own verdict: True asks, False does not; ``ask``, ``preApproved`` or ``blocked``, a
            Verdict, or a function of ``args`` or of ``(args, context)`` that returns one of these. Without it the
            worker decides.
        manual: Who may call it: ``llm`` (the model, as by default), ``manual`` (people) or ``both``; also called
            ``manual_execution``, and an object with ``mode``, ``label`` and ``category``.
        label: What menus call it.
        category: Where menus list it.
        read_only: True is short for ``effects=["read"]``.
        effects: What it does to the world: ``read``, ``write``, ``execute``, ``network``. They give the risk;
            pre-approved calls of one turn that only read run side by side.
        lasting: True where its last call holds until the next one, as a plan does; it outlives a summary.
        timeout: Seconds after which a call is stopped; 30 without it.
        preview: An async function of ``(args, context)`` that returns a Preview: what the call would do.
        touches: A function of ``args`` that gives a PathUse for each path inside other args.
        check_output: False leaves results alone; they are checked against the return annotation otherwise.
    """
    given = read_options(options, inspect.signature(tool).parameters)
    # a toolset replaces the names of its methods by the methods, so these are read when the tool is made
    later = {name: given.pop(name) for name in BY_NAME if name in given}

    def mark(function: Function) -> Function:
        if isinstance(function, staticmethod | classmethod):
            raise TypeError(f"@tool belongs below @{type(function).__name__}, next to the function")
        owner = str(given.get("name") or getattr(function, "__name__", "tool"))
        setattr(
            function, OPTIONS, {**without_short_forms(owner, read_fields(owner, given)), **later}
        )
        return function

    return mark if function is None else mark(function)


setattr(tool, "__signature__", inspect.signature(get_overloads(tool)[1]))  # noqa: B010 - lists the options once


def is_manual_tool(tool: Tool) -> bool:
    """Return True if a person may call the tool."""
    return tool.mode in ("manual", "both")


def llm_tools(tools: Sequence[Tool]) -> list[Tool]:
    """Those that the model may see and call."""
    return [tool for tool in tools if tool.mode in ("llm", "both")]


def manual_tools(tools: Sequence[Tool]) -> list[Tool]:
    """Those that a person may call."""
    return [tool for tool in tools if is_manual_tool(tool)]
