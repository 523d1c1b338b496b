"""Delegation: what a child worker gets from its parent, and where the tree of workers ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import anyio

from forge_cli.core.bus import EventBus
from forge_cli.core.errors import ToolError
from forge_cli.core.events import Origin, ToolResult, WorkerUpdate
from forge_cli.core.interrupt import InterruptSignal
from forge_cli.core.results import Text
from forge_cli.engine.turns.limits import Budget
from forge_cli.files.worker import Worker
from forge_cli.record.resume import PastChild
from forge_cli.record.state import cut_off_text
from forge_cli.sandbox import files

if TYPE_CHECKING:
    from forge_cli.engine.runtime.assemble import Assembly
    from forge_cli.engine.runtime.open_worker import OpenWorker
    from forge_cli.engine.runtime.runtime_spec import RuntimeSpec

MAX_DEPTH = 5

T = TypeVar("T")


@dataclass(frozen=True)
class Parent:
    """An open worker at one of its tasks: it caps and feeds the child workers that it calls."""

    opened: OpenWorker
    budget: Budget

    @property
    def spec(self) -> RuntimeSpec:
        return self.opened.spec

    @property
    def assembly(self) -> Assembly:
        return self.opened.assembly

    @property
    def workers(self) -> tuple[Worker, ...]:
        """From the root down to the parent itself."""
        above = self.spec.parent.workers if self.spec.parent else ()
        return (*above, self.spec.worker)

    @property
    def path(self) -> tuple[str, ...]:
        """The names of the workers from the root down to the parent itself."""
        return tuple(worker.name for worker in self.workers)

    def check(self, worker: Worker) -> None:
        """Refuse a child that is at work already, one too deep, and one that the parent may have written."""
        names = " > ".join((*self.path, worker.name))
        if any(worker.path.resolve() == other.path.resolve() for other in self.workers):
            raise ToolError(f"'{worker.name}' is at work already and cannot be called again: {names}")
        if len(self.workers) > MAX_DEPTH:
            raise ToolError(
                f"'{worker.name}' would be {len(self.workers)} workers deep, and {MAX_DEPTH} is the most: {names}"
            )
        if files.caps.can_write_silently(self.assembly.guard.sandbox, worker.path):
            raise ToolError(
                f"'{worker.name}' is not called: '{self.spec.worker.name}' can change {worker.path} without asking, "
                "and so what it may do; keep worker files out of zones that pre-approve writing"
            )


def child_bus(bus: EventBus, path: tuple[str, ...], worker: str, delegation: str) -> EventBus:
    """The bus on which a child worker speaks; ``path`` leads to its parent."""
    return bus.child(Origin(worker, len(path), delegation, (*path, worker)))


def close_lost(lost: Iterable[PastChild], bus: EventBus, path: tuple[str, ...]) -> None:
    """Write down the end of child workers that a session was cut off with, and of their calls."""
    for child in lost:
        own = child_bus(bus, path, child.worker, child.delegation)
        close_lost(child.past.lost, own, (*path, child.worker))
        for call in child.past.cut_off:
            text = cut_off_text(call, child.past.in_flight)
            own.emit(ToolResult(call.id, call.name, "interrupted", Text(text), 0, text, parent_call_id=call.parent))
        own.emit(WorkerUpdate("interrupted", path[-1], child.call, within=bus.delegation))


async def run_to_end(work: Callable[[], Awaitable[T]], signal: InterruptSignal) -> T:
    """Do work that ends by its own means: who cancels it sets its signal, and waits for the end."""

    async def contain() -> None:
        try:
            done.append(await work())
        except Exception as failure:  # raised below, where somebody waits for it
            failures.append(failure)

    done, failures = list[T](), list[Exception]()
    task = asyncio.create_task(contain())
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            with anyio.CancelScope(shield=cancelled is not None):
                await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
            signal.interrupt("cancelled")
    if cancelled:
        raise cancelled
    if failures:
        raise failures[0]
    return done[0]
