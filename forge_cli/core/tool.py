"""A tool: what a model or a person may call, from any of the five sources."""

from __future__ import annotations

import hashlib
import inspect
import re
import typing
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import fields
from functools import cached_property, partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload
from weakref import WeakKeyDictionary

from forge_cli.core.approval import Approval, CommandRun, Effect, Risk, Verdict, risk_of
from forge_cli.core.calls import OutcomeStatus
from forge_cli.core.context import CallContext, ToolContext
from forge_cli.core.errors import SchemaError
from forge_cli.core.paths import PathUse, declared_accesses, declared_paths, flat_paths
from forge_cli.core.results import Custom, ResultValue
from forge_cli.core.schema import InputSchema, InvalidInput
from forge_cli.core.source import Source as Source
from forge_cli.core.source import ToolMode
from forge_cli.core.values import dataclass
from forge_cli.core.wire import JsonObject
from forge_cli.core.zones import Access

if TYPE_CHECKING:
    from pydantic import BaseModel

Args = dict[str, Any]
OwnVerdict = bool | Approval | Verdict
NeedsApproval = (
    OwnVerdict
    | Callable[[Args], OwnVerdict | Awaitable[OwnVerdict]]
    | Callable[[Args, CallContext], OwnVerdict | Awaitable[OwnVerdict]]
    | None
)
Touches = Callable[[Args], Iterable[PathUse]]


@dataclass(frozen=True)
class RefusesOnly:
    """A ``needs_approval`` that refuses some calls before anybody is asked, and leaves consent to the zones."""

    check: Callable[[Args, CallContext], None]
    """Raises ToolError for a call that is to be refused."""

    def __call__(self, args: Args, context: CallContext) -> bool:
        self.check(args, context)
        return False


TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
READ_ONLY = frozenset({Effect.READ})
TIME_LIMIT = 30.0
"""Seconds for a call of a tool that says nothing else."""
LONGEST = 3600.0
"""The most that makes sense, and what a tool says that bounds its calls itself."""


@dataclass(frozen=True)
class ManualExecution:
    """Who may call a tool: the model (``llm``), a person (``manual``) or either; label and category are for menus."""

    mode: ToolMode = "llm"
    label: str | None = None
    category: str | None = None


@dataclass(frozen=True)
class Preview:
    """What a call would do, shown at the prompt; ``execute`` finds the stamp in its context and can check it.

    With ``once`` a yes is good for this call only: its args do not say what it does (a commit, say).
    """

    value: ResultValue | None
    stamp: str | None = None
    once: bool = False
    shows: tuple[str, ...] = ()
    """Args that ``value`` shows whole, and that the prompt does not repeat."""
    recap: str | None = None
    """How much it shows, in a few words; that of a ``Diff`` is counted."""
    runs: CommandRun | None = None
    """Where a command would run, if the call starts one."""


Execute = Callable[[Args, ToolContext], Awaitable[Any]]
MakePreview = Callable[[Args, ToolContext], Awaitable[Preview]]
StandsFor = Callable[[Args], tuple[str, JsonObject]]
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


