"""A worker's task in a program without an event loop of its own."""

from __future__ import annotations

import asyncio
from typing import Unpack

from forge_cli.core.bounds import start_loop
from forge_cli.core.errors import UsageError
from forge_cli.engine.runtime.result import WorkerResult
from forge_cli.engine.runtime.runtime import WorkerRuntime
from forge_cli.engine.runtime.runtime_spec import RuntimeOptions
from forge_cli.files.worker import Worker


def run_sync(worker: Worker, task: str, **options: Unpack[RuntimeOptions]) -> WorkerResult:
    """Give a worker a task and wait for the result; ``options`` are those of WorkerRuntime."""
    if asyncio._get_running_loop() is not None:
        hint = "there: async with WorkerRuntime(worker=worker) as runtime: await runtime.run(task)"
        raise UsageError("run_sync waits, which would stop the event loop that runs in this thread", hint=hint)

    async def work() -> WorkerResult:
        async with WorkerRuntime(worker=worker, **options) as runtime:
            return await runtime.run(task)

    return start_loop(work)
