"""A worker that is opened again, or gets another model, in the middle of its session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec.structs import replace

from forge_cli.engine.runtime.open_worker import (
    approval_mode_of,
    assemble_worker,
    choose_model,
    close_model,
    make_loop,
    price_of,
    window_of,
)

if TYPE_CHECKING:
    from forge_cli.core.notify import Notify
    from forge_cli.engine.gate.guard import Delegate
    from forge_cli.engine.runtime.runtime_spec import OpenWorker, RuntimeSpec

T = TypeVar("T")


class Owner(Generic[T]):
    """Opens something in a task of its own, where connections and processes must also be closed."""

    def __init__(self, enter: Callable[[AsyncExitStack], Awaitable[T]]) -> None:
        self._enter = enter
        self._over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> T:
        """Open what there is now; an error is raised here, and nothing stays open."""
        opened: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._own(opened))
        try:
            return await asyncio.shield(opened)
        except BaseException:
            self._task.cancel()
            await asyncio.wait([self._task])
            raise

    async def close(self) -> None:
        self._over.set()
        if self._task:
            await self._task

    async def _own(self, opened: asyncio.Future[T]) -> None:
        try:
            async with AsyncExitStack() as stack:
                opened.set_result(await self._enter(stack))
                await self._over.wait()
        except BaseException as error:
            if opened.done():
                raise
            opened.set_exception(error)


async def reopen_worker(
    old: OpenWorker, spec: RuntimeSpec, stack: AsyncExitStack, notify: Notify, delegate: Delegate
) -> OpenWorker:
    """Open a worker again in the middle of its session, as ``spec`` has it now; model, history and grants stay."""
    folder, controller = spec.prepare().within(old.folder.workspace), old.assembly.guard.controller
    mode = controller.mode
    hooks = controller.hooks
    spec = spec.required_by(folder.organisation)
    try:
        controller.mode = approval_mode_of(spec, folder.settings)
        assembly = await assemble_worker(spec, folder, controller, stack, notify, delegate, old.loop)
        loop = await make_loop(spec, folder, old.model, assembly, notify, old.loop)
    except BaseException:
        controller.mode = mode
        controller.hooks = hooks
        raise
    return replace(old, spec=spec, folder=folder, assembly=assembly, loop=loop)


def change_model(old: OpenWorker, spec: RuntimeSpec, stack: AsyncExitStack, notify: Notify) -> OpenWorker:
    """Let another model take the next turns, the one that ``spec`` names; ``stack`` closes it."""
    model = choose_model(spec, old.folder, notify)
    stack.push_async_callback(close_model, model.provider)
    price = price_of(spec, old.folder.settings, model)
    old.loop.model = model.provider
    old.loop.context.window = window_of(old.folder, model)
    return replace(old, spec=spec, model=model, price=price)
