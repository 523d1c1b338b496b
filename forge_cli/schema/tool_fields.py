"""Fields of a tool as authors write them, and functions as tools."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast, get_args

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.approval import Approval, Effect, Verdict
from forge_cli.core.context import ToolContext
from forge_cli.core.errors import SchemaError
from forge_cli.core.source import Output, ToolMode
from forge_cli.core.text import did_you_mean
from forge_cli.core.tool import Args, Tried
from forge_cli.core.wire import JsonObject, snake_case

if TYPE_CHECKING:
    from pydantic import BaseModel

READ_ONLY = frozenset({Effect.READ})
SHORT_FORMS = ("label", "category", "read_only")
OUTPUTS: tuple[str, ...] = get_args(Output)
MODES: tuple[str, ...] = get_args(ToolMode)
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]
Reader = Callable[[Any], Any]
"""Converts a value for a field; a SchemaError continues the sentence after the field's name."""


class ManualExecution(Struct, frozen=True):
    """The callers of a tool: the model (``llm``), a person (``manual``) or both.

    ``label`` and ``category`` are for menus.
    """

    mode: ToolMode = "llm"
    label: str | None = None
    category: str | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise SchemaError(f"mode must be 'llm', 'manual' or 'both', not {self.mode!r}")


def approval_named(word: str) -> Approval | None:
    """Return the approval of that name in either spelling: ``preApproved`` or ``pre_approved``."""
    plain = word.strip().replace("_", "").lower()
    return next((each for each in Approval if each.value.lower() == plain), None)


