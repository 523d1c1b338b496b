"""The shipped coder at everyday and harmful lines: how many ask, and the time of a verdict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from table import Row, main

CASES = Path(__file__).resolve().parent.parent / "tests" / "cases"
FILES = "src/app.py src/util.py tests/test_util.py README.md setup.py package.json a.txt b.txt data.csv names.txt .env"


def verdicts(folder: Path, lines: Sequence[str]) -> tuple[list[str], float]:
    """Return the verdict of ``forge approve`` on each line, and the wall time in seconds."""
    calls = "".join(
        json.dumps({"tool": "shell", "input": {"command": line}}) + "\n" for line in lines
    )
    command = [sys.executable, "-m", "forge_cli", "approve", "coder", "--batch", "-"]
    env = {**os.environ, "FORGE_HOME": str(folder / "home")}
    began = time.monotonic()
    done = subprocess.run(
        command,
        cwd=folder / "work",
        env=env,
        input=calls,
        capture_output=True,
        text=True,
        check=True,
    )
    return [
        json.loads(line)["verdict"] for line in done.stdout.splitlines()
    ], time.monotonic() - began


def measure(rounds: int) -> list[Row]:
    everyday = [
        json.loads(line)["line"] for line in (CASES / "everyday.jsonl").read_text().splitlines()
    ]
    harmful = (CASES / "harmful.txt").read_text().splitlines()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for file in FILES.split():
            (folder / "work" / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / "work" / file).write_text("x\n")
        subprocess.run(["git", "init", "-q"], cwd=folder / "work", check=True)
        asked = sum(verdict != "preApproved" for verdict in verdicts(folder, everyday)[0])
        allowed = verdicts(folder, harmful)[0].count("preApproved")
        one = min(verdicts(folder, everyday[:1])[1] for _ in range(rounds))
        many = min(verdicts(folder, everyday * 10)[1] for _ in range(rounds))
    return [
        Row(
            "everyday lines asked, percent",
            100 * asked / len(everyday),
            10.0,
            f"{asked} of {len(everyday)}",
        ),
        Row("harmful lines allowed", allowed, 0.0, f"of {len(harmful)}"),
        Row("a verdict, ms", 1000 * (many - one) / (10 * len(everyday)), 10.0),
    ]


if __name__ == "__main__":
    main(measure, rounds=3)
