"""Workers that a worker calls: each takes one task, ends in its own good order, and its answer is a result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from forge_cli.core.bus import new_id
from forge_cli.core.errors import ForgeError, ToolError
from forge_cli.core.events import WorkerUpdate
from forge_cli.core.messages import Attachment
from forge_cli.core.phrases import child_task
from forge_cli.core.tool import Delegation, ToolCall
from forge_cli.engine.runtime.delegation import bus_below, in_good_order
from forge_cli.engine.runtime.result import WorkerResult, answer_of
from forge_cli.files.worker import load_worker
from forge_cli.record.resume import Below, Past

if TYPE_CHECKING:
    from forge_cli.engine.runtime.runtime import WorkerRuntime


class CalledWorkers:
    """The workers below one runtime; ``results`` are those of its task so far."""

    def __init__(self, caller: WorkerRuntime, past: Past | None) -> None:
        self.results: list[WorkerResult] = []
        self._caller = caller
        self._open = {call: list(below) for call, below in past.below.items()} if past else {}

    async def delegate(self, call: ToolCall, task: Delegation) -> str:
        """Let another worker do a task that a call gave; its answer, or a ToolError that says what was."""
        caller = self._caller
        try:
            worker = load_worker(caller.worker.folder / task.worker)
        except ForgeError as error:
            raise ToolError(str(error)) from None
        caller.as_caller().check(worker)
        said = child_task(task.input, task.instructions)
        begun = self._begun(call, worker.name, said)
        if begun and begun.answer is not None:
            return begun.answer
        delegation = begun.delegation if begun else new_id("task")
        bus = bus_below(caller.bus, caller.path, worker.name, delegation)
        update = WorkerUpdate("started", caller.worker.name, call.id, within=caller.bus.delegation)
        bus.emit(replace(update, status="resumed") if begun else update)

        async def work() -> WorkerResult:
            runtime = caller.called(worker, bus, signal, begun.past if begun else None)
            runtime.replay = caller.replay.below(call, worker.name) if caller.replay else None
            result = await _result(runtime, "" if begun else said, task.attachments)
            self.results.append(result)
            ended = replace(update, status=result.status, turns=result.turns, usage=result.usage, error=result.error)
            bus.emit(ended)
            return result

        with caller.interrupt_signal.child() as signal:
            return answer_of(await in_good_order(work, signal))

    def _begun(self, call: ToolCall, worker: str, task: str) -> Below | None:
        """The worker that was given this very task by this very call, before the session was left."""
        task = self._caller.redactor.redact(task)
        for below in self._open.get(call.id, ()):
            if (below.worker, below.task) == (worker, task) and (below.answer is not None or below.past.calls):
                self._open[call.id].remove(below)
                return below
        return None


async def _result(runtime: WorkerRuntime, task: str, files: Sequence[Attachment]) -> WorkerResult:
    """How the task ended; a worker that cannot even start has failed."""
    try:
        async with runtime:
            return await runtime.run(task, files)
    except ForgeError as error:
        return WorkerResult.not_begun(error, session_id=runtime.session_id, worker=runtime.worker.name)