def read_fields(tool: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the given fields of a tool; a SchemaError names the tool and the field."""
    found = dict(given)
    try:
        for name, read in READERS.items():
            if name in given:
                found[name] = read_one(name, given[name], read)
    except SchemaError as error:
        raise SchemaError(f"{tool}: {error}") from None
    return found


def read_one(name: str, value: Any, read: Reader) -> Any:
    """Convert the value of one field; a SchemaError names the field."""
    try:
        return read(value)
    except SchemaError as error:
        raise SchemaError(f"{name} {error}") from None


def read_options(given: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """Return the options of ``@tool`` by their own names; raise TypeError for an unknown name.

    camelCase is accepted, and ``manual_execution`` is ``manual``.
    """
    names = list(known)
    found: dict[str, Any] = {}
    for key, value in given.items():
        name = snake_case(key)
        if name == "manual_execution":
            name = "manual"
        if name not in names:
            remedy = did_you_mean(name, names, f"there are: {', '.join(names)}")
            raise TypeError(f"@tool has no option '{name}'; {remedy}")
        if value is None:
            continue
        if name in found:
            raise TypeError(f"@tool: {name} is given twice, under two names; keep one")
        found[name] = value
    return found


def without_short_forms(tool: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Convert ``label`` and ``category`` to ``manual``, and ``read_only`` to ``effects``."""
    found = {name: value for name, value in options.items() if name not in SHORT_FORMS}
    menu = {name: options[name] for name in ("label", "category") if name in options}
    if menu:
        found["manual"] = replace(found.get("manual") or ManualExecution(), **menu)
    if "read_only" in options:
        try:
            found["effects"] = _with_read_only(options["read_only"], found.get("effects"))
        except SchemaError as error:
            raise SchemaError(f"{tool}: {error}") from None
    return found


def _with_read_only(read_only: Any, declared: frozenset[Effect] | None) -> frozenset[Effect] | None:
    if not isinstance(read_only, bool):
        raise SchemaError(f"read_only must be true or false, not {read_only!r}")
    if declared is None:
        return READ_ONLY if read_only else None
    if read_only != (declared <= READ_ONLY):
        raise SchemaError("read_only and effects contradict each other; keep one")
    return declared


def _mode(word: Any) -> ToolMode:
    mode = word.strip().lower() if isinstance(word, str) else ""
    if mode not in MODES:
        raise SchemaError(f"must be 'llm', 'manual' or 'both', not {word!r}")
    return cast(ToolMode, mode)


def _manual(value: Any) -> ManualExecution | None:
    match value:
        case None | ManualExecution():
            return value
        case str():
            return ManualExecution(_mode(value))
        case Mapping() if value.keys() <= {"mode", "label", "category"}:
            mode = read_one("mode", value.get("mode", "llm"), _mode)
            return ManualExecution(**{**value, "mode": mode})
        case _:
            shapes = "'llm', 'manual' or 'both', or an object with mode, label and category"
            raise SchemaError(f"must be {shapes}, not {value!r}")


def _effects(value: Any) -> frozenset[Effect] | None:
    if value is None:
        return None
    several = [value] if isinstance(value, str | Effect) else value
    try:
        return frozenset(map(_effect, several))
    except (TypeError, ValueError):
        known = ", ".join(each.value for each in Effect)
        raise SchemaError(f"must be a list of effects ({known}), not {value!r}") from None


def _effect(value: Any) -> Effect:
    return Effect(value.strip().lower() if isinstance(value, str) else value)


def _timeout(value: Any) -> float | None:
    try:
        seconds = None if value is None else float(value)
    except (TypeError, ValueError):
        raise SchemaError(f"must be a number of seconds, not {value!r}") from None
    if seconds is not None and not 0 < seconds < math.inf:
        raise SchemaError(f"must be a finite number of seconds above 0, not {value!r}")
    return seconds


def _output(value: Any) -> Any:
    if value is not None and value not in OUTPUTS:
        raise SchemaError(f"must be 'untrusted' or 'trusted', not {value!r}")
    return value


def _needs_approval(value: Any) -> Any:
    if isinstance(value, str) and (approval := approval_named(value)):
        return approval
    if not (value is None or callable(value) or isinstance(value, bool | Approval | Verdict)):
        words = (
            "True, False, 'ask', 'preApproved', 'blocked', an Approval, a Verdict "
            "or a function of args"
        )
        raise SchemaError(f"must be {words}, not {value!r}")
    if callable(value) and positional_count(value) is None:
        raise SchemaError("must take (args) or (args, context)")
    return value


def _call_or_none(value: Any) -> Any:
    return None if value is None else as_call(value)


def _apply(value: Any) -> Any:
    if value is None or isinstance(value, PlainApply):
        return value
    refuse_generator(value)
    if not callable(value):
        raise SchemaError(f"must be a function of (args, context, tried), not {value!r}")
    try:
        inspect.signature(value).bind(*range(3))
    except (TypeError, ValueError):
        raise SchemaError("must take (args, context, tried)") from None
    return PlainApply(value)


def _touches(value: Any) -> Any:
    if value is not None and not (callable(value) and positional_count(value)):
        raise SchemaError("must be a function of args that returns a PathUse for each path")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise SchemaError(f"must be text, not {value!r}")
    return value


def _schema(value: Any) -> Any:
    if isinstance(value, Mapping) and not isinstance(value, dict):
        return dict(value)
    return value


def positional_count(function: Callable[..., Any]) -> int | None:
    """Return how many positional arguments a function of a tool takes: 1, 2, or None.

    A second parameter with a default counts only if its name is that of a context: others, as in
    ``limit=limit``, keep their default.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return 1
    for count in (2, 1):
        try:
            names = list(signature.bind(*range(count)).arguments)
        except TypeError:
            continue
        last = signature.parameters[names[-1]]
        has_default = last.default is not last.empty
        if len(names) < 2 or not has_default or last.name.strip("_") in ("context", "ctx"):
            return count
    return None


class FunctionCall:
    """A function as the ``execute`` of a tool; works without a context if the function takes none.

    ``checked_as`` is the tool's name if results are checked against the return annotation, else
    None.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        model: JsonObject | type[BaseModel],
        context_name: str | None,
        in_thread: InThread,
        checked_as: str | None = None,
    ) -> None:
        self.function = function
        self.model = model
        self.context_name = context_name
        self.in_thread = in_thread
        self.checked_as = checked_as

    async def __call__(self, args: Args, context: ToolContext | None) -> Any:
        result = await self._result(args, context)
        if self.checked_as is not None and not self._is_plainly_right(result):
            from forge_cli.schema.returned import check_returned

            check_returned(self.checked_as, self.function, result)
        return result

    def _is_plainly_right(self, result: Any) -> bool:
        """Return True if the result needs no check, so that pydantic is not loaded for it."""
        annotations = getattr(self.function, "__annotations__", {})
        known = type(result)
        return "return" not in annotations or annotations["return"] in (known, known.__name__)

    async def _result(self, args: Args, context: ToolContext | None) -> Any:
        if inspect.iscoroutinefunction(self.function):
            return await self._call(args, context)
        # A synchronous function may return an awaitable, which belongs to the event loop.
        result = await self.in_thread(partial(self._call, args, context))
        if inspect.isawaitable(result):
            return await result
        return result

    def _call(self, args: Args, context: ToolContext | None) -> Any:
        values = dict(args)
        if isinstance(self.model, type):
            from forge_cli.schema.json.input_schema import typed_args

            values = typed_args(self.model, args)
        if self.context_name:
            values[self.context_name] = context
        return self.function(**values)

    @property
    def takes_context(self) -> bool:
        return self.context_name is not None


