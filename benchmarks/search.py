"""The search without ripgrep as a ratio to the one with it, over the tree of this repository."""

from __future__ import annotations

import resource
import shutil
import time
from pathlib import Path

import anyio
from table import Row, Sample, best, main, ratio

from forge_cli.core.zones import Zone
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.sandbox.search.grep import Engine, grep

ROOT = Path(__file__).resolve().parent.parent
ENGINES: tuple[Engine, ...] = ("ripgrep", "python")
PATTERNS = {
    "a name": "ToolError",
    "a word": r"\bimport\b",
    "a definition": r"^\s*(async )?def \w+\(",
    "two words, any case": r"(?i)error.*line",
    "nothing": "no such text" + " anywhere",
}
LIMIT = 3.0


def used() -> float:
    """Seconds of CPU, of this process and of the engine."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


async def search(sandbox: Sandbox, pattern: str, engine: Engine) -> tuple[Sample, int]:
    cpu, wall = used(), time.perf_counter()
    found = await grep(sandbox, pattern, engine=engine)
    return Sample(used() - cpu, time.perf_counter() - wall), found.total


async def collect(rounds: int) -> dict[tuple[str, Engine], list[Sample]]:
    """Take turns, so that a noisy minute falls on both; the first turn only warms up."""
    sandbox = Sandbox([Zone("repository", ROOT)])
    samples: dict[tuple[str, Engine], list[Sample]] = {}
    for turn in range(rounds + 1):
        for name, pattern in PATTERNS.items():
            totals = set()
            for engine in ENGINES:
                sample, total = await search(sandbox, pattern, engine)
                totals.add(total)
                if turn:
                    samples.setdefault((name, engine), []).append(sample)
            if len(totals) > 1:
                raise SystemExit(f"{name}: the engines found {totals} lines; was a file changed meanwhile?")
    return samples


def together(samples: list[Sample]) -> Sample:
    return Sample(sum(sample.cpu for sample in samples), sum(sample.wall for sample in samples))


def measure(rounds: int) -> list[Row]:
    if not shutil.which("rg"):
        raise SystemExit("ripgrep is the floor; install it, its command is called rg")
    samples = {key: best(taken) for key, taken in anyio.run(collect, rounds).items()}
    titles = {**{name: [name] for name in PATTERNS}, "all of them": list(PATTERNS)}
    rows = []
    for title, names in titles.items():
        floor, mine = (together([samples[name, engine] for name in names]) for engine in ENGINES)
        rows.append(ratio(f"{title}, x ripgrep", mine, floor, LIMIT))
    return rows


if __name__ == "__main__":
    main(measure, rounds=10, at_least=10)
