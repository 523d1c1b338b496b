"""Executables: looking for changes before a turn, and a call against a bare subprocess."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
from process import compare, milliseconds
from table import Row, cpu_seconds, main, take_turns

from forge_cli.core.calls import ToolCall
from forge_cli.engine.gate.steps import Caller
from forge_cli.engine.runtime.without_model import opened
from forge_cli.files.worker import load_worker
from forge_cli.sandbox.isolation.isolation import best_mechanism
from forge_cli.toolsets.executables.registry import Registry, shell
from forge_cli.toolsets.executables.toolchain import INTERPRETER

FEW, MANY = 50, 1000
SCAN, TURN, LINEAR = 10.0, 10.0, 3.0
WORKER = """name: bench
sandbox: {{isolation: {isolation}}}
toolsets:
  executables: {{approval: {{default: preApproved}}}}
"""
MANIFEST = """name: {name}
description: Does nothing
entrypoint: {name}.sh
parameters:
  - {{name: text, default: x, description: What it is given}}
"""


def write_tools(root: Path, count: int) -> Path:
    """Make ``count`` tools."""
    for index in range(count):
        folder = root / f"tool{index:04}"
        folder.mkdir(parents=True)
        (folder / f"{folder.name}.sh").write_text("exit 0\n")
        (folder / "tool.yaml").write_text(MANIFEST.format(name=folder.name))
    return root


def warm_scans(roots: list[Path], rounds: int) -> list[float]:
    """Return milliseconds of CPU to detect that nothing changed: the minimum of alternating rounds."""
    registries = {root: Registry(root) for root in roots}
    for registry in registries.values():
        registry.scan()
    taken = take_turns(
        {root: partial(cpu_seconds, registry.scan) for root, registry in registries.items()}, rounds
    )
    return [min(taken[root]) * 1000 for root in roots]


def scans(folder: Path, rounds: int) -> list[Row]:
    roots = [write_tools(folder / str(count), count) for count in (FEW, MANY // 2, MANY)]
    few, half, many = warm_scans(roots, rounds)
    cold = cpu_seconds(Registry(roots[0]).scan) * 1000
    return [
        Row(f"scan of {FEW} tools, ms", few, SCAN, f"cold {cold:.1f} ms"),
        Row(
            f"scan of {MANY} tools, x {MANY // 2} tools",
            many / half,
            LINEAR,
            f"{many:.1f} / {half:.1f} ms",
        ),
    ]


async def turn(folder: Path, rounds: int) -> Row:
    """Measure what unchanged tools add to a turn."""
    costs = []
    for count in (0, FEW):
        os.environ["FORGE_HOME"] = str(folder / f"home{count}")
        write_tools(Path(os.environ["FORGE_HOME"]) / "tools", count)
        worker = folder / "worker.yaml"
        worker.write_text(WORKER.format(isolation="off"))
        async with opened(load_worker(worker), workspace=folder) as assembly:
            costs.append(min([await milliseconds(assembly.toolbox.refresh) for _ in range(rounds)]))
    without, with_them = costs
    figures = f"{with_them:.2f} ms, without any tool {without:.2f}"
    return Row(f"a turn with {FEW} tools, ms more than without", with_them - without, TURN, figures)


async def call(what: str, isolation: str, folder: Path, rounds: int) -> Row:
    """Compare a call through the gate with the same command by asyncio, confined alike."""
    home, work = folder / f"home-{isolation}", folder / f"work-{isolation}"
    os.environ["FORGE_HOME"] = str(home)
    work.mkdir()
    tool = write_tools(home / "tools", 1) / "tool0000"
    worker = work / "worker.yaml"
    worker.write_text(WORKER.format(isolation=isolation))
    words = [shell(), str(tool / "tool0000.sh"), "--text=x"]
    async with opened(load_worker(worker), workspace=work) as assembly:
        wrap = assembly.toolbox.toolsets[0].toolset.env.processes.wrap([tool, *INTERPRETER])
        through: Callable[[], Awaitable[object]] = partial(
            assembly.guard.call, ToolCall("call", "tool0000", {}), Caller.MODEL
        )
        row = await compare(what, through, partial(wrap, words, work), work, rounds)
        outcome = await assembly.guard.call(ToolCall("call", "tool0000", {}), Caller.MODEL)
    if not outcome.ok:
        raise SystemExit(f"{what}: {outcome.error}")
    return row


async def rows(folder: Path, rounds: int) -> list[Row]:
    found = [*scans(folder / "scans", rounds), await turn(folder, rounds)]
    found.append(await call("a call", "off", folder, rounds))
    if best_mechanism():
        found.append(await call("a call, confined", "required", folder, rounds))
    return found


def measure(rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        return anyio.run(rows, Path(folder).resolve(), rounds)


if __name__ == "__main__":
    main(measure, rounds=50)
