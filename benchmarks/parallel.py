"""Parallel calls: eight reading calls of 100 ms in one turn, from first start to last result."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from table import Row, main, take_turns

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
    """Return the time of the calls of one turn, with the record of an ordinary session."""
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
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FORGE_HOME"] = f"{folder}/home"
        Path(folder, "work").mkdir()
        project = Project(Path(folder, "work").resolve())
        project.write("tools.py", TOOLS)
        project.write("worker.yaml", WORKER)
        through: dict[str, Callable[[], float]] = {
            tool: partial(through_forge, project, tool) for tool in ("wait", "block")
        }
        taken = take_turns({"bare": bare, **through}, rounds)
        many = through_forge(project, "wait", count=200)
    return [
        row("8 sleeps by bare asyncio", taken["bare"], None),
        row("8 calls, async", taken["wait"], LIMIT),
        row("8 calls, in threads", taken["block"], LIMIT),
        Row("200 calls, async", many, LIMIT * 200 / COUNT),
    ]


def row(what: str, times: list[float], limit: float | None) -> Row:
    """Compare the minimum, because noise only adds to it."""
    return Row(what, min(times), limit, f"median {statistics.median(times):.1f}")


if __name__ == "__main__":
    main(measure, rounds=10)
