"""The fields of a tool as authors write them, read into one form, and functions as what a tool executes."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast, get_args

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from forge_cli.core.approval import Approval, Effect, Verdict
from forge_cli.core.context import ToolContext
from forge_cli.core.errors import SchemaError
from forge_cli.core.source import ToolMode
from forge_cli.core.text import did_you_mean
from forge_cli.core.tool import Args
from forge_cli.core.wire import JsonObject, snake_case

if TYPE_CHECKING:
    from pydantic import BaseModel

READ_ONLY = frozenset({Effect.READ})
SHORT_FORMS = ("label", "category", "read_only")
MODES: tuple[str, ...] = get_args(ToolMode)
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]
Reader = Callable[[Any], Any]
"""Gives the value as the field has it; the problem of a SchemaError continues after the name of the field."""


class ManualExecution(Struct, frozen=True):
    """The callers of a tool: the model (``llm``), a person (``manual``) or either; label and category are for menus."""

    mode: ToolMode = "llm"
    label: str | None = None
    category: str | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "mode", read_one("mode", self.mode, _mode))


def approval_named(word: str) -> Approval | None:
    """The approval of that name, in either spelling: ``preApproved`` or ``pre_approved``."""
    plain = word.strip().replace("_", "").lower()
    return next((each for each in Approval if each.value.lower() == plain), None)


def read_fields(tool: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Read what was given for fields of a tool, as the fields have it; a SchemaError names the tool and the field.

    ``label`` and ``category`` become part of ``manual``, and ``read_only`` of ``effects``.
    """
    try:
        read = {
            name: read_one(name, value, READERS[name]) if name in READERS else value for name, value in given.items()
        }
        return _without_short_forms(read)
    except SchemaError as error:
        raise SchemaError(f"{tool}: {error}") from None


def read_one(name: str, value: Any, read: Reader) -> Any:
    try:
        return read(value)
    except SchemaError as error:
        raise SchemaError(f"{name} {error}") from None


