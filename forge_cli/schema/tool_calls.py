"""How a tool is executed: a function with arguments of its own, or a plain one of ``(args, context)``."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from forge_cli import core
from forge_cli import schema as room
from forge_cli.core.context import ToolContext
from forge_cli.core.errors import SchemaError
from forge_cli.core.wire import JsonObject

if TYPE_CHECKING:
    from pydantic import BaseModel

Args = dict[str, Any]
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


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
        return self.in_thread is in_pool and not self._is_async

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
        return partial(room.signature.typed_args, self.model)

    @cached_property
    def _is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)


@dataclass(frozen=True)
class PlainCall:
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
    plain = function
    while isinstance(plain, partial):
        plain = plain.func
    if not callable(function):
        raise SchemaError(f"must be a function of (args, context), not {function!r}")
    if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        raise SchemaError("must return its result, and this one yields; collect it, and tell progress by the context")
    taken = positional_count(function)
    if taken is None:
        raise SchemaError("must take (args, context), or (args)")
    return function if taken == 2 and is_async(function) else PlainCall(function, taken == 2)


def is_async(function: Any) -> bool:
    """Is it an async function, or an object that is called as one?"""
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


async def in_pool(function: Callable[[], Any]) -> Any:
    """Call a function in a thread of the pool."""
    return await core.bounds.run_in_thread(function)
