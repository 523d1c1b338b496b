"""Child workers, each of which does one task and returns its answer as the result of a call."""

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
"""The most workers below the root, each started by the one before."""

T = TypeVar("T")


def check_child(parent: OpenWorker, worker: Worker) -> None:
    """Raise ToolError for a child that already runs, is too deep, or is writable by its parent."""
    names = " > ".join((*parent.path, worker.name))
    if any(worker.path.resolve() == other.path.resolve() for other in parent.workers):
        raise ToolError(f"'{worker.name}' is already running and cannot call itself: {names}")
    if len(parent.workers) > MAX_DEPTH:
        deep = f"would be {len(parent.workers)} workers deep, but the maximum is {MAX_DEPTH}"
        raise ToolError(f"'{worker.name}' {deep}: {names}")
    from forge_cli.sandbox.files.caps import can_write_silently

    if can_write_silently(parent.assembly.guard.judge.sandbox, worker.path):
        raise ToolError(
            f"'{worker.name}' is not called: '{parent.worker.name}' can change {worker.path} "
            "without asking, and with it the permissions; keep worker files out of zones that "
            "pre-approve writing"
        )


def child_bus(bus: EventBus, path: tuple[str, ...], worker: str, delegation: str) -> EventBus:
    """Return the bus of a child worker; ``path`` leads to its parent."""
    return bus.child(Origin(worker, len(path), delegation, (*path, worker)))


def close_lost(lost: Iterable[PastChild], bus: EventBus, path: tuple[str, ...]) -> None:
    """Emit the ends of child workers, and their calls, that a session was cut off with."""
    for child in lost:
        own = child_bus(bus, path, child.worker, child.delegation)
        close_lost(child.past.lost, own, (*path, child.worker))
        for call in child.past.cut_off:
            text = cut_off_text(call, child.past.in_flight)
            result = ToolResult(call.id, call.name, "interrupted", Text(text), 0, text)
            own.emit(replace(result, parent_call_id=call.parent))
        own.emit(WorkerUpdate("interrupted", path[-1], child.call, within=bus.delegation))


async def run_to_end(
    work: Callable[[], Awaitable[T]], signal: InterruptSignal, has_started: Callable[[], bool]
) -> T:
    """Await work that is never cancelled once it has started.

    A cancellation sets the signal of the work instead, and waits for its own end. Work that has
    not started yet does not read its signal, and is cancelled.
    """

    async def contain() -> None:
        try:
            done.append(await work())
        except Exception as failure:  # raised below, to the caller
            failures.append(failure)

    done = list[T]()
    failures = list[Exception]()
    task = asyncio.create_task(contain())
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            # After the first cancellation, the scope of the caller would cancel each further wait.
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
        """Take a function that runs a task, and a list for the results of the children.

        ``run`` creates a WorkerRuntime with its options, and calls back when that has started.
        """
        self._results = results
        self._run = run
        self._open: dict[str, list[PastChild]] = {}
        if past:
            for call_id, children in past.children.items():
                self._open[call_id] = list(children)

    async def delegate(self, parent: OpenWorker, call: ToolCall, task: Delegation) -> str:
        """Run the task of a call in a child; return the answer, or raise ToolError."""
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
            replay = None
            if wiring.replay:
                replay = wiring.replay.child(call, worker.name)
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
                name = worker.name
                # A worker that cannot start gives a failed result, like any other failure.
                result = WorkerResult.not_begun(error, session_id=wiring.session_id, worker=name)
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
        """Return the unfinished child that this very call gave this very task, or None."""
        for child in self._open.get(call.id, ()):
            is_same = (child.worker, child.task) == (worker, task)
            if is_same and (child.answer is not None or child.past.calls):
                self._open[call.id].remove(child)
                return child
        return None


def answer_or_raise(result: WorkerResult) -> str:
    """Return the answer for the parent; raise what stops the parent as well."""
    match result.status:
        case "completed":
            return result.response
        case "parked":
            raise Parked(f"{result.worker}: {result.error}")
        case "denied":
            problem = f"the worker '{result.worker}' was stopped: {result.error}"
            raise Refusal("denied", problem, by=BY_CHILD)
        case status:
            why = result.error or result.response
            raise ToolError(f"the worker '{result.worker}' ended with {status}: {why}")
