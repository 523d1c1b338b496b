"""Tools that a model or a person may call, from any source."""

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
from forge_cli.core.source import Output, Source, ToolMode
from forge_cli.core.tool import (
    Apply,
    Args,
    Execute,
    MakePreview,
    NeedsApproval,
    StandsFor,
    Validated,
)
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
    """A callable tool behind the gate.

    Fields may be given as people write them: ``effects=["read"]``, ``manual="both"``,
    ``timeout="5"``. Only ``@tool`` accepts the other names of options (camelCase, ``read_only``).
    """

    name: str
    description: str
    input_schema: JsonObject | type[BaseModel]
    """The schema that the model sees; validation uses the same source."""
    execute: Execute
    preview: MakePreview | None = None
    """Returns the effect of a call for the prompt; called only if a person is asked.

    A tool with ``apply`` may try the call, take its effect back, and return a ``Tried``.
    """
    apply: Apply | None = None
    """Called in place of ``execute`` after a yes to a ``Tried`` of ``preview``, which it gets."""
    needs_approval: NeedsApproval = None
    """The tool's own verdict, or a function of ``args`` or ``(args, context)``.

    With None the worker decides.
    """
    touches: Touches | None = None
    """Returns the paths inside other args; declared paths are found without it."""
    manual: ManualExecution | None = None
    effects: frozenset[Effect] | None = None
    """The effects of the tool; None means unknown, which is high risk."""
    delegates: bool = False
    """True if it only passes work to other workers, whose own calls are judged.

    A read-only session allows such a tool.
    """
    parallel: int = 1
    """How many calls of one turn may run at the same time although they have effects."""
    bound_to_zones: bool = True
    """False if the tool does not use zones and may access any file; the prompt says so."""
    lasting: bool = False
    """True if the last call stays valid until the next one, like a plan; summaries keep it."""
    timeout: float | None = None
    """Seconds for a call; None for the default of 30, without the time of child workers."""
    on_outcome: Callable[[Args, OutcomeStatus], None] | None = None
    """Called with the status of each call, refused ones included; its exceptions are ignored."""
    output: Output | None = None
    """``untrusted``: the text of strangers. ``trusted``: words that count, as if typed.

    With None it depends on the source of the tool.
    """
    digest: str | None = None
    """The content that a remembered grant is bound to, such as the hash of the source."""
    source: Source | None = None
    """The origin of the tool, set by forge."""
    origin: str | None = None
    """Further origin for people, set by the toolset, such as the package that it adapts."""
    stands_for: StandsFor | None = None
    """For a proxy tool: returns name (before ``prefix:``) and args of the call that it stands for.

    The gate judges that call as well, and the stricter verdict counts. A grant is remembered for
    that call.
    """

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and TOOL_NAME.fullmatch(self.name)):
            raise SchemaError(
                f"{self.name!r} is not a name for a tool: use 1 to 64 letters, digits, '_' and '-'"
            )
        for name, value in read_fields(self.name, vars(self)).items():
            setattr(self, name, value)
        if self.apply is not None and self.preview is None:
            raise SchemaError(f"{self.name}: apply needs a preview that returns a Tried")

    @property
    def manual_execution(self) -> ManualExecution | None:
        """The same as ``manual``."""
        return self.manual

    @cached_property
    def schema(self) -> InputSchema:
        return InputSchema.of(self.input_schema)

    def author_of(self, value: ResultValue) -> str | None:
        """Return the distribution whose renderer draws this result; None for a well-known kind."""
        if self.source is None or not isinstance(value, Custom):
            return None
        return self.source.distribution

    @property
    def mode(self) -> ToolMode:
        """The possible callers: ``llm``, ``manual`` or ``both``."""
        return self.manual.mode if self.manual else "llm"

    @property
    def read_only(self) -> bool:
        """True if the tool declares that it only reads."""
        return self.effects is not None and self.effects <= READ_ONLY

    @property
    def fits_read_only(self) -> bool:
        """True if a read-only session allows the tool."""
        return self.read_only or self.delegates

    @property
    def risk(self) -> Risk:
        """The risk according to the declared effects."""
        return risk_of(self.effects)

    @cached_property
    def has_paths(self) -> bool:
        """True if a call can name paths, so that zones are consulted."""
        return self.touches is not None or bool(declared_accesses(self.schema.json_schema))

    @cached_property
    def changes_paths(self) -> bool:
        """True if a call can name paths that it changes."""
        accesses = declared_accesses(self.schema.json_schema)
        return self.touches is not None or any(access.changes for access in accesses)

    def paths(self, args: Args) -> list[PathUse]:
        """Return the paths that a call with valid args declares."""
        if not self.has_paths:
            return []
        from forge_cli.schema.found_paths import declared_paths

        declared = declared_paths(self.schema.json_schema, args)
        named: Any = ()
        if self.touches is not None:
            named = self.touches(args)
        # None and a text are reported as such, not as something that cannot be iterated.
        touched: list[Any] = [named]
        if named is not None and not isinstance(named, str):
            touched = list(named)
        if wrong := [use for use in touched if not isinstance(use, PathUse)]:
            raise ToolError(f"touches of {self.name} returned {wrong[0]!r}, which is not a PathUse")
        return [*declared, *touched]

    def validate_input(self, input: Any) -> Validated:
        """Return the args as the tool would get them, or the problems; nothing is raised."""
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
        """Create a tool from a typed function, with its schema from the hints or ``schema``.

        Options of ``@tool`` apply, and ``overrides`` are fields of ``Tool`` that take precedence.
        ``in_thread`` calls a synchronous function in a thread of its choice.
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
    """Return the name of the parameter that is annotated as ToolContext, if any."""
    try:
        hints = typing.get_type_hints(function)
    except Exception:  # third-party code; signature_model reports names that do not resolve
        hints = {}
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        raise SchemaError(
            "its signature cannot be read; wrap it in a function of your own"
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
"""The attribute that keeps the options of ``@tool`` on a function."""
BY_NAME = ("needs_approval", "preview", "apply", "touches")
"""Options that may be the name of a toolset's method."""
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
    output: Output | None = None,
    timeout: float | None = None,
    preview: MakePreview | str | None = None,
    apply: Apply | str | None = None,
    touches: Touches | str | None = None,
    check_output: bool | None = None,
) -> Callable[[Function], Function]: ...
def tool(function: Any = None, /, **options: Any) -> Any:
    """Offer a function, or a method of a Toolset, as a tool.

    The function stays callable as before. Its schema comes from the type hints, its description
    from the docstring. In a Toolset, ``needs_approval``, ``preview``, ``apply`` and ``touches`` may
    name a method.

    Options:
        name: Replaces the name of the function.
        description: Replaces its docstring as the description for the model.
        needs_approval: The tool's own verdict: True asks, False does not; ``ask``,
            ``preApproved`` or ``blocked``, a Verdict, or a function of ``args`` or
            ``(args, context)`` that returns one of these. Without it the worker decides.
        manual: The callers: ``llm`` (the model, the default), ``manual`` (people) or ``both``; also
            named ``manual_execution``, and an object with ``mode``, ``label`` and ``category``.
        label: The name in menus.
        category: The group in menus.
        read_only: True is short for ``effects=["read"]``.
        effects: The effects: ``read``, ``write``, ``execute``, ``network``. They determine the
            risk; pre-approved calls of one turn that only read run at the same time.
        lasting: True if the last call stays valid until the next one, like a plan; summaries
            keep it.
        output: ``untrusted`` if results are text of strangers, such as mails; ``trusted`` if their
            words count as the person's, such as an address book.
        timeout: Seconds after which a call is stopped; the default is 30.
        preview: An async function of ``(args, context)`` that returns a Preview of the effect,
            or a Tried for ``apply``.
        apply: An async function of ``(args, context, tried)``, called in place of the function
            after a yes to a Tried.
        touches: A function of ``args`` that returns a PathUse for each path inside other args.
        check_output: False to skip the check of results against the return annotation.
    """
    given = read_options(options, inspect.signature(tool).parameters)
    # The names of methods are not read yet: a toolset replaces them by the methods themselves.
    later = {name: given.pop(name) for name in BY_NAME if name in given}

    def mark(function: Function) -> Function:
        if isinstance(function, staticmethod | classmethod):
            raise TypeError(f"@tool belongs below @{type(function).__name__}, next to the function")
        owner = str(given.get("name") or getattr(function, "__name__", "tool"))
        marked = without_short_forms(owner, read_fields(owner, given))
        setattr(function, OPTIONS, {**marked, **later})
        return function

    return mark if function is None else mark(function)


setattr(tool, "__signature__", inspect.signature(get_overloads(tool)[1]))  # noqa: B010 - lists the options once


def is_manual_tool(tool: Tool) -> bool:
    """Return True if a person may call the tool."""
    return tool.mode in ("manual", "both")


def llm_tools(tools: Sequence[Tool]) -> list[Tool]:
    """Return the tools that the model may see and call."""
    return [tool for tool in tools if tool.mode in ("llm", "both")]


def manual_tools(tools: Sequence[Tool]) -> list[Tool]:
    """Return the tools that a person may call."""
    return [tool for tool in tools if is_manual_tool(tool)]
