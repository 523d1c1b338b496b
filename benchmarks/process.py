"""Child processes: a command through forge against the same command by asyncio."""

from __future__ import annotations

import asyncio
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import anyio
from table import Row, main, megabytes

from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.sandbox.isolation.confinement import Confinement
from forge_cli.sandbox.isolation.isolation import Confined, best_mechanism
from forge_cli.sandbox.processes.command import (
    UNCONFINED,
    Command,
    Wrap,
    bash_argv,
    clean_environment,
)
from forge_cli.sandbox.processes.process import ChildProcesses

LINE = "true"
FACTOR, EXTRA = 1.5, 2.0
GIGABYTE = "head -c 1000000000 /dev/zero"
MEMORY = 50.0
STUBBORN = "trap '' TERM; (setsid bash -c 'trap \"\" TERM; while :; do sleep 1; done' &) ; while :; do sleep 1; done"
STOP = 3.0


async def bare(command: Command, folder: Path) -> None:
    """Run the command with the minimum of asyncio code, and read its output."""
    process = await asyncio.create_subprocess_exec(
        *command.argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=clean_environment(),
        pass_fds=command.descriptors,
        start_new_session=True,
    )
    await process.communicate()


async def milliseconds(action: Callable[[], Awaitable[object]]) -> float:
    begin = time.perf_counter()
    await action()
    return (time.perf_counter() - begin) * 1000


async def compare(
    what: str,
    action: Callable[[], Awaitable[object]],
    wrapped: Callable[[], AbstractContextManager[Command]],
    folder: Path,
    rounds: int,
) -> Row:
    """Alternate, so that noise affects both alike, and compare the minimum."""
    floors, mine = [], []
    for _ in range(rounds):
        with wrapped() as command:
            floors.append(await milliseconds(partial(bare, command, folder)))
        mine.append(await milliseconds(action))
    floor, least = min(floors), min(mine)
    figures = f"{least:.2f} / {floor:.2f} ms, median {statistics.median(mine):.2f} / {statistics.median(floors):.2f}"
    return Row(
        f"{what}, x bare asyncio after {EXTRA:.0f} ms",
        max(least - EXTRA, 0) / floor,
        FACTOR,
        figures,
    )


async def shell_true(what: str, wrap: Wrap, folder: Path, rounds: int) -> Row:
    async with ChildProcesses() as processes:
        run = partial(
            processes.run,
            bash_argv(LINE),
            cwd=folder,
            env=clean_environment(),
            timeout=30,
            wrap=wrap,
        )
        return await compare(what, run, partial(wrap, bash_argv(LINE), folder), folder, rounds)


async def memory(folder: Path) -> Row:
    """Return how much the peak memory of this process grows while a command writes a gigabyte."""
    before = peak()
    begin = time.perf_counter()
    async with ChildProcesses() as processes:
        done = await processes.run(
            bash_argv(GIGABYTE), cwd=folder, env=clean_environment(), timeout=300
        )
    grown = peak() - before
    if not done.truncated:
        raise SystemExit(f"all of the output was kept: {len(done.stdout)} characters")
    figures = f"{time.perf_counter() - begin:.1f} s, {len(done.stdout)} characters kept"
    return Row("memory for 1 GB of output, MB", grown, MEMORY, figures)


def peak() -> float:
    return megabytes(resource.getrusage(resource.RUSAGE_SELF))


async def stop(what: str, folder: Path, wrap: Wrap) -> Row:
    """Return the time to end processes that ignore signals, one of them in its own session."""
    async with ChildProcesses() as processes:
        done = await processes.run(
            bash_argv(STUBBORN), cwd=folder, env=clean_environment(), timeout=0.5, wrap=wrap
        )
    if not done.timed_out:
        raise SystemExit(f"{what}: the command ended before it was stopped")
    return Row(f"{what}, s", done.duration_ms / 1000 - 0.5, STOP, f"signal {done.signal}")


async def rows(folder: Path, rounds: int) -> list[Row]:
    found = [
        await shell_true("shell true", UNCONFINED, folder, rounds),
        await stop("stop", folder, UNCONFINED),
    ]
    if cage := best_mechanism():
        confinement = Confinement(zones=(Zone("here", folder, ZoneMode.RW),), workspace=folder)
        wrap = Confined(cage, confinement)
        found.append(await shell_true("shell true, confined", wrap, folder, rounds))
        found.append(await stop("stop, confined", folder, wrap))
    return [*found, await memory(folder)]


def measure(rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        return anyio.run(rows, Path(folder).resolve(), rounds)


if __name__ == "__main__":
    main(measure, rounds=100)
