"""Twenty small tasks for any model: does it read, find, edit and run with forge's tools, and how well?"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

TASKS = Path(__file__).with_name("tasks.yaml")
TOOLS = "read_file,write_file,edit_file,list_files,grep_files,shell"
INSTRUCTIONS = "Do the task with the tools, then answer in one short sentence."
MAX_TURNS = 8
GRACE = 60.0
"""Seconds beyond its limit after which forge itself is stopped."""


@dataclass(frozen=True)
class Task:
    """What is there, what is asked, and how an answer is checked."""

    name: str
    task: str
    files: dict[str, str] = field(default_factory=dict)
    answer: str | None = None
    """A pattern that the answer has to contain."""
    expect: dict[str, str] = field(default_factory=dict)
    """What files hold afterwards; a newline at the end does not count."""

    def failure(self, response: str, folder: Path) -> str:
        """Why it is not solved; empty if it is."""
        if self.answer is not None and not re.search(self.answer, response, re.IGNORECASE):
            return f"answered {response[:60]!r}"
        for name, content in self.expect.items():
            path = folder / name
            found = path.read_text(errors="replace") if path.is_file() else None
            if found is None or found.rstrip("\n") != content.rstrip("\n"):
                return f"{name} is missing" if found is None else f"{name} holds {found[:60]!r}"
        return ""


@dataclass(frozen=True)
class Score:
    task: str
    ok: bool
    turns: int
    calls: int
    seconds: float
    note: str = ""


def read_tasks(only: Sequence[str]) -> list[Task]:
    tasks = [Task(**entry) for entry in yaml.safe_load(TASKS.read_text())]
    unknown = set(only) - {task.name for task in tasks}
    if unknown:
        sys.exit(f"no such task: {', '.join(sorted(unknown))}")
    return [task for task in tasks if not only or task.name in only]


def attempt(task: Task, worker: Path, options: Sequence[str], max_time: float) -> Score:
    """One task in an empty folder, which is the same for all, so that a server's prompt cache serves them all."""
    folder = worker.parent / "work"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in task.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    command = [
        sys.executable,
        "-m",
        "forge_cli",
        "run",
        str(worker),
        task.task,
        "-C",
        str(folder),
        "-y",
        "--ephemeral",
    ]
    command += [
        "--trace",
        "quiet",
        "--output-format",
        "json",
        "--max-time",
        str(max_time),
        *options,
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=max_time + GRACE, check=False
        )
    except subprocess.TimeoutExpired:
        return Score(task.name, ok=False, turns=0, calls=0, seconds=max_time, note="did not end")
    try:
        result: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return Score(
            task.name, ok=False, turns=0, calls=0, seconds=0, note=done.stderr.strip()[-200:]
        )
    failure = task.failure(result["response"] or "", folder)
    note = failure if result["status"] == "completed" else f"{result['status']}; {failure}"
    return Score(
        task.name,
        ok=not failure,
        turns=result["turns"],
        calls=result["toolCalls"],
        seconds=result["durationMs"] / 1000,
        note=note if failure else "",
    )


def write_worker(folder: Path, tools: Sequence[str]) -> Path:
    toolsets: dict[str, Any] = {
        "filesystem": {"tools": [name for name in tools if name != "shell"]}
    }
    if "shell" in tools:
        toolsets["shell"] = {}
    limits = {"max_turns": MAX_TURNS}
    config = {"name": "tasks", "instructions": INSTRUCTIONS, "limits": limits, "toolsets": toolsets}
    worker = folder / "worker.yaml"
    worker.write_text(yaml.safe_dump(config))
    return worker


def attempt_all(given: argparse.Namespace) -> Iterator[Score]:
    options = ["-m", given.model] if given.model else []
    with tempfile.TemporaryDirectory(prefix="forge-tasks-") as place:
        worker = write_worker(Path(place).resolve(), given.tools.split(","))
        tasks = read_tasks(given.only)
        if given.warm_up:
            attempt(tasks[0], worker, options, given.warm_up)
        for task in tasks:
            score = attempt(task, worker, options, given.max_time)
            mark = "ok  " if score.ok else "FAIL"
            figures = f"{score.turns:>2} turns {score.calls:>2} calls {score.seconds:6.1f} s"
            print(f"{mark}  {score.task:<14} {figures}  {score.note}".rstrip(), flush=True)
            yield score


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "-m", "--model", help="such as openai:local; else the one of the user's config"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="TASK", help="these tasks only")
    parser.add_argument("--tools", default=TOOLS, help=f"what the model gets, {TOOLS} unless told")
    parser.add_argument(
        "--max-time", type=float, default=300, help="seconds for a task, 300 unless told"
    )
    parser.add_argument(
        "--warm-up", type=float, default=0, help="seconds for a first try that does not count"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the scores to FILE as well"
    )
    given = parser.parse_args()
    scores = list(attempt_all(given))
    if given.json:
        given.json.write_text(json.dumps([asdict(score) for score in scores], indent=2))
    print(f"score: {sum(score.ok for score in scores)} of {len(scores)}")


if __name__ == "__main__":
    main()
