"""``run_sync``, for programs without an event loop of their own."""

from __future__ import annotations

import asyncio
from typing import Any, Unpack, overload

from forge_cli.core.bounds import start_loop
from forge_cli.core.errors import UsageError
from forge_cli.engine.runtime.result import OutputT, WorkerResult
from forge_cli.engine.runtime.runtime import WorkerRuntime
from forge_cli.engine.runtime.wiring import RuntimeOptions
from forge_cli.files.worker import Worker


@overload
def run_sync(worker: Worker, task: str, **options: Unpack[RuntimeOptions]) -> WorkerResult[Any]: ...
@overload
def run_sync(
    worker: Worker, task: str, *, output_type: type[OutputT], **options: Unpack[RuntimeOptions]
) -> WorkerResult[OutputT]: ...
def run_sync(
    worker: Worker,
    task: str,
    *,
    output_type: type[Any] | None = None,
    **options: Unpack[RuntimeOptions],
) -> WorkerResult[Any]:
    """Run a task and return the result; ``options`` are those of WorkerRuntime."""
    # Unlike the public function, it returns None if there is no loop.
    if asyncio._get_running_loop() is not None:
        hint = "there: async with WorkerRuntime(worker=worker) as runtime: await runtime.run(task)"
        raise UsageError("run_sync would block the event loop in this thread", hint=hint)

    async def work() -> WorkerResult[Any]:
        given: Any = {} if output_type is None else {"output_type": output_type}
        async with WorkerRuntime(worker=worker, **given, **options) as runtime:
            return await runtime.run(task)

    return start_loop(work)
