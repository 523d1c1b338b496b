"""Child workers: each takes one task, ends in its own good order, and its answer is the result of a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import NoReturn, Protocol

from forge_cli.core.bus import EventBus, new_id
from forge_cli.core.calls import ToolCall
from forge_cli.core.context import Delegation
from forge_cli.core.errors import ForgeError, ToolError
from forge_cli.core.events import WorkerUpdate
from forge_cli.core.interrupt import InterruptSignal
from forge_cli.core.messages import Attachment
from forge_cli.core.phrases import child_task
from forge_cli.engine.runtime.delegation import Parent, child_bus, run_to_end
from forge_cli.engine.runtime.model import ReplayedModel
from forge_cli.engine.runtime.result import WorkerResult, answer_or_raise
from forge_cli.files.worker import Worker, load_worker
from forge_cli.record.resume import Past, PastChild


@dataclass(frozen=True, kw_only=True)
class ChildSpec:
    """The parts of a child worker's runtime."""

    worker: Worker
    parent: Parent
    bus: EventBus
    interrupt: InterruptSignal
    past: Past | None
    """The state in which it was left, when its session is resumed."""
    replay: ReplayedModel | None


class RunsTasks(Protocol):
    """A runtime, as far as its parent knows it."""

    async def run(self, task: str, attachments: Sequence[Attachment] = (), /) -> WorkerResult: ...


def _no_child(*_: object) -> NoReturn:
    raise ToolError("the session has ended")


MakeRuntime = Callable[[ChildSpec], AbstractAsyncContextManager[RunsTasks]]


class Children:
    """The child workers of one runtime; ``results`` are those of its task so far."""

    def __init__(self, make: MakeRuntime, past: Past | None) -> None:
        self.results: list[WorkerResult] = []
        self._make = make
        self._make_parent: Callable[[], Parent] = _no_child
        """Set by ``start_task``, before the first call."""
        self._parent: Parent | None = None
        self._open = {call: list(children) for call, children in past.children.items()} if past else {}

    def start_task(self, parent: Callable[[], Parent]) -> None:
        """From now on children are called by this parent, for the task that it has now; made for the first of them."""
        self.results.clear()
        self._make_parent, self._parent = parent, None

    def close(self) -> None:
        """No child is called any more: let go of the runtime, which holds these children."""
        self._make = self._make_parent = _no_child
        self._parent = None

    async def delegate(self, call: ToolCall, task: Delegation) -> str:
        """Let a child do a task that a call gave; its answer, or a ToolError that says how it ended."""
        parent = self._parent = self._parent or self._make_parent()
        spec, said = parent.spec, child_task(task.input, task.instructions)
        try:
            worker = load_worker(spec.worker.folder / task.worker)
        except ForgeError as error:
            raise ToolError(str(error)) from None
        parent.check(worker)
        begun = self._resumable(call, worker.name, parent.opened.loop.redactor.redact(said))
        if begun and begun.answer is not None:
            return begun.answer
        delegation = begun.delegation if begun else new_id("task")
        bus = child_bus(spec.bus, parent.path, worker.name, delegation)
        update = WorkerUpdate("started", spec.worker.name, call.id, within=spec.bus.delegation)
        bus.emit(replace(update, status="resumed") if begun else update)

        async def work() -> WorkerResult:
            child = ChildSpec(
                worker=worker,
                parent=parent,
                bus=bus,
                interrupt=signal,
                past=begun.past if begun else None,
                replay=spec.replay.child(call, worker.name) if spec.replay else None,
            )
            result = await self._run(child, "" if begun else said, task.attachments)
            self.results.append(result)
            ended = replace(update, status=result.status, turns=result.turns, usage=result.usage, error=result.error)
            bus.emit(ended)
            return result

        with spec.interrupt.child() as signal:
            return answer_or_raise(await run_to_end(work, signal))

    def _resumable(self, call: ToolCall, worker: str, task: str) -> PastChild | None:
        """The child that was given this very task by this exact call, before the session was left."""
        for child in self._open.get(call.id, ()):
            if (child.worker, child.task) == (worker, task) and (child.answer is not None or child.past.calls):
                self._open[call.id].remove(child)
                return child
        return None

    async def _run(self, child: ChildSpec, task: str, files: Sequence[Attachment]) -> WorkerResult:
        """How the task ended; a worker that cannot even start has failed."""
        try:
            async with self._make(child) as runtime:
                return await runtime.run(task, files)
        except ForgeError as error:
            return WorkerResult.not_begun(error, session_id=child.parent.spec.session_id, worker=child.worker.name)
