"""A line that is held to reading, against the same line confined as any other command."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
from table import Row, Sample, best, main, ratio

from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.sandbox.processes.command import bash_argv, clean_environment
from forge_cli.sandbox.trial.reading import reading_environment
from forge_cli.sandbox.worker_processes import WorkerProcesses

LINE = "head -1 a.txt"
SMALL, LARGE = 1.15, 1.6
"""Limits of the ratios in a small folder and in one of FILES files."""
TIMES = 5
"""Lines for one figure, because the kernel counts CPU in ticks."""
FILES, IN_FOLDER = 10_000, 100
SETTLED = 0.3
"""Seconds until forge considers a folder unchanged."""
PAUSE = 0.05
"""Seconds before each command for the kernel to remove the last namespaces."""


def make_tree(folder: Path, files: int) -> None:
    """Make folders of files, with secrets in some of them."""
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("text\n")
    (folder / ".env").write_text("KEY=1\n")
    for number in range(files):
        path = folder / str(number // IN_FOLDER) / f"{number}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text("text\n")


def quiet(level: str, sentence: str) -> None:
    """Discard messages about confinement."""


async def taken(run: Callable[[], Awaitable[object]], times: int) -> Sample:
    """Return the CPU of this process and its children for one line, kernel time included."""
    began, since = used(), time.perf_counter()
    for _ in range(times):
        await run()
    wall = time.perf_counter() - since
    await anyio.sleep(PAUSE)
    return Sample((used() - began) / times, wall / times)


def used() -> float:
    """Return CPU seconds until now."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in both)


async def compare(what: str, folder: Path, limit: float, rounds: int) -> Row:
    sandbox = Sandbox([Zone("workspace", folder, ZoneMode.RW)])
    processes = WorkerProcesses(
        sandbox, workspace=folder, home=folder.parent / "home", notify=quiet
    )
    argv = bash_argv(LINE)
    async with processes.children:
        held = processes.reading_runs
        if held is None:
            raise SystemExit("nothing can be held to reading here: there is no bwrap")
        wrapped = partial(
            processes.run_wrapped,
            argv,
            cwd=folder,
            env=reading_environment(),
            together=1000,
            watch=lambda text: None,
        )
        plain = partial(
            processes.run, argv, env=clean_environment(), together=1000, watch=lambda text: None
        )
        reading = partial(held.run, wrapped)
        ordinary, only = [], []
        for _ in range(rounds):
            ordinary.append(await taken(plain, TIMES))
            only.append(await taken(reading, TIMES))
        held.close()
    return ratio(f"a reading line in {what}, x confined", best(only), best(ordinary), limit)


async def measure(rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        around = Path(place).resolve()  # noqa: ASYNC240
        make_tree(around / "small", 20)
        make_tree(around / "large", FILES)
        await anyio.sleep(SETTLED)
        return [
            await compare("a small folder", around / "small", SMALL, rounds),
            await compare(f"{FILES:,} files", around / "large", LARGE, rounds),
        ]


def take(rounds: int) -> list[Row]:
    return anyio.run(measure, rounds)


if __name__ == "__main__":
    main(take, rounds=15)
