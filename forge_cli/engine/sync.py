"""A worker's task in a program without an event loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypedDict, Unpack

from forge_cli.core.approval import ApprovalMode, OnAsk
from forge_cli.core.bounds import start_loop
from forge_cli.core.bus import EventBus
from forge_cli.core.errors import UsageError
from forge_cli.core.events import Event
from forge_cli.core.interrupt import InterruptSignal
from forge_cli.core.messages import ModelProvider
from forge_cli.engine.gate.controller import ApprovalCallback
from forge_cli.engine.runtime.result import WorkerResult
from forge_cli.engine.runtime.runtime import WorkerRuntime
from forge_cli.files.worker import Limits, Worker
from forge_cli.record.open import OpenSession


class RuntimeOptions(TypedDict, total=False):
    """The options of a WorkerRuntime, by their names there."""

    model: str | ModelProvider | None
    approval_mode: ApprovalMode | str | None
    approval_callback: ApprovalCallback | None
    on_event: Callable[[Event], None] | None
    interrupt_signal: InterruptSignal | None
    bus: EventBus | None
    workspace: Path | None
    on_ask: OnAsk
    limits: Limits | None
    output_schema: Mapping[str, Any] | None
    session: OpenSession | None
    read_only: bool


def run_sync(worker: Worker, task: str, **options: Unpack[RuntimeOptions]) -> WorkerResult:
    """Give a worker a task and wait for the result; ``options`` are those of WorkerRuntime."""
    if asyncio._get_running_loop() is not None:
        hint = "there: async with WorkerRuntime(worker=worker) as runtime: await runtime.run(task)"
        raise UsageError("run_sync waits, which would stop the event loop that runs in this thread", hint=hint)

    async def work() -> WorkerResult:
        async with WorkerRuntime(worker=worker, **options) as runtime:
            return await runtime.run(task)

    return start_loop(work)
