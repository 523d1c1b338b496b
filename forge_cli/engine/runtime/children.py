"""Child workers: each takes one task, ends in its own good order, and its answer is the result of a call."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

import anyio
from msgspec.structs import replace

from forge_cli.core.bus import EventBus, new_id
from forge_cli.core.calls import ToolCall
from forge_cli.core.context import Delegation
from forge_cli.core.errors import ForgeError, ToolError
from forge_cli.core.events import Origin, ToolResult, WorkerUpdate
from forge_cli.core.interrupt import InterruptSignal, Parked
from forge_cli.core.phrases import child_task
from forge_cli.core.results import Text
from forge_cli.engine.gate.steps import Refusal
from forge_cli.engine.runtime.result import BY_CHILD, WorkerResult
from forge_cli.files.worker import Worker, load_worker
from forge_cli.record.resume import Past, PastChild, Resumed
from forge_cli.record.state import cut_off_text

if TYPE_CHECKING:
    from forge_cli.engine.runtime.wiring import OpenWorker


MAX_DEPTH = 5

T = TypeVar("T")


def check_child(parent: OpenWorker, worker: Worker) -> None:
    """Refuse a child that is at work already, one too deep, and one that the parent may have written."""
    names = " > ".join((*parent.path, worker.name))
    if any(worker.path.resolve() == other.path.resolve() for other in parent.workers):
        raise ToolError(f"'{worker.name}' is at work already and cannot be called again: {names}")
    if len(parent.workers) > MAX_DEPTH:
        deep = f"would be {len(parent.workers)} workers deep, and {MAX_DEPTH} is the most"
        raise ToolError(f"'{worker.name}' {deep}: {names}")
    from forge_cli.sandbox.files.caps import can_write_silently

    if can_write_silently(parent.assembly.guard.judge.sandbox, worker.path):
        raise ToolError(
            f"'{worker.name}' is not called: '{parent.worker.name}' can change {worker.path} without asking, "
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
            own.emit(
                ToolResult(
                    call.id,
                    call.name,
                    "interrupted",
                    Text(text),
                    0,
                    text,
                    parent_call_id=call.parent,
                )
            )
        own.emit(WorkerUpdate("interrupted", path[-1], child.call, within=bus.delegation))


async def run_to_end(
    work: Callable[[], Awaitable[T]], signal: InterruptSignal, has_started: Callable[[], bool]
) -> T:
    """Do work that ends by its own means: who cancels it sets its signal, and waits for the end.

    What has not started yet does not look at its signal, and is cancelled.
    """

    async def contain() -> None:
        try:
            done.append(await work())
        except Exception as failure:  # raised below, where somebody waits for it
            failures.append(failure)

    done = list[T]()
    failures = list[Exception]()
    task = asyncio.create_task(contain())
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            with anyio.CancelScope(shield=cancelled is not None):
                await asyncio.wait({task})
        except asyncio.CancelledError as error:
            if not cancelled and not has_started():
                task.cancel()
            cancelled = cancelled or error
            signal.interrupt("cancelled")
    if cancelled:
        raise cancelled
    if failures:
        raise failures[0]
    return done[0]


class Children:
    """The child workers of one runtime."""

    def __init__(
        self,
        run: Callable[..., Awaitable[WorkerResult]],
        past: Past | None,
        results: list[WorkerResult],
    ) -> None:
        """``run`` gives a task to a WorkerRuntime with these options, and calls back when that has started.

        ``results`` gets the results of the children.
        """
        self._results = results
        self._run = run
        self._open = (
            {call: list(children) for call, children in past.children.items()} if past else {}
        )

    async def delegate(self, parent: OpenWorker, call: ToolCall, task: Delegation) -> str:
        """Let a child of an open worker do a task that a call gave; its answer, or a ToolError with how it ended."""
        wiring = parent.wiring
        said = child_task(task.input, task.instructions)
        try:
            worker = load_worker(parent.worker.folder / task.worker)
        except ForgeError as error:
            raise ToolError(str(error)) from None
        check_child(parent, worker)
        begun = self._resumable(call, worker.name, parent.loop.redactor.redact(said))
        if begun and begun.answer is not None:
            return begun.answer
        delegation = begun.delegation if begun else new_id("task")
        bus = child_bus(wiring.bus, parent.path, worker.name, delegation)
        update = WorkerUpdate("started", parent.worker.name, call.id, within=wiring.bus.delegation)
        bus.emit(replace(update, status="resumed") if begun else update)

        async def work() -> WorkerResult:
            """How the task ended; a worker that cannot even start has failed."""
            replay = wiring.replay.child(call, worker.name) if wiring.replay else None
            try:
                result = await self._run(
                    "" if begun else said,
                    task.attachments,
                    started.set,
                    worker=worker,
                    approval_callback=wiring.approval_callback,
                    interrupt_signal=signal,
                    depth=wiring.depth + 1,
                    bus=bus,
                    workspace=parent.folder.workspace,
                    on_ask=wiring.on_ask,
                    resume=Resumed(begun.past) if begun else None,
                    wiring=dataclasses.replace(wiring, sinks=(), parent=parent, replay=replay),
                )
            except ForgeError as error:
                result = WorkerResult.not_begun(
                    error, session_id=wiring.session_id, worker=worker.name
                )
            except asyncio.CancelledError:
                bus.emit(replace(update, status="interrupted"))
                raise
            self._results.append(result)
            ended = replace(
                update,
                status=result.status,
                turns=result.turns,
                usage=result.usage,
                error=result.error,
            )
            bus.emit(ended)
            return result

        started = anyio.Event()
        with wiring.interrupt_signal.child() as signal:
            return answer_or_raise(await run_to_end(work, signal, started.is_set))

    def _resumable(self, call: ToolCall, worker: str, task: str) -> PastChild | None:
        """The child that was given this very task by this exact call, before the session was left."""
        for child in self._open.get(call.id, ()):
            if (child.worker, child.task) == (worker, task) and (
                child.answer is not None or child.past.calls
            ):
                self._open[call.id].remove(child)
                return child
        return None


def answer_or_raise(result: WorkerResult) -> str:
    """The result for the parent; what stops the parent as well is raised."""
    match result.status:
        case "completed":
            return result.response
        case "parked":
            raise Parked(f"{result.worker}: {result.error}")
        case "denied":
            raise Refusal(
                "denied", f"the worker '{result.worker}' was stopped: {result.error}", by=BY_CHILD
            )
        case status:
            raise ToolError(
                f"the worker '{result.worker}' ended with {status}: {result.error or result.response}"
            )
