"""A task from start to end, for programs without an event loop."""

from __future__ import annotations

from typing import Any

from forge_cli.core.loop import start_loop
from forge_cli.engine.runtime.result import WorkerResult
from forge_cli.engine.runtime.runtime import WorkerRuntime
from forge_cli.files.worker import Worker


def run_sync(worker: Worker, task: str, **options: Any) -> WorkerResult:
    """Give a worker a task and wait for the result; ``options`` are those of WorkerRuntime."""

    async def work() -> WorkerResult:
        async with WorkerRuntime(worker=worker, **options) as runtime:
            return await runtime.run(task)

    return start_loop(work)
