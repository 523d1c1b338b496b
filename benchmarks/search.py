"""Searches against ripgrep, in this repository and in 200,000 files, and listing those files."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import anyio
from table import Row, Sample, best, least_cpu, main, megabytes, ratio

from forge_cli.core.zones import Zone
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.sandbox.search.files import list_dir
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
LIMIT = 5.0
"""Limits of the small tree, in which ripgrep is as fast as a start of Python."""
FOLDERS, FILES = 2_000, 100
LARGE_ROUNDS = 2
RARE = {
    "a name": "needle_17",
    "a word": r"\bneedle\b",
    "a definition": r"^\s*(async )?def needle_\w+\(",
    "two words, any case": r"(?i)needle.*words",
    "nothing": "no such text" + " anywhere",
}
"""Pattern with few matches in the large tree; a search stops early after many."""
LARGE_LIMITS: dict[Engine, float] = {"ripgrep": 2.5, "python": 5.0}
"""Limits against a walk by ripgrep.

forge walks for both engines, so that both search the same files, and reads the size of each to report files that are
too large. Python reads every line with plain ``re``: 2.4 x if files are slow to open, else 4.4 x.
"""
LISTING_LIMIT, MEMORY = 2.0, 20.0


def used() -> float:
    """Return CPU seconds of this process and of the engine."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


async def search(sandbox: Sandbox, pattern: str, engine: Engine) -> tuple[Sample, int]:
    cpu, wall = used(), time.perf_counter()
    found = await grep(sandbox, pattern, engine=engine)
    return Sample(used() - cpu, time.perf_counter() - wall), found.total


async def collect(rounds: int) -> dict[tuple[str, Engine], list[Sample]]:
    """Alternate, so that noise affects both alike; the first round only warms up."""
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
                raise SystemExit(
                    f"{name}: the engines found {totals} lines; was a file changed meanwhile?"
                )
    return samples


def together(samples: list[Sample]) -> Sample:
    return Sample(sum(sample.cpu for sample in samples), sum(sample.wall for sample in samples))


def plant(root: Path) -> None:
    """Make the large tree."""
    lines = [
        f"def name_{number}(value):\n    return value + {number}  # some words\n"
        for number in range(50)
    ]
    for number in range(FOLDERS):
        folder = root / f"package_{number // 10}" / f"module_{number % 10}"
        folder.mkdir(parents=True)
        for file in range(FILES):
            (folder / f"file_{file}.py").write_text(
                "".join(lines[(number + file + line) % 50] for line in range(8))
            )
    (root / "package_7" / "last.py").write_text("def needle_17():  # Needle with words\n")


def bare(pattern: str, root: Path) -> Sample:
    cpu, wall = used(), time.perf_counter()
    argv = ["rg", "--no-config", "--line-number", pattern, "."]
    subprocess.run(argv, cwd=root, stdout=subprocess.DEVNULL, check=False)
    return Sample(used() - cpu, time.perf_counter() - wall)


async def search_large(root: Path, rounds: int) -> list[Row]:
    """Search all patterns with each engine, and compare with plain ripgrep."""
    sandbox = Sandbox([Zone("tree", root)])
    taken: dict[tuple[str, str], list[Sample]] = {}
    for _ in range(rounds):
        for name, pattern in RARE.items():
            taken.setdefault((name, "bare"), []).append(bare(pattern, root))
            for engine in ENGINES:
                taken.setdefault((name, engine), []).append(
                    (await search(sandbox, pattern, engine))[0]
                )
    whole = {who: together([best(taken[name, who]) for name in RARE]) for who in ("bare", *ENGINES)}
    words = {"ripgrep": "with ripgrep", "python": "without ripgrep"}
    what = "grep_files {} in 200,000 files, x ripgrep"
    return [
        ratio(what.format(words[engine]), whole[engine], whole["bare"], limit)
        for engine, limit in LARGE_LIMITS.items()
    ]


def list_large(root: Path, rounds: int) -> list[Row]:
    sandbox, before = (
        Sandbox([Zone("tree", root)]),
        megabytes(resource.getrusage(resource.RUSAGE_SELF)),
    )
    mine = least_cpu(lambda: list_dir(sandbox, "/tree", depth=20), rounds)
    grown = megabytes(resource.getrusage(resource.RUSAGE_SELF)) - before
    floor = least_cpu(lambda: sum(len(files) for _, _, files in os.walk(root)), rounds)
    return [
        Row(
            "list_dir of 200,000 files, x os.walk",
            mine / floor,
            LISTING_LIMIT,
            f"{mine:.2f} / {floor:.2f} s of CPU",
        ),
        Row("memory for list_dir of 200,000 files, MB", grown, MEMORY),
    ]


def measure_large(rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        plant(root)
        return [*list_large(root, rounds), *anyio.run(search_large, root, rounds)]


def measure(rounds: int) -> list[Row]:
    if not shutil.which("rg"):
        raise SystemExit("ripgrep is the floor; install it, its command is called rg")
    large = measure_large(LARGE_ROUNDS)
    samples = {key: best(taken) for key, taken in anyio.run(collect, rounds).items()}
    titles = {**{name: [name] for name in PATTERNS}, "all of them": list(PATTERNS)}
    rows = []
    for title, names in titles.items():
        floor, mine = (together([samples[name, engine] for name in names]) for engine in ENGINES)
        rows.append(ratio(f"{title}, x ripgrep", mine, floor, LIMIT))
    return [*rows, *large]


if __name__ == "__main__":
    main(measure, rounds=10, at_least=10)
