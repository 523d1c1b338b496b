"""The search without ripgrep as a ratio to the one with it, over the tree of this repository."""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio

from forge_cli.sandbox.paths import Sandbox
from forge_cli.sandbox.search.grep import Engine, grep
from forge_cli.sandbox.zones import Zone

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


@dataclass(frozen=True)
class Sample:
    """One search: seconds of CPU, of this process and of the engine, and seconds on the wall."""

    cpu: float
    wall: float


@dataclass(frozen=True)
class Row:
    """One line of the table; ``ok`` is judged on ``value``."""

    search: str
    value: float
    wall_ratio: float
    ripgrep_ms: float
    python_ms: float
    ok: bool


def used() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


async def measure(sandbox: Sandbox, pattern: str, engine: Engine) -> tuple[Sample, int]:
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
                sample, total = await measure(sandbox, pattern, engine)
                totals.add(total)
                if turn:
                    samples.setdefault((name, engine), []).append(sample)
            if len(totals) > 1:
                raise SystemExit(f"{name}: the engines found {totals} lines; was a file changed meanwhile?")
    return samples


def judge(samples: dict[tuple[str, Engine], list[Sample]]) -> list[Row]:
    """The least CPU decides, since noise only adds to it."""
    cpu = {key: min(sample.cpu for sample in taken) for key, taken in samples.items()}
    wall = {key: statistics.median(sample.wall for sample in taken) for key, taken in samples.items()}
    rows = [row(name, [name], cpu, wall) for name in PATTERNS]
    return [*rows, row("all of them", list(PATTERNS), cpu, wall)]


Seconds = dict[tuple[str, Engine], float]


def row(title: str, names: list[str], cpu: Seconds, wall: Seconds) -> Row:
    used, passed = ([sum(seconds[name, engine] for name in names) for engine in ENGINES] for seconds in (cpu, wall))
    value = used[1] / used[0]
    return Row(title, value, passed[1] / passed[0], used[0] * 1000, used[1] * 1000, ok=value <= LIMIT)


def show(rows: list[Row]) -> None:
    print(f"{'search':<20} {'x ripgrep':>9} {'wall':>7} {'ripgrep ms':>11} {'python ms':>10}")
    for found in rows:
        numbers = f"{found.value:>9.2f} {found.wall_ratio:>7.2f} {found.ripgrep_ms:>11.0f} {found.python_ms:>10.0f}"
        print(f"{found.search:<20} {numbers}  {'' if found.ok else f'over {LIMIT}'}".rstrip())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="at least 10")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.rounds < 10:
        parser.error("--rounds: fewer than 10 say nothing on a noisy machine")
    if not shutil.which("rg"):
        parser.error("ripgrep is the floor; install it, its command is called rg")
    rows = judge(anyio.run(collect, options.rounds))
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        show(rows)
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
