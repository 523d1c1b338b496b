"""Files: reading a small file through the gate, against ``open().read()`` in a thread."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from table import Row, main

from forge_cli.core.calls import ToolOutcome
from forge_cli.engine.gate.steps import Caller
from forge_cli.engine.runtime.runtime import WorkerRuntime
from forge_cli.files.worker import load_worker

CALLS = 200
LIMIT = 5.0
WORKER = "name: reader\nmodel: script:script.yaml\ntoolsets: {filesystem: {}}\n"
SCRIPT = "turns: [{text: done}]\n"


async def cpu_of(action: Callable[[], Awaitable[object]]) -> float:
    """Return seconds of CPU for all calls, one after another."""
    began = time.process_time()
    for _ in range(CALLS):
        await action()
    return time.process_time() - began


def read(file: Path) -> str:
    with open(file, encoding="utf-8") as opened:
        return opened.read()


async def compare(folder: Path, rounds: int) -> tuple[float, float]:
    file = folder / "notes.txt"
    file.write_text("A line of text.\n" * 20)
    async with WorkerRuntime(
        worker=load_worker(folder / "worker.yaml"), workspace=folder
    ) as runtime:

        async def through_the_gate() -> ToolOutcome:
            outcome = await runtime.invoke("read_file", {"path": "notes.txt"}, Caller.MODEL)
            if outcome.status != "success":
                raise SystemExit(f"read_file: {outcome}")
            return outcome

        async def bare() -> str:
            return await asyncio.to_thread(read, file)

        await cpu_of(through_the_gate)
        taken = [(await cpu_of(through_the_gate), await cpu_of(bare)) for _ in range(rounds)]
    return min(mine for mine, _ in taken), min(floor for _, floor in taken)


def measure(rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["FORGE_HOME"] = str(folder / "home")
        work = folder / "work"
        work.mkdir()
        (work / "worker.yaml").write_text(WORKER)
        (work / "script.yaml").write_text(SCRIPT)
        mine, floor = asyncio.run(compare(work, rounds))
    detail = f"{mine / CALLS * 1e6:.0f} / {floor / CALLS * 1e6:.0f} us of CPU"
    return [
        Row("read_file through the gate, x open().read() in a thread", mine / floor, LIMIT, detail)
    ]


if __name__ == "__main__":
    main(measure, rounds=5)
