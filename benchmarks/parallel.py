"""Calls of one turn that only read: eight of 100 ms, from the first start to the last result, in milliseconds."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path

from table import Row, main

from forge_cli.core.bus import EventBus
from forge_cli.core.events import Event, ToolResult, ToolStarted
from forge_cli.testing import Project, call, calls

COUNT, LIMIT = 8, 130.0
TOOLS = """
import time
import anyio
from forge_cli import tool

@tool(read_only=True)
async def wait(n: int) -> int:
    await anyio.sleep(0.1)
    return n

@tool(read_only=True)
def block(n: int) -> int:
    time.sleep(0.1)
    return n
"""
WORKER = """
name: waiter
instructions: You wait.
toolsets:
  custom: {module: ./tools.py, tools: [wait, block], approval: {default: preApproved}}
"""


def through_forge(project: Project, tool: str, count: int = COUNT) -> float:
    """How long the calls of one turn take, with the record that every session has."""
    times: list[float] = []

    def note(event: Event) -> None:
        if isinstance(event, ToolStarted | ToolResult):
            times.append(time.perf_counter())

    bus = EventBus()
    bus.subscribe(note)
    seen = project.run(calls(*(call(tool, n=n) for n in range(count))), "Done.", bus=bus)
    if seen.result.tool_calls != count or not seen.result.success:
        raise SystemExit(f"the worker did not finish: {seen.result}")
    return (times[-1] - times[0]) * 1000


async def gathered() -> None:
    await asyncio.gather(*(asyncio.sleep(0.1) for _ in range(COUNT)))


def bare() -> float:
    began = time.perf_counter()
    asyncio.run(gathered())
    return (time.perf_counter() - began) * 1000


def measure(rounds: int) -> list[Row]:
    """Take turns, so that a noisy minute falls on all alike; the least decides, since noise only adds to it."""
    floors, waits, blocks = list[float](), list[float](), list[float]()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FORGE_HOME"] = f"{folder}/home"
        Path(folder, "work").mkdir()
        project = Project(Path(folder, "work").resolve())
        project.write("tools.py", TOOLS)
        project.write("worker.yaml", WORKER)
        for _ in range(rounds):
            floors.append(bare())
            waits.append(through_forge(project, "wait"))
            blocks.append(through_forge(project, "block"))
        many = through_forge(project, "wait", count=200)
    return [
        Row("8 sleeps by bare asyncio", min(floors), None, _median(floors)),
        Row("8 calls, async", min(waits), LIMIT, _median(waits)),
        Row("8 calls, in threads", min(blocks), LIMIT, _median(blocks)),
        Row("200 calls, async", many, LIMIT * 200 / COUNT),
    ]


def _median(times: list[float]) -> str:
    return f"median {statistics.median(times):.1f}"


if __name__ == "__main__":
    main(measure, rounds=10)