class PlainCall:
    """A function as an async function of ``(args, context)``, whatever its own form."""

    def __init__(
        self, function: Callable[..., Any], takes_context: bool, in_thread: InThread | None = None
    ) -> None:
        self.function = function
        self.takes_context = takes_context
        self.in_thread = in_thread or in_pool

    async def __call__(self, args: Args, context: ToolContext | None) -> Any:
        given = (args, context) if self.takes_context else (args,)
        return await _settled_call(partial(self.function, *given), self.in_thread)


class PlainApply:
    """A function as the ``apply`` of a tool, whether it is async or not."""

    def __init__(self, function: Callable[..., Any], in_thread: InThread | None = None) -> None:
        self.function = function
        self.in_thread = in_thread or in_pool

    async def __call__(self, args: Args, context: ToolContext, tried: Tried) -> Any:
        return await _settled_call(partial(self.function, args, context, tried), self.in_thread)


async def _settled_call(call: partial[Any], in_thread: InThread) -> Any:
    result = call() if is_async(call) else await in_thread(call)
    if inspect.isawaitable(result):
        return await result
    return result


def as_call(function: Any) -> Callable[..., Any]:
    """Return ``execute`` or ``preview`` as an async function of ``(args, context)``.

    Raise SchemaError for a function with other parameters.
    """
    if isinstance(function, FunctionCall | PlainCall):
        return function
    refuse_generator(function)
    if not callable(function):
        raise SchemaError(f"must be a function of (args, context), not {function!r}")
    taken = positional_count(function)
    if taken is None:
        raise SchemaError("must take (args, context) or (args)")
    return function if taken == 2 and is_async(function) else PlainCall(function, taken == 2)


def refuse_generator(function: Any) -> None:
    """Raise SchemaError for a generator function."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise SchemaError("must not yield, because a tool has one result; return a list")


def is_async(function: Any) -> bool:
    """Return True for an async function, or an object whose ``__call__`` is one."""
    while isinstance(function, partial):
        function = function.func
    if inspect.iscoroutinefunction(function):
        return True
    called = getattr(function, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(called)


async def in_pool(function: Callable[[], Any]) -> Any:
    """Call a function in a thread of the pool."""
    from forge_cli.core.bounds import run_in_thread

    return await run_in_thread(function)


READERS: Mapping[str, Reader] = {
    "description": _text,
    "input_schema": _schema,
    "execute": as_call,
    "preview": _call_or_none,
    "apply": _apply,
    "needs_approval": _needs_approval,
    "touches": _touches,
    "manual": _manual,
    "effects": _effects,
    "timeout": _timeout,
    "output": _output,
}
