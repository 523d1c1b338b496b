"""Files that forge stores or writes are on disk when a command reports success, except caches and locks.

Covers forge_cli.files.regular, forge_cli.files.home.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from forge_cli.testing import Project
from tests.support.faults.effects import TOOLS

from .test_consent import ASK

DURABLE = Path(__file__).parents[1] / "support/faults/durable.py"
WORKER = """
name: keeper
model: script:script.yaml
sandbox: {zones: [{name: work, path: ./work, mode: rw, approval: {write: preApproved}}]}
toolsets:
  filesystem: {}
  memory: {approval: {default: preApproved}}
  custom: {module: ./tools.py, tools: [leave, ask]}
"""
SCRIPT = """
turns:
  - calls:
      - {tool: write_file, input: {path: /work/old.txt, content: new}}
      - {tool: write_file, input: {path: /work/made/new.txt, content: new}}
      - {tool: save_memory, input: {memory_id: a, content: b}}
      - {tool: ask, input: {word: x}}
  - text: done
"""


@pytest.fixture
def keeper(project: Project) -> Project:
    project.write("tools.py", TOOLS + ASK)
    project.write("left", "")
    project.write("worker.yaml", WORKER)
    project.write("AGENTS.md", "Be kind.")
    project.write("script.yaml", SCRIPT)
    project.write("work/old.txt", "old")
    project.write("items.jsonl", '{"key": "a"}\n{"key": "b"}\n')
    return project


def lost(keeper: Project, code: int, *argv: str, stdin: str = "") -> list[str]:
    """The files that a power cut after a command may lose."""
    report = keeper.home.with_name("report")
    command = [sys.executable, str(DURABLE), str(report), *argv]
    with keeper.environment():
        done = subprocess.run(
            command,
            cwd=keeper.folder,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == code, (argv, done.stderr)
    home = str(keeper.home.resolve())
    left = f"content {keeper.folder}/left"  # the tool of these workers wrote it
    found = [
        line.replace(f"{home}/", "") for line in report.read_text().splitlines() if line != left
    ]
    return [f"{argv}: {line}" for line in found if not is_cache(line.split(" ", 1)[1])]


def is_cache(path: str) -> bool:
    return path == "cache" or path.startswith("cache/") or path.endswith((".lock", ".index.json"))


RUN = ("run", "worker.yaml", "-p", "--on-ask", "park")


def test_originals_of_a_session_are_on_disk(keeper: Project) -> None:
    failures = lost(keeper, 10, *RUN, "go")
    rows = json.loads(keeper.forge("approvals", "list", "--json").stdout)
    failures += lost(
        keeper, 0, "approvals", "answer", rows[0]["session"], rows[0]["request"], "yes"
    )
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("before", ["nothing", "a record", "two names"])
def test_requested_output_files_are_on_disk(keeper: Project, before: str) -> None:
    keeper.write("script.yaml", "turns:\n  - text: done\n")
    written = ("--record", "record.jsonl", "-o", "answer.txt")
    if before != "nothing":
        assert keeper.forge("run", "worker.yaml", "go", "-p", *written).returncode == 0
    if before == "two names":
        for name in ("record.jsonl", "answer.txt"):
            os.link(keeper.folder / name, keeper.folder / f"second-{name}")
    failures = lost(keeper, 0, "run", "worker.yaml", "go", "-p", *written)
    failures += lost(keeper, 0, "worker", "new", "fresh")
    assert not failures, "\n".join(failures)
    assert keeper.read("answer.txt") == "done\n"
    assert (
        keeper.forge("run", "worker.yaml", "go", "-p", "--replay", "record.jsonl").stdout
        == "done\n"
    )


@pytest.mark.long
def test_originals_of_a_command_are_on_disk(keeper: Project) -> None:
    failures = lost(keeper, 0, "keys", "set", "ANTHROPIC_API_KEY", stdin="secret\n")
    failures += lost(keeper, 0, "trust", ".")
    assert keeper.forge(*RUN, "go").returncode == 10
    rows = json.loads(keeper.forge("approvals", "list", "--json").stdout)
    session = rows[0]["session"]
    for row in rows:
        assert keeper.forge("approvals", "answer", session, row["request"], "yes").returncode == 0
    failures += lost(keeper, 10, *RUN, "-r", session, "--fork")
    failures += lost(keeper, 0, *RUN, "-r", session)
    failures += lost(keeper, 0, "undo", session)
    failures += lost(keeper, 0, "undo", session, "--redo")
    failures += lost(keeper, 0, "plugins", "new", "fresh")
    failures += lost(keeper, 0, "batch", "worker.yaml", "items.jsonl", "--task", "{key}", "-y")
    assert not failures, "\n".join(failures)
