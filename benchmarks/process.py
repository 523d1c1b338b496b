"""Child processes as ratios: a command through forge against the same words by bare asyncio, in the same rounds."""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import anyio

from forge_cli.sandbox.confinement import Confinement
from forge_cli.sandbox.isolation import mechanism
from forge_cli.sandbox.process import Command, Processes, Wrap, bash, clean_environment, unconfined
from forge_cli.sandbox.zones import Mode, Zone

LINE = "true"
FACTOR, EXTRA = 1.5, 2.0
GIGABYTE = "head -c 1000000000 /dev/zero"
MEMORY = 50.0
STUBBORN = "trap '' TERM; (setsid bash -c 'trap \"\" TERM; while :; do sleep 1; done' &) ; while :; do sleep 1; done"
STOP = 3.0


@dataclass(frozen=True)
class Row:
    """One line of the table; ``ok`` is judged on ``value``."""

    what: str
    measured_as: str
    value: float
    limit: float
    figures: str
    ok: bool


async def bare(command: Command, folder: Path) -> None:
    """The least that asyncio needs to run the words and read what they say."""
    process = await asyncio.create_subprocess_exec(
        *command.words,
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


async def compare(what: str, wrap: Wrap, folder: Path, rounds: int) -> Row:
    """Take turns, so that a noisy minute falls on both alike; the least decides, since noise only adds to it."""
    floors, mine = [], []
    async with Processes() as processes:
        run = partial(processes.run, bash(LINE), cwd=folder, env=clean_environment(), timeout=30, wrap=wrap)
        for _ in range(rounds):
            with wrap(bash(LINE), folder) as command:
                floors.append(await milliseconds(partial(bare, command, folder)))
            mine.append(await milliseconds(run))
    floor, least = min(floors), min(mine)
    figures = f"{least:.2f} / {floor:.2f} ms, median {statistics.median(mine):.2f} / {statistics.median(floors):.2f}"
    value = max(least - EXTRA, 0) / floor
    return Row(what, f"x bare asyncio, after {EXTRA:.0f} ms", value, FACTOR, figures, value <= FACTOR)


async def memory(folder: Path) -> Row:
    """How much the peak of this process grows while a command writes a gigabyte."""
    before = peak()
    begin = time.perf_counter()
    async with Processes() as processes:
        done = await processes.run(bash(GIGABYTE), cwd=folder, env=clean_environment(), timeout=300)
    grown = peak() - before
    figures = f"{time.perf_counter() - begin:.1f} s, {len(done.stdout)} characters kept"
    return Row("memory for 1 GB of output", "MB", grown, MEMORY, figures, grown <= MEMORY and done.truncated)


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 1024 * 1024)


async def stop(what: str, folder: Path, wrap: Wrap) -> Row:
    """How long it takes to end processes that do not want to, one of them in a session of its own."""
    async with Processes() as processes:
        done = await processes.run(bash(STUBBORN), cwd=folder, env=clean_environment(), timeout=0.5, wrap=wrap)
    took = done.duration_ms / 1000 - 0.5
    return Row(what, "s", took, STOP, f"signal {done.signal}", took <= STOP and done.timed_out)


async def measure(folder: Path, rounds: int) -> list[Row]:
    rows = [await compare("shell true", unconfined, folder, rounds), await stop("stop", folder, unconfined)]
    if found := mechanism():
        confinement = Confinement(zones=(Zone("here", folder, Mode.RW),), workspace=folder)
        cage = partial(found.wrap, confinement=confinement)
        rows.append(await compare("shell true, confined", cage, folder, rounds))
        rows.append(await stop("stop, confined", folder, cage))
    return [*rows, await memory(folder)]


def show(rows: list[Row]) -> None:
    print(f"{'what':<26} {'measured as':<28} {'value':>7} {'limit':>7}  figures")
    for row in rows:
        numbers = f"{row.value:>7.2f} {row.limit:>7.2f}  {row.figures:<48}"
        print(f"{row.what:<26} {row.measured_as:<28} {numbers} {'ok' if row.ok else 'over'}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = anyio.run(measure, Path(folder).resolve(), options.rounds)
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        show(rows)
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
