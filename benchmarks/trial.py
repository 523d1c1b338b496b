"""Trials: a command on copies against the same confined command, and applying against ``cp -a``."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import anyio
from msgspec.structs import replace
from table import Row, main

from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.sandbox.changes.apply import apply_changes
from forge_cli.sandbox.isolation.bubblewrap import Bubblewrap
from forge_cli.sandbox.isolation.confinement import Confinement
from forge_cli.sandbox.isolation.isolation import Confined, best_mechanism
from forge_cli.sandbox.processes.command import Wrap, bash_argv, clean_environment
from forge_cli.sandbox.processes.process import ChildProcesses
from forge_cli.sandbox.trial.copies import Copies, drop_copies, overlay_problem

FILES, CHANGED, BYTES = 10_000, 1_000, 100_000_000
TRUE, WRITE, APPLY = 2.5, 2.5, 4.0
"""Limits of the ratios for a trial of ``true``, 100 MB written, and applying."""
PAUSE = 0.05
"""Seconds before each command for the kernel to remove the last namespaces."""
MAKE = f"for i in $(seq {CHANGED}); do echo line $i > made/$i; done"


class Bench:
    """A tree of files, with commands on copies and without."""

    def __init__(self, folder: Path, processes: ChildProcesses) -> None:
        self.zone, self.trial = folder / "zone", folder / "trial"
        for number in range(FILES):
            path = self.zone / str(number // 100) / f"{number}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("text\n")
        (self.zone / "made").mkdir()
        cage = best_mechanism()
        if not isinstance(cage, Bubblewrap) or (problem := overlay_problem(folder)):
            raise SystemExit(
                f"nothing can be tried here: {problem if cage else 'there is no bwrap'}"
            )
        self._confinement = Confinement(
            zones=(Zone("zone", self.zone, ZoneMode.RW),), workspace=self.zone
        )
        self.confined = Confined(cage, self._confinement)
        self._processes = processes

    def copies(self) -> Copies:
        drop_copies(self.trial)
        return Copies(
            self.trial,
            replace(
                self.confined, confinement=dataclasses.replace(self._confinement, network=True)
            ),
            network=False,
        )

    async def run(self, line: str, wrap: Wrap) -> float:
        """Return milliseconds, with the names that are looked up before every command."""
        await anyio.sleep(PAUSE)
        begin = time.perf_counter()
        if isinstance(wrap, Copies):
            names = wrap.wrap.confinement.names()
            wrap = replace(wrap, wrap=replace(wrap.wrap, names=names))
        elif isinstance(wrap, Confined):
            wrap = replace(wrap, names=wrap.confinement.names())
        await self._processes.run(
            bash_argv(line), cwd=self.zone, env=clean_environment(), timeout=120, wrap=wrap
        )
        if isinstance(wrap, Copies):
            wrap.read()
        return (time.perf_counter() - begin) * 1000

    async def compare(
        self, what: str, line: str, limit: float, rounds: int, *, clean: str = "true"
    ) -> Row:
        plain, tried = [], []
        for _ in range(rounds):
            plain.append(await self.run(line, self.confined))
            subprocess.run(["sh", "-c", clean], cwd=self.zone, check=True)  # noqa: ASYNC221
            tried.append(await self.run(line, self.copies()))
        return Row(
            f"{what}, x confined",
            min(tried) / min(plain),
            limit,
            f"{min(tried):.1f} / {min(plain):.1f} ms",
        )

    async def applying(self, rounds: int) -> Row:
        copied, applied = [], []
        for _ in range(rounds):
            copies = self.copies()
            await self.run(MAKE, copies)
            changes = copies.read()
            source = next(self.trial.glob("*/upper")) / "made"
            begin = time.perf_counter()
            subprocess.run(["cp", "-a", source, self.zone / "copied"], check=True)  # noqa: ASYNC221
            copied.append((time.perf_counter() - begin) * 1000)
            begin = time.perf_counter()
            apply_changes(changes)
            applied.append((time.perf_counter() - begin) * 1000)
            shutil.rmtree(self.zone / "copied")
            shutil.rmtree(self.zone / "made")
            (self.zone / "made").mkdir()
        figures = f"{min(applied):.1f} / {min(copied):.1f} ms"
        return Row(f"apply of {CHANGED} files, x cp -a", min(applied) / min(copied), APPLY, figures)


async def measure(rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        async with ChildProcesses() as processes:
            bench = Bench(Path(folder), processes)
            return [
                await bench.compare(f"true in {FILES} files", "true", TRUE, rounds),
                await bench.compare(
                    f"{BYTES // 1_000_000} MB written",
                    f"head -c {BYTES} /dev/zero > big",
                    WRITE,
                    3,
                    clean="rm big",
                ),
                await bench.applying(10),
            ]


def take(rounds: int) -> list[Row]:
    return anyio.run(measure, rounds)


if __name__ == "__main__":
    main(take, rounds=60)
