"""Helpers of the benchmarks: rounds that alternate, and rows of figures as a table or JSON."""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TypeVar

Key = TypeVar("Key")
Taken = TypeVar("Taken")


@dataclass(frozen=True)
class Row:
    """One figure; without a limit it is only shown."""

    what: str
    value: float
    limit: float | None = None
    detail: str = ""

    @property
    def ok(self) -> bool:
        return self.limit is None or self.value <= self.limit


@dataclass(frozen=True)
class Sample:
    """One run: CPU seconds, wall seconds, and optionally peak memory in MB."""

    cpu: float
    wall: float
    memory: float = 0.0


def take_turns(
    actions: Mapping[Key, Callable[[], Taken]], rounds: int, *, warm_up: int = 0
) -> dict[Key, list[Taken]]:
    """Run each action once a round, so that noise affects all alike; warm-up rounds do not count."""
    taken: dict[Key, list[Taken]] = {name: [] for name in actions}
    for turn in range(warm_up + rounds):
        for name, action in actions.items():
            found = action()
            if turn >= warm_up:
                taken[name].append(found)
    return taken


def best(taken: Sequence[Sample]) -> Sample:
    """Return the minimum of CPU and memory, and the median wall time."""
    return Sample(
        min(sample.cpu for sample in taken),
        statistics.median(sample.wall for sample in taken),
        min(sample.memory for sample in taken),
    )


def ratio(what: str, mine: Sample, floor: Sample, limit: float | None) -> Row:
    """Compare the CPU of two actions."""
    figures = (
        f"{mine.cpu * 1000:.0f} / {floor.cpu * 1000:.0f} ms, wall x {mine.wall / floor.wall:.2f}"
    )
    return Row(what, mine.cpu / floor.cpu, limit, figures)


def cpu_seconds(action: Callable[[], object]) -> float:
    """Return the CPU time of this process for one run."""
    began = time.process_time()
    action()
    return time.process_time() - began


def least_cpu(action: Callable[[], object], rounds: int) -> float:
    """Return CPU seconds: the minimum of the rounds."""
    return min(cpu_seconds(action) for _ in range(rounds))


def megabytes(usage: resource.struct_rusage) -> float:
    """Return the peak memory; Linux counts in kilobytes and macOS in bytes."""
    return usage.ru_maxrss / (1024 if sys.platform == "linux" else 1024 * 1024)


def report(rows: list[Row], *, as_json: bool) -> int:
    """Print the rows; return 1 if one is over its limit."""
    if as_json:
        print(json.dumps([{**asdict(row), "ok": row.ok} for row in rows], indent=2))
    else:
        width = max(len(row.what) for row in rows)
        for row in rows:
            limit = "" if row.limit is None else f"  limit {row.limit:g}"
            print(
                f"{row.what:<{width}}  {row.value:8.3f}{limit:<14}  {'' if row.ok else 'OVER  '}{row.detail}".rstrip()
            )
    return 0 if all(row.ok for row in rows) else 1


def main(measure: Callable[[int], list[Row]], *, rounds: int, at_least: int = 1) -> None:
    """Measure and exit; require ``at_least`` rounds for reliable figures."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument(
        "--rounds", type=int, default=rounds, help=f"{rounds} unless told, at least {at_least}"
    )
    parser.add_argument(
        "--json", action="store_true", dest="as_json", help="print the rows as JSON"
    )
    given = parser.parse_args()
    if given.rounds < at_least:
        parser.error(f"--rounds: fewer than {at_least} say nothing on a noisy machine")
    sys.exit(report(measure(given.rounds), as_json=given.as_json))
