"""Calls of inspecting functions: in this process, or in a confined child for third-party code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from forge_cli.core.thirdparty import ThirdPartyError, deny_third_party, needs_third_party, watching

if TYPE_CHECKING:
    from forge_cli.inspection.loading_child import LoadingChild
    from forge_cli.sandbox.processes.process import ChildProcesses

T = TypeVar("T")


async def inspect(
    function: Callable[..., Awaitable[T]],
    *args: Any,
    worker: str | Path | None = None,
    folder: Path | None = None,
    calls_tools: bool = False,
    names_code: bool = False,
) -> T:
    """Return the result of one function, without third-party code in this process.

    If the worker names code, go straight to the child.
    """
    async with Inspector(worker, folder, calls_tools=calls_tools) as inspector:
        if names_code:
            return await inspector.in_child(function, *args)
        return await inspector(function, *args)


class Inspector:
    """Runner of functions whose arguments and results can be written as JSON.

    A function that turns out to need third-party code is called again in a child. The child is
    kept, with the code that it has loaded, until it fails.
    """

    def __init__(
        self,
        worker: str | Path | None = None,
        folder: Path | None = None,
        *,
        calls_tools: bool = False,
    ) -> None:
        self._worker = worker
        self._folder = folder
        self._calls_tools = calls_tools
        self._stack = AsyncExitStack()
        self._children: ChildProcesses | None = None
        self._child: LoadingChild | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        await self.close()
        return await self._stack.__aexit__(kind, error, trace)

    async def __call__(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        if self._child is None:
            try:
                # whatever would import third-party code raises here, before anything of it runs
                with watching(deny_third_party):
                    return await function(*args)
            except BaseException as error:
                if not needs_third_party(error):
                    raise
        return await self.in_child(function, *args)

    async def in_child(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Call a function in the child, which is started first if there is none."""
        # imported here, because most commands need no child
        if self._children is None:
            from forge_cli.sandbox.processes.process import ChildProcesses

            self._children = await self._stack.enter_async_context(ChildProcesses())
        if self._child is None:
            from forge_cli.inspection.loading_child import LoadingChild

            start = LoadingChild.started
            self._child = await start(
                self._children, self._worker, self._folder, calls_tools=self._calls_tools
            )
        try:
            return await self._child.ask(function, args)
        except ThirdPartyError:
            # the child may hang, or its state may be damaged: do not ask it again
            await self.close()
            raise

    async def close(self) -> None:
        """End the child, if there is one; the next request that needs one starts another."""
        if self._child is not None:
            child = self._child
            self._child = None  # before the await, so that an interrupted close is not repeated
            await child.end()
