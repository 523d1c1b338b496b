"""The start of every command, against a floor that is measured in the same rounds."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from table import Row, Sample, best, main, megabytes, ratio, take_turns

ROOT = Path(__file__).resolve().parent.parent
FORGE = str(Path(sys.executable).with_name("forge"))
WORKER = "examples/calculator/worker.yaml"
ONE_TURN = "benchmarks/one_turn/worker.yaml"
WRITER = "examples/note_taker/worker.yaml"
"""A worker with tools of forge only; commands that look load tools of the other in a confined child."""

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import typer": [sys.executable, "-c", "import typer"],
    "forge --version": [FORGE, "--version"],
    "forge --help": [FORGE, "--help"],
    "forge worker check": [FORGE, "worker", "check", WRITER],
    "forge worker check, third-party tool": [FORGE, "worker", "check", WORKER],
    "forge tools list": [FORGE, "tools", "list"],
    "forge sessions list": [FORGE, "sessions", "list"],
    "forge approve": [FORGE, "approve", WRITER, "write_file", "path=/notes/a.md", "content=x"],
    "forge approve, third-party tool": [FORGE, "approve", WORKER, "calculate_fibonacci", "n=3"],
    "forge run": [FORGE, "run", ONE_TURN, "Say hello.", "-p"],
    "forge run, third-party tool": [
        FORGE,
        "run",
        WORKER,
        "What is the 20th Fibonacci number?",
        "-p",
    ],
    "forge tools list, 100 more distributions": [FORGE, "tools", "list"],
}
MORE = {"forge tools list": 0, "forge tools list, 100 more distributions": 100}
"""Number of distributions without plugins on the path."""
BESIDE_A_CHILD = 4.8
"""Limit for a command that loads a worker twice, the second time in a confined child."""
LIMITS: dict[str, tuple[str, float | None]] = {
    "forge --version": ("python -c pass", 1.5),
    "forge --help": ("import typer", 1.1),
    "forge worker check": ("import typer", 4.5),
    "forge worker check, third-party tool": ("import typer", BESIDE_A_CHILD),
    "forge tools list": ("import typer", 4.0),
    "forge sessions list": ("import typer", 2.5),
    "forge approve": ("import typer", 4.5),
    "forge approve, third-party tool": ("import typer", BESIDE_A_CHILD),
    "forge run": ("import typer", 4.5),
    "forge run, third-party tool": ("import typer", None),
    "forge tools list, 100 more distributions": ("forge tools list", 1.2),
}
MEMORY_LIMITS = {"forge --help": 25.0}


def start(command: list[str], environment: dict[str, str]) -> Sample:
    """Run one process and return its own resource usage; its peak is at least ours."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    errors = process.stderr.read() if process.stderr else b""
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(
            f"{' '.join(command)}: exit {process.returncode}\n{errors.decode(errors='replace')}"
        )
    return Sample(usage.ru_utime + usage.ru_stime, wall, megabytes(usage))


def environment(folder: Path, distributions: int | None) -> dict[str, str]:
    """Make a home in ``folder``, and put ``count`` distributions on the path if given."""
    variables = {**os.environ, "FORGE_HOME": str(folder / "home")}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    if distributions is None:
        return variables
    site = folder / f"site-{distributions}"
    for number in range(distributions):
        info = site / f"something_{number}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: something-{number}\nVersion: 1.0\n"
        )
        (info / "entry_points.txt").write_text(
            f"[console_scripts]\nsomething{number} = something{number}:main\n"
        )
    site.mkdir(exist_ok=True)
    return {**variables, "PYTHONPATH": str(site)}


def measure(rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        actions = {
            name: partial(start, command, environment(Path(folder), MORE.get(name)))
            for name, command in COMMANDS.items()
        }
        samples = {
            name: best(taken) for name, taken in take_turns(actions, rounds, warm_up=1).items()
        }
    return [
        *(
            ratio(f"{name}, x {floor}", samples[name], samples[floor], limit)
            for name, (floor, limit) in LIMITS.items()
        ),
        *(
            Row(f"{name}, MB at most", samples[name].memory, limit)
            for name, limit in MEMORY_LIMITS.items()
        ),
    ]


if __name__ == "__main__":
    main(measure, rounds=10, at_least=10)