@dataclass(frozen=True, kw_only=True)
class Validated:
    """What became of an input: ``args`` that fit, or an ``error`` that names each wrong field."""

    ok: bool
    args: JsonObject | None = None
    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class Tool:
    """One thing that can be called, behind the gate."""

    name: str
    description: str
    input_schema: JsonObject | type[BaseModel]
    """What the model sees; validation is derived from the same thing."""
    execute: Execute
    preview: MakePreview | None = None
    """Asked only before a prompt: what the call would do."""
    needs_approval: NeedsApproval = None
    """The tool's own verdict, or a function of ``args``, or of ``(args, context)``; with None the worker decides."""
    touches: Touches | None = None
    """The paths inside other args; those that the schema declares are found without it."""
    manual: ManualExecution | None = None
    effects: frozenset[Effect] | None = None
    """What it does to the world; None is unknown, and unknown is high risk."""
    delegates: bool = False
    """It only gives work to other workers, whose own calls are judged: a read-only session lets it through."""
    bound_to_zones: bool = True
    """False where its author knows nothing of zones: it reaches any file, and whoever is asked is told."""
    lasting: bool = False
    """Its last call holds until the next one, as a plan does: it stays verbatim when the history is summarised."""
    timeout: float | None = None
    """Seconds for a call; None for the usual 30, in which child workers do not count."""
    on_outcome: Callable[[Args, OutcomeStatus], None] | None = None
    """Told how each call ended, refused ones included, for the tool's own statistics; what it raises is ignored."""
    digest: str | None = None
    """Content that a remembered grant is bound to, such as the hash of the source."""
    version: str | None = None
    """For people to read; nothing is decided by it."""
    source: Source | None = None
    """Where it came from; filled in by forge."""
    origin: str | None = None
    """What its toolset adds to the source for people to read, such as the package that it adapts."""
    stands_for: StandsFor | None = None
    """For a proxy tool of its toolset: the name (before ``prefix:``) and the args of the call that is meant.

    The gate judges that call too, the stricter verdict counts, and what is remembered is remembered of that call.
    """

    def __post_init__(self) -> None:
        if not TOOL_NAME.fullmatch(self.name):
            raise SchemaError(f"{self.name!r} is not a name for a tool: use 1 to 64 letters, digits, '_' and '-'")
        needs = self.needs_approval
        if not (needs is None or callable(needs) or isinstance(needs, bool | Approval | Verdict)):
            raise SchemaError(
                f"{self.name}: needs_approval must be a bool, an Approval, a Verdict or a function of args"
            )
        if callable(needs) and positional_count(needs) is None:
            raise SchemaError(f"{self.name}: needs_approval must take (args), or (args, context)")

    @cached_property
    def schema(self) -> InputSchema:
        return InputSchema.of(self.input_schema)

    def author_of(self, value: ResultValue) -> str | None:
        """The distribution whose renderer draws this result of the tool, where it is a custom one."""
        return self.source.distribution if self.source and isinstance(value, Custom) else None

    @property
    def mode(self) -> ToolMode:
        """Who may call it: ``llm``, ``manual`` or ``both``."""
        return self.manual.mode if self.manual else "llm"

    @property
    def read_only(self) -> bool:
        """Is it declared to read only?"""
        return self.effects is not None and self.effects <= READ_ONLY

    @property
    def fits_read_only(self) -> bool:
        """May it be called in a read-only session? What nobody has declared may not."""
        return self.read_only or self.delegates

    @property
    def risk(self) -> Risk:
        """How much it can do, from its declared effects."""
        return risk_of(self.effects)

    @cached_property
    def has_paths(self) -> bool:
        """Can a call of it name paths, so that zones are consulted?"""
        return self.touches is not None or bool(declared_accesses(self.schema.json_schema))

    @cached_property
    def changes_paths(self) -> bool:
        """Can a call of it name paths that it changes?"""
        accesses = declared_accesses(self.schema.json_schema)
        return self.touches is not None or any(access.changes for access in accesses)

    def paths(self, args: Args) -> list[PathUse]:
        """The paths that a call with valid args declares."""
        if not self.has_paths:
            return []
        flat = self._flat_paths
        if flat is None:
            declared = declared_paths(self.schema.json_schema, args)
        else:
            given = [(args.get(name), access, kind, name) for name, access, kind in flat]
            declared = [
                PathUse(path, access, kind, at=(name,)) for path, access, kind, name in given if path is not None
            ]
        return declared if self.touches is None else [*declared, *self.touches(args)]

    @cached_property
    def _flat_paths(self) -> tuple[tuple[str, Access, Literal["file"] | None], ...] | None:
        return flat_paths(self.schema.json_schema)

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
        at_once: Callable[..., Any] | None = None,
        **overrides: Any,
    ) -> Tool:
        """A tool from a typed function; its schema comes from the hints unless ``schema`` decides.

        What ``@tool`` said on the function is kept; ``overrides`` are fields of Tool and win. ``in_thread`` calls a
        function that is not async, in a thread of its choice. ``at_once`` takes what the function takes, and returns
        the result where it need not wait for it; None leaves the call to the function.
        """
        from forge_cli.core.signature import describe, signature_model

        context_name = _context_parameter(function)
        hidden = {context_name} if context_name else set()
        model = schema if schema is not None else signature_model(function, skip=hidden)
        options = getattr(function, OPTIONS, ToolOptions())
        given: dict[str, Any] = {
            "name": getattr(function, "__name__", type(function).__name__),
            "description": describe(function) or f"Custom tool: {getattr(function, '__name__', 'a function')}",
            "input_schema": model,
            "execute": FunctionCall(function, model, context_name, in_thread or _in_pool, at_once),
            **options.stated(),
            **overrides,
        }
        return cls(**given)


