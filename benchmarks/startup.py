"""Start-up as a ratio: every command against a floor that is measured in the same rounds."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import resource

ROOT = Path(__file__).resolve().parent.parent
FORGE = str(Path(sys.executable).with_name("forge"))
WORKER = "examples/calculator/worker.yaml"

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import typer": [sys.executable, "-c", "import typer"],
    "forge --version": [FORGE, "--version"],
    "forge --help": [FORGE, "--help"],
    "forge worker check": [FORGE, "worker", "check", WORKER],
    "forge tools list": [FORGE, "tools", "list"],
    "forge tools list, 100 more distributions": [FORGE, "tools", "list"],
}
MORE = {"forge tools list": 0, "forge tools list, 100 more distributions": 100}
"""How many distributions that are no plugins lie in a folder that is put on the path."""
LIMITS = {
    "forge --version": ("python -c pass", 2.5),
    "forge --help": ("import typer", 1.3),
    "forge worker check": ("import typer", 5.0),
    "forge tools list": ("import typer", 5.0),
    "forge tools list, 100 more distributions": ("forge tools list", 1.2),
}
MEMORY_LIMITS = {"forge --help": 25.0}


@dataclass(frozen=True)
class Sample:
    """One process: seconds of CPU, seconds on the wall, peak memory in MB."""

    cpu: float
    wall: float
    memory: float


@dataclass(frozen=True)
class Row:
    """One line of the table; ``ok`` is judged on ``value``."""

    command: str
    floor: str
    value: float
    limit: float
    wall_ratio: float | None
    cpu_ms: float
    ok: bool


def measure(command: list[str], environment: dict[str, str]) -> Sample:
    """Start one process and wait for it, with the resources of that process alone."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    errors = process.stderr.read() if process.stderr else b""
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit {process.returncode}\n{errors.decode(errors='replace')}")
    return Sample(usage.ru_utime + usage.ru_stime, wall, megabytes(usage))


def megabytes(usage: resource.struct_rusage) -> float:
    """Linux counts the peak in kilobytes, macOS in bytes; a child never shows less than this process has itself."""
    return usage.ru_maxrss / (1024 if sys.platform == "linux" else 1024 * 1024)


def collect(rounds: int) -> dict[str, list[Sample]]:
    """Take turns, so that a noisy minute falls on commands and floors alike; the first turn only warms up."""
    samples: dict[str, list[Sample]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as folder:
        environments = {name: environment(Path(folder), MORE.get(name)) for name in COMMANDS}
        for turn in range(rounds + 1):
            for name, command in COMMANDS.items():
                sample = measure(command, environments[name])
                if turn:
                    samples[name].append(sample)
    return samples


def environment(folder: Path, distributions: int | None) -> dict[str, str]:
    """A home in ``folder``, and on the path so many distributions, where a number is given."""
    variables = {**os.environ, "FORGE_HOME": str(folder / "home")}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    if distributions is None:
        return variables
    site = folder / f"site-{distributions}"
    for number in range(distributions):
        info = site / f"something_{number}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: something-{number}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[console_scripts]\nsomething{number} = something{number}:main\n")
    site.mkdir(exist_ok=True)
    return {**variables, "PYTHONPATH": str(site)}


def judge(samples: dict[str, list[Sample]]) -> list[Row]:
    """The least CPU decides, since noise only adds to it; the median wall time is shown beside it."""
    cpu = {name: min(sample.cpu for sample in taken) for name, taken in samples.items()}
    wall = {name: statistics.median(sample.wall for sample in taken) for name, taken in samples.items()}
    rows = [
        Row(name, f"x {floor}", value, limit, wall[name] / wall[floor], cpu[name] * 1000, value <= limit)
        for name, (floor, limit) in LIMITS.items()
        for value in [cpu[name] / cpu[floor]]
    ]
    for name, limit in MEMORY_LIMITS.items():
        peak = min(sample.memory for sample in samples[name])
        rows.append(Row(name, "MB at most", peak, limit, None, cpu[name] * 1000, peak <= limit))
    return rows


def show(rows: list[Row]) -> None:
    print(f"{'command':<41} {'measured as':<18} {'value':>7} {'limit':>7} {'wall':>7} {'cpu ms':>7}")
    for row in rows:
        wall = "" if row.wall_ratio is None else f"{row.wall_ratio:.2f}"
        numbers = f"{row.value:>7.2f} {row.limit:>7.2f} {wall:>7} {row.cpu_ms:>7.0f}"
        print(f"{row.command:<41} {row.floor:<18} {numbers}  {'ok' if row.ok else 'over'}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="at least 10")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.rounds < 10:
        parser.error("--rounds: fewer than 10 say nothing on a noisy machine")
    rows = judge(collect(options.rounds))
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        show(rows)
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