def rename_options(owner: str, given: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """Options under the names of fields: ``manual_execution`` is ``manual``, and camelCase is taken, too.

    An unknown name is a TypeError, as for any function.
    """
    fields: dict[str, Any] = {}
    for key, value in given.items():
        name = snake_case(key)
        name = "manual" if name == "manual_execution" else name
        if name in fields:
            raise TypeError(f"{owner}: {name} is given twice, under two names; keep one")
        fields[name] = value
    known = [*known, *SHORT_FORMS]
    if wrong := next((name for name in fields if name not in known), None):
        remedy = did_you_mean(wrong, known, f"there are: {', '.join(known)}")
        raise TypeError(f"{owner} has no option '{wrong}'; {remedy}")
    return fields


def _without_short_forms(fields: Mapping[str, Any]) -> dict[str, Any]:
    menu = {name: fields[name] for name in ("label", "category") if fields.get(name) is not None}
    read = {name: value for name, value in fields.items() if name not in SHORT_FORMS}
    if menu:
        read["manual"] = replace(read.get("manual") or ManualExecution(), **menu)
    if (read_only := fields.get("read_only")) is not None:
        read["effects"] = _with_read_only(read_only, read.get("effects"))
    return read


def _with_read_only(read_only: Any, declared: frozenset[Effect] | None) -> frozenset[Effect] | None:
    if not isinstance(read_only, bool):
        raise SchemaError(f"read_only must be true or false, not {read_only!r}")
    if declared is None:
        return READ_ONLY if read_only else None
    if read_only != (declared <= READ_ONLY):
        raise SchemaError("read_only and effects contradict each other; keep one")
    return declared


def _mode(word: Any) -> str:
    mode = word.strip().lower() if isinstance(word, str) else ""
    if mode not in MODES:
        raise SchemaError(f"must be 'llm', 'manual' or 'both', not {word!r}")
    return mode


def _manual(value: Any) -> ManualExecution | None:
    match value:
        case None | ManualExecution():
            return value
        case str():
            return ManualExecution(cast(ToolMode, _mode(value)))
        case Mapping() if value.keys() <= {"mode", "label", "category"}:
            return ManualExecution(**value)
        case _:
            shapes = "'llm', 'manual' or 'both', or an object with mode, label and category"
            raise SchemaError(f"must be {shapes}, not {value!r}")


def _effects(value: Any) -> frozenset[Effect] | None:
    several = [value] if isinstance(value, str | Effect) else value
    try:
        return None if value is None else frozenset(map(_effect, several))
    except (TypeError, ValueError):
        known = ", ".join(each.value for each in Effect)
        raise SchemaError(f"must be a list of effects, of which there are: {known}; not {value!r}") from None


def _effect(value: Any) -> Effect:
    return Effect(value.strip().lower() if isinstance(value, str) else value)


def _timeout(value: Any) -> float | None:
    try:
        seconds = None if value is None else float(value)
    except (TypeError, ValueError):
        raise SchemaError(f"must be a number of seconds, not {value!r}") from None
    if seconds is not None and not 0 < seconds < math.inf:
        raise SchemaError(f"must be more than 0 seconds, and an end, not {value!r}")
    return seconds


def _needs_approval(value: Any) -> Any:
    if isinstance(value, str) and (approval := approval_named(value)):
        return approval
    if not (value is None or callable(value) or isinstance(value, bool | Approval | Verdict)):
        words = "True, False, 'ask', 'preApproved', 'blocked', an Approval, a Verdict or a function of args"
        raise SchemaError(f"must be {words}, not {value!r}")
    if callable(value) and positional_count(value) is None:
        raise SchemaError("must take (args), or (args, context)")
    return value


def _call_or_none(value: Any) -> Any:
    return None if value is None else as_call(value)


def _touches(value: Any) -> Any:
    if value is not None and not (callable(value) and positional_count(value)):
        raise SchemaError("must be a function of args that gives a PathUse for each path")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise SchemaError(f"must be text, not {value!r}")
    return value


def _schema(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) and not isinstance(value, dict) else value


def positional_count(function: Callable[..., Any]) -> int | None:
    """How many positional parameters a ``needs_approval`` function takes, one or two; None for any other shape.

    A second one with a default is the context if it is called so: others, as in ``limit=limit``, keep their default.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return 1
    for given in (((), ()), ((),)):
        try:
            names = list(signature.bind(*given).arguments)
        except TypeError:
            continue
        last = signature.parameters[names[-1]]
        if len(names) < 2 or last.default is last.empty or last.name.strip("_") in ("context", "ctx"):
            return len(given)
    return None


class FunctionCall(Struct, frozen=True):
    """How a tool made from a function is executed; a function that takes no context can do without one."""

    function: Callable[..., Any]
    model: JsonObject | type[BaseModel]
    context_name: str | None
    in_thread: InThread
    checked_as: str | None = None
    """The name under which a result is checked against the return annotation; None where it is not."""

    async def __call__(self, args: Args, context: ToolContext | None) -> Any:
        result = await self._result(args, context)
        if self.checked_as is not None and not self._is_plainly_right(result):
            from forge_cli.schema.returned import check_returned

            check_returned(self.checked_as, self.function, result)
        return result

    def _is_plainly_right(self, result: Any) -> bool:
        """Whether there is no annotation, or it is the class of the result, so that no check needs to be loaded."""
        annotations = getattr(self.function, "__annotations__", {})
        known = type(result)
        return "return" not in annotations or annotations["return"] in (known, known.__name__)

    async def _result(self, args: Args, context: ToolContext | None) -> Any:
        if inspect.iscoroutinefunction(self.function):
            return await self.here(args, context)
        result = await self.in_thread(partial(self.here, args, context))
        return await result if inspect.isawaitable(result) else result

    def here(self, args: Args, context: ToolContext | None) -> Any:
        """Call the function in this thread."""
        values = dict(args)
        if isinstance(self.model, type):
            from forge_cli.schema.input_schema import typed_args

            values = typed_args(self.model, args)
        if self.context_name:
            values[self.context_name] = context
        return self.function(**values)

    @property
    def takes_context(self) -> bool:
        return self.context_name is not None


class PlainCall(Struct, frozen=True):
    """A function that is not async, or wants no context, as the async one of ``(args, context)`` that a tool has."""

    function: Callable[..., Any]
    takes_context: bool

    async def __call__(self, args: Args, context: ToolContext | None) -> Any:
        call = partial(self.function, args, context) if self.takes_context else partial(self.function, args)
        result = call() if is_async(self.function) else await in_pool(call)
        return await result if inspect.isawaitable(result) else result


def as_call(function: Any) -> Callable[..., Any]:
    """An ``execute`` or a ``preview`` as an async function of ``(args, context)``; any other shape is a SchemaError."""
    if isinstance(function, FunctionCall | PlainCall):
        return function
    refuse_generator(function)
    if not callable(function):
        raise SchemaError(f"must be a function of (args, context), not {function!r}")
    taken = positional_count(function)
    if taken is None:
        raise SchemaError("must take (args, context), or (args)")
    return function if taken == 2 and is_async(function) else PlainCall(function, taken == 2)


def refuse_generator(function: Any) -> None:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise SchemaError("must not yield, since a tool has one result; return a list")


def is_async(function: Any) -> bool:
    """Is it an async function, or an object that is called as one?"""
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


async def in_pool(function: Callable[[], Any]) -> Any:
    """Call a function in a thread of the pool."""
    from forge_cli.core.bounds import run_in_thread

    return await run_in_thread(function)


READERS: Mapping[str, Reader] = {
    "description": _text,
    "input_schema": _schema,
    "execute": as_call,
    "preview": _call_or_none,
    "needs_approval": _needs_approval,
    "touches": _touches,
    "manual": _manual,
    "effects": _effects,
    "timeout": _timeout,
}
