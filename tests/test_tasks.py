"""The suite of small tasks for models: a script solves one of two, and the score says so."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

RUNNER = Path(__file__).parents[1] / "benchmarks/tasks/run.py"
SCRIPT = """
turns:
  - calls: [{tool: edit_file, input: {path: hello.txt, old: world, new: forge}}]
  - text: The word is unknown.
"""


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, RUNNER, *options], capture_output=True, text=True, timeout=100, check=False
    )


def test_each_task_is_run_by_a_worker_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORGE_HOME", str(tmp_path / "home"))
    script, scores = tmp_path / "script.yaml", tmp_path / "scores.json"
    script.write_text(SCRIPT)
    options = ["-m", f"script:{script}", "--tools", "edit_file", "--json", str(scores)]
    done = run(*options, "--only", "read_word", "edit_word")
    assert (done.returncode, done.stderr) == (0, "")
    read, edited, score = done.stdout.splitlines()
    assert read.split() == ["FAIL", "read_word", *read.split()[2:]]
    assert read.endswith("answered 'The word is unknown.'")
    assert edited.startswith("ok    edit_word       2 turns  1 calls")
    assert score == "score: 1 of 2"
    assert [(each["task"], each["ok"]) for each in json.loads(scores.read_text())] == [
        ("read_word", False),
        ("edit_word", True),
    ]


def test_missing_task_is_named() -> None:
    done = run("--only", "dance")
    assert (done.returncode, done.stderr) == (1, "no such task: dance\n")


def test_twenty_tasks_start_unsolved() -> None:
    tasks = yaml.safe_load(RUNNER.with_name("tasks.yaml").read_text())
    assert len({task["name"] for task in tasks}) == len(tasks) == 20
    for task in tasks:
        files = task.get("files", {})
        assert "answer" in task or any(
            files.get(name) != content for name, content in task["expect"].items()
        )