def positional_count(function: Callable[..., Any]) -> int | None:
    """How many positional parameters a ``needs_approval`` function takes, one or two; None for any other shape."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return 1
    for given in (((), ()), ((),)):
        try:
            signature.bind(*given)
        except TypeError:
            continue
        return len(given)
    return None


_context_parameters: WeakKeyDictionary[FunctionType, str | None] = WeakKeyDictionary()


def _context_parameter(function: Callable[..., Any]) -> str | None:
    """The parameter that wants the ToolContext, by its annotation; a function has the same in every session."""
    plain = getattr(function, "__func__", function)
    if not isinstance(plain, FunctionType):
        return _find_context_parameter(function)
    if plain not in _context_parameters:
        _context_parameters[plain] = _find_context_parameter(function)
    return _context_parameters[plain]


def _find_context_parameter(function: Callable[..., Any]) -> str | None:
    try:
        hints = typing.get_type_hints(function)
    except Exception:  # hints are third-party code: a name that does not resolve is reported by signature_model
        hints = {}
    parameters = inspect.signature(function).parameters
    for name, parameter in parameters.items():
        if hints.get(name) is ToolContext or parameter.annotation in (ToolContext, "ToolContext"):
            return name
    return None


@dataclass(frozen=True)
class FunctionCall:
    """How a tool made from a function is executed; a function that takes no context can do without one."""

    function: Callable[..., Any]
    model: JsonObject | type[BaseModel]
    context_name: str | None
    in_thread: InThread
    instant: Callable[..., Any] | None = None

    async def __call__(self, args: Args, context: ToolContext | None) -> Any:
        if self._is_async:
            return await self.here(args, context)
        result = await self.in_thread(partial(self.here, args, context))
        return await result if inspect.isawaitable(result) else result

    def here(self, args: Args, context: ToolContext | None) -> Any:
        """Call the function in this thread."""
        return self.function(**self._values(args, context))

    @cached_property
    def pooled(self) -> bool:
        """Is it called in a thread of the pool?"""
        return self.in_thread is _in_pool and not self._is_async

    def at_once(self, args: Args, context: ToolContext | None) -> Any:
        """The result, where the function need not be waited for; None where it has to be called."""
        return None if self.instant is None else self.instant(**self._values(args, context))

    def _values(self, args: Args, context: ToolContext | None) -> dict[str, Any]:
        values = self._type_args(args)
        if self.context_name:
            values[self.context_name] = context
        return values

    @cached_property
    def _type_args(self) -> Callable[[Args], dict[str, Any]]:
        if not isinstance(self.model, type):
            return dict
        from forge_cli.core.model_input import typed_args

        return partial(typed_args, self.model)

    @cached_property
    def _is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)


async def _in_pool(function: Callable[[], Any]) -> Any:
    from forge_cli.core.threads import start_in_thread

    return await start_in_thread(function)


OPTIONS = "__forge_tool__"
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class ToolOptions:
    """What ``@tool`` says of a function, kept on the function itself, which stays callable as it was."""

    name: str | None = None
    description: str | None = None
    needs_approval: NeedsApproval | str = None
    manual: ManualExecution | None = None
    effects: frozenset[Effect] | None = None
    lasting: bool | None = None
    timeout: float | None = None
    preview: MakePreview | str | None = None
    touches: Touches | str | None = None

    def stated(self) -> dict[str, Any]:
        return {entry.name: value for entry in fields(self) if (value := getattr(self, entry.name)) is not None}


@overload
def tool(function: Function, /) -> Function: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    needs_approval: NeedsApproval | str = None,
    manual: ToolMode | None = None,
    label: str | None = None,
    category: str | None = None,
    read_only: bool | None = None,
    effects: Sequence[Effect | str] | None = None,
    lasting: bool | None = None,
    timeout: float | None = None,
    preview: MakePreview | str | None = None,
    touches: Touches | str | None = None,
) -> Callable[[Function], Function]: ...
def tool(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    needs_approval: NeedsApproval | str = None,
    manual: ToolMode | None = None,
    label: str | None = None,
    category: str | None = None,
    read_only: bool | None = None,
    effects: Sequence[Effect | str] | None = None,
    lasting: bool | None = None,
    timeout: float | None = None,
    preview: MakePreview | str | None = None,
    touches: Touches | str | None = None,
) -> Any:
    """Say of a function, or of a method of a Toolset, how it is to be offered as a tool.

    The function stays callable as it was. Its schema comes from the type hints, its description from the docstring.
    In a Toolset, ``needs_approval``, ``preview`` and ``touches`` may be the name of a method.

    Args:
        name: Instead of the name of the function.
        description: Instead of its docstring: what the model reads.
        needs_approval: The tool's own verdict: True asks, False does not; an Approval, a Verdict, or a function of
            ``args`` or of ``(args, context)`` that returns one of these. Without it the worker decides.
        manual: Who may call it: ``llm`` (the model, as by default), ``manual`` (people) or ``both``.
        label: What menus call it.
        category: Where menus list it.
        read_only: True is short for ``effects=["read"]``.
        effects: What it does to the world: ``read``, ``write``, ``execute``, ``network``. They give the risk;
            pre-approved calls of one turn that only read run side by side.
        lasting: True where its last call holds until the next one, as a plan does; it outlives a summary.
        timeout: Seconds after which a call is stopped; 30 without it.
        preview: An async function of ``(args, context)`` that returns a Preview: what the call would do.
        touches: A function of ``args`` that gives a PathUse for each path inside other args.
    """
    options = _options(
        name=name,
        description=description,
        needs_approval=needs_approval,
        manual=manual,
        label=label,
        category=category,
        read_only=read_only,
        effects=effects,
        lasting=lasting,
        timeout=timeout,
        preview=preview,
        touches=touches,
    )

    def mark(function: Function) -> Function:
        setattr(function, OPTIONS, options)
        return function

    return mark if function is None else mark(function)


def _options(
    *,
    manual: ToolMode | None = None,
    label: str | None = None,
    category: str | None = None,
    read_only: bool | None = None,
    effects: Sequence[Effect | str] | None = None,
    **stated: Any,
) -> ToolOptions:
    if manual not in (None, "llm", "manual", "both"):
        raise SchemaError(f"manual={manual!r}: use 'llm', 'manual' or 'both'")
    execution = ManualExecution(manual or "llm", label, category) if manual or label or category else None
    declared = frozenset(Effect(effect) for effect in effects) if effects is not None else None
    if read_only and declared is None:
        declared = READ_ONLY
    elif read_only is not None and declared is not None and read_only != (declared <= READ_ONLY):
        raise SchemaError("read_only and effects contradict each other; keep one")
    return ToolOptions(manual=execution, effects=declared, **stated)


def is_manual_tool(tool: Tool) -> bool:
    """May a person call it?"""
    return tool.mode in ("manual", "both")


def llm_tools(tools: Sequence[Tool]) -> list[Tool]:
    """Those that the model may see and call."""
    return [tool for tool in tools if tool.mode in ("llm", "both")]


def manual_tools(tools: Sequence[Tool]) -> list[Tool]:
    """Those that a person may call."""
    return [tool for tool in tools if is_manual_tool(tool)]


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
