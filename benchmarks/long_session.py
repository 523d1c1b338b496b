"""A session of 5,000 turns: CPU and memory of a turn at its end against one at its beginning."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from pathlib import Path

from table import Row, main, megabytes

from forge_cli.core.calls import ToolCall
from forge_cli.core.messages import Delta, ModelRequest, TextDelta, TurnEnd
from forge_cli.engine.runtime.runtime import WorkerRuntime
from forge_cli.files.worker import Limits, load_worker
from forge_cli.record.open import open_session

TURNS, WINDOW = 5_000, 500
WORKER = "name: reader\nmodel: script:none\ntoolsets: {filesystem: {}}\n"
FLAT = 1.3
"""Limit of the ratio of a late turn to an early one."""
MEMORY = 6.0


class Endless:
    """A model that reads or writes a file in each turn and notes CPU and memory before it."""

    name = "script:none"
    context_window: int | None = None

    def __init__(self, turns: int) -> None:
        self.turns = turns
        self.cpu: list[float] = []
        self.memory: list[int] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        turn = len(self.cpu)
        self.cpu.append(time.process_time())
        self.memory.append(resident())
        if turn < self.turns:
            yield TextDelta(f"Turn {turn}: there is a file to read.")
            args = (
                {"path": f"{turn % 100}.txt", "content": f"turn {turn}"}
                if turn % 2
                else {"path": "notes.txt"}
            )
            yield ToolCall(f"call_{turn}", "write_file" if turn % 2 else "read_file", args)
        yield TurnEnd()

    async def aclose(self) -> None:
        pass


def resident() -> int:
    """Return the memory in use in bytes; if that is unknown, the peak."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except FileNotFoundError:
        return int(megabytes(resource.getrusage(resource.RUSAGE_SELF)) * 1024 * 1024)


async def converse(folder: Path, turns: int) -> Endless:
    worker, model = load_worker(folder / "worker.yaml"), Endless(turns)
    with open_session(worker, workspace=folder) as session:
        runtime = WorkerRuntime(
            worker=worker,
            model=model,
            workspace=folder,
            approval_mode="approve_all",
            limits=Limits(max_turns=turns + 1),
            session=session,
            on_event=lambda event: None,
        )
        async with runtime:
            result = await runtime.run("go")
    if result.turns != turns + 1 or not result.success:
        raise SystemExit(f"the worker did not finish: {result}")
    return model


def child(turns: int) -> None:
    """Run one session in this process; print CPU seconds and bytes of memory before each turn."""
    with tempfile.TemporaryDirectory() as name:
        os.environ["FORGE_HOME"] = f"{name}/home"
        folder = Path(name, "work")
        folder.mkdir()
        (folder / "worker.yaml").write_text(WORKER)
        (folder / "notes.txt").write_text("A line of text.\n" * 20)
        model = asyncio.run(converse(folder, turns))
    print(json.dumps([model.cpu, model.memory]))


def session() -> tuple[list[float], list[int]]:
    command = [sys.executable, str(Path(__file__).resolve()), "--child", str(TURNS)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    cpu, memory = json.loads(done.stdout)
    return cpu, memory


def measure(rounds: int) -> list[Row]:
    """Compare the minimum of each window, because noise only adds to it."""
    taken = [session() for _ in range(rounds)]

    def cpu_a_turn(start: int) -> float:
        return min(cpu[start + WINDOW] - cpu[start] for cpu, _ in taken) / WINDOW * 1000

    def memory_a_turn(start: int, end: int) -> float:
        return min(memory[end] - memory[start] for _, memory in taken) / (end - start) / 1024

    early, late = cpu_a_turn(WINDOW), cpu_a_turn(TURNS - WINDOW)
    half = TURNS // 2
    first, second = memory_a_turn(WINDOW, half), memory_a_turn(half, TURNS)
    return [
        Row(
            "CPU of a turn near 5,000, x near 1,000",
            late / early,
            FLAT,
            f"{late:.2f} / {early:.2f} ms",
        ),
        Row(
            "memory of a turn, second half of 5,000 x first",
            second / first,
            FLAT,
            f"{second:.1f} / {first:.1f} KB",
        ),
        Row(
            "memory that a turn adds, KB",
            second,
            MEMORY,
            "what the model is sent again has to be kept",
        ),
    ]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--child", turns]:
            child(int(turns))
        case _:
            main(measure, rounds=2)
