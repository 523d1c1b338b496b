"""The open worker of a session, which can be reopened or get another model between tasks."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec.structs import replace

from forge_cli.core.bus import EventBus
from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.events import SessionUpdate, StatusEvent
from forge_cli.engine.runtime.announcements import Announcer
from forge_cli.engine.runtime.open_worker import (
    approval_mode_of,
    assemble_worker,
    choose_model,
    close_model,
    make_loop,
    open_worker,
    price_of,
    window_of,
)
from forge_cli.engine.runtime.wiring import OpenWorker, Wiring
from forge_cli.schema.offering import has_prompts

if TYPE_CHECKING:
    from forge_cli.core.notify import Notify
    from forge_cli.engine.gate.guard import Delegate
    from forge_cli.files.worker import Worker
    from forge_cli.schema.tool import Tool

T = TypeVar("T")


class Owner(Generic[T]):
    """A task that opens something and closes it again, as connections require the same task."""

    def __init__(self, enter: Callable[[AsyncExitStack], Awaitable[T]]) -> None:
        self._enter = enter
        self._over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> T:
        """Open it; if that fails, raise the error here and leave nothing open."""
        opened: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._own(opened))
        try:
            # A cancellation must not reach the future, because the task still sets its result.
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
            # Then nobody waits for the future; ``close`` raises the error.
            if opened.done():
                raise
            opened.set_exception(error)


async def reopen_worker(
    old: OpenWorker,
    worker: Worker,
    wiring: Wiring,
    stack: AsyncExitStack,
    notify: Notify,
    delegate: Delegate,
) -> OpenWorker:
    """Open a worker again in the middle of a session; model, history and grants stay."""
    folder = wiring.prepare(worker).within(old.folder.workspace)
    controller = old.assembly.guard.controller
    mode = controller.mode
    hooks = controller.hooks
    wiring = wiring.required_by(folder.organisation)
    try:
        controller.mode = approval_mode_of(wiring, worker, folder.settings)
        assembly = await assemble_worker(
            wiring, folder, controller, stack, notify, delegate, old.loop, old.assembly.words
        )
        loop = await make_loop(wiring, folder, old.model, assembly, notify, old.loop)
    except BaseException:  # also a cancellation: the old worker stays open
        controller.mode = mode
        controller.hooks = hooks
        raise
    return replace(old, wiring=wiring, folder=folder, assembly=assembly, loop=loop)


def change_model(
    old: OpenWorker, wiring: Wiring, stack: AsyncExitStack, notify: Notify
) -> OpenWorker:
    """Use another model for the next turns; ``stack`` closes it."""
    model = choose_model(wiring, old.folder, notify)
    stack.push_async_callback(close_model, model.provider)
    price = price_of(wiring, old.folder, model)
    old.loop.model = model.provider
    old.loop.context.window = window_of(old.folder, model)
    return replace(old, wiring=wiring, model=model, price=price)


class CurrentWorker:
    """The worker of a session as it is open now; its first opening is closed at the end."""

    def __init__(
        self, worker: Worker, wiring: Wiring, stack: AsyncExitStack, delegate: Delegate
    ) -> None:
        """Take the ``stack`` for the first opening, and ``delegate`` for tasks of children."""
        self.worker = worker
        self.wiring = wiring
        self._stack = stack
        self._delegate = delegate
        self._announcer = Announcer(wiring.bus, is_root=wiring.is_root)
        self.now: OpenWorker | None = None
        """Everything that is open, if anything is."""
        self._owner: Owner[OpenWorker] | None = None
        """The owner of the last opening, if the worker was opened again."""

    @property
    def bus(self) -> EventBus:
        return self.wiring.bus

    @property
    def opened(self) -> OpenWorker:
        """Everything that is open; raises UsageError if nothing is."""
        if self.now is None:
            raise UsageError(
                "the runtime is not open",
                hint="use `async with WorkerRuntime(...)`, or await initialize()",
            )
        return self.now

    @property
    def tools(self) -> list[Tool]:
        """The tools that can be called right now."""
        return self.opened.loop.toolbox.usable

    async def open(self) -> None:
        """Open everything that the worker names."""
        self.now = await open_worker(
            self.worker, self.wiring, self._stack, self._announcer.notify, self._delegate
        )

    async def announce(self) -> None:
        """Emit the start of the session, earlier notices, and what people can call and send."""
        self._announcer.start(self.opened.start(), self.tools, await self._prompts())

    async def offer_tools(self) -> None:
        """Emit what people can call and send now, if that has changed."""
        self._announcer.offer(self.tools, await self._prompts())

    async def _prompts(self) -> tuple[Mapping[str, Any], ...]:
        toolbox = self.opened.loop.toolbox
        if not any(has_prompts(opened.toolset) for opened in toolbox.toolsets):
            return ()
        from forge_cli.engine.runtime.prompts import Prompts

        return await Prompts(toolbox).announced()

    async def reopen(self, worker: Worker, wiring: Wiring) -> OpenWorker:
        """Open the worker, or a new version of it, again; the conversation is kept."""
        old = self.opened
        before = self._owner
        wiring = dataclasses.replace(wiring, host=wiring.host.beside(worker))
        notify = self._announcer.notify
        owner = Owner(
            lambda stack: reopen_worker(old, worker, wiring, stack, notify, self._delegate)
        )
        self.now = opened = await owner.open()
        self.worker = worker
        self.wiring = wiring
        self._owner = owner
        if before:
            await self._close_owner(before)
        await self.offer_tools()
        return opened

    def change_model(self, wiring: Wiring) -> OpenWorker:
        """Use the model that ``wiring`` names for the next turns."""
        self.now = opened = change_model(self.opened, wiring, self._stack, self._announcer.notify)
        self.wiring = wiring
        self.bus.emit(SessionUpdate(model=opened.model.provider.name))
        return opened

    def stop_announcing(self) -> None:
        """Emit no more notices, because the session has ended."""
        self._announcer.stop()

    async def aclose(self) -> None:
        """Close everything; errors become warnings."""
        self.now = None
        if self._owner:
            await self._close_owner(self._owner)
        try:
            await self._stack.aclose()
        except ForgeError as error:
            self._warn(error)

    async def _close_owner(self, owner: Owner[OpenWorker]) -> None:
        try:
            await owner.close()
        except ForgeError as error:
            self._warn(error)

    def _warn(self, error: BaseException | None) -> None:
        # each error was raised while the one in its context was handled
        while error:
            if isinstance(error, ForgeError):
                self.bus.emit(StatusEvent("warning", error.message))
            error = error.__context__
