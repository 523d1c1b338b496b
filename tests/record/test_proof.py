"""Whose yes a log carries: one that this user's forge wrote, in this very session, and once."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from forge_cli.record.proof import prove
from forge_cli.testing import Project

WORKER = """
name: w
model: script:script.yaml
toolsets: {custom: {module: ./tools.py, tools: [note]}}
"""
TOOLS = '''
def note(text: str) -> str:
    """Write something down."""
    with open("noted.txt", "a") as file:
        file.write(text)
    return "noted"
'''
SCRIPT = "turns: [{calls: [{tool: note, input: {text: x}}]}, {text: done}]\n"


@pytest.fixture
def parked(project: Project) -> Project:
    """A session that waits for an answer, and has got its yes."""
    project.write("worker.yaml", WORKER)
    project.write("tools.py", TOOLS)
    project.write("script.yaml", SCRIPT)
    assert project.forge("run", "worker.yaml", "go", "--on-ask", "park").returncode == 10
    (waiting,) = json.loads(project.forge("approvals", "list", "--json").stdout)
    request = waiting.get("request") or waiting.get("id") or waiting.get("requestId")
    assert project.forge("approvals", "answer", "last", str(request), "yes").returncode == 0
    return project


def log(project: Project) -> Path:
    (found,) = sorted((project.home / "sessions").glob("*.jsonl"))
    return found


def resumed(project: Project, *argv: str) -> tuple[int, str]:
    """How the session ends when nobody can be asked, and what was noted by then."""
    done = project.forge("run", "worker.yaml", "--json", *argv)
    noted = project.folder / "noted.txt"
    status: Any = [json.loads(line) for line in done.stdout.splitlines()]
    results = [line["status"] for line in status if line["type"] == "toolResult"]
    return len(results) and done.returncode, noted.read_text() if noted.exists() else ""


def test_a_yes_of_ones_own_counts_once(parked: Project) -> None:
    assert resumed(parked, "-r", log(parked).stem) == (0, "x")


def test_a_fork_asks_again(parked: Project) -> None:
    session = log(parked).stem
    assert resumed(parked, "-r", session, "--fork")[1] == ""
    assert resumed(parked, "-r", session)[1] == "x"


def test_a_log_from_elsewhere_carries_no_yes(parked: Project) -> None:
    there = parked.folder / "planted.jsonl"
    shutil.copy(log(parked), there)
    assert resumed(parked, "-r", str(there))[1] == ""


@pytest.mark.parametrize("lost", [".key", "proof"])
def test_without_key_or_proof_it_asks_again(parked: Project, lost: str) -> None:
    if lost == "proof":
        (parked.home / "proofs" / log(parked).stem).unlink()
    else:
        (parked.home / "proofs" / lost).unlink()
    assert resumed(parked, "-r", log(parked).stem)[1] == ""


def test_an_answer_does_not_prove_what_somebody_else_wrote(parked: Project) -> None:
    """An own answer in a planted log must not make its other approvals count."""
    (parked.home / "proofs" / log(parked).stem).write_text("0" * 64)
    (waiting,) = json.loads(parked.forge("approvals", "list", "--json").stdout)
    request = waiting.get("request") or waiting.get("id") or waiting.get("requestId")
    parked.forge("approvals", "answer", "last", str(request), "yes")
    assert resumed(parked, "-r", log(parked).stem)[1] == ""


@pytest.mark.parametrize("change", ["worker", "workspace"])
def test_a_yes_is_for_this_worker_file_and_this_folder(parked: Project, change: str, tmp_path: Path) -> None:
    argv = ["-r", log(parked).stem]
    if change == "worker":
        parked.write("worker.yaml", WORKER + "description: other\n")
    else:
        (tmp_path / "other").mkdir()
        argv += ["-C", str(tmp_path / "other"), "-m", f"script:{parked.folder}/script.yaml"]
    assert resumed(parked, *argv)[1] == ""
    assert not (tmp_path / "other" / "noted.txt").exists()


@pytest.mark.parametrize("size", [0, 31, 33, 100])
def test_what_is_not_a_key_is_replaced(parked: Project, size: int) -> None:
    key = parked.home / "proofs" / ".key"
    key.write_bytes(b"x" * size)
    assert resumed(parked, "-r", log(parked).stem)[1] == ""
    assert len(key.read_bytes()) == 32


def test_the_key_is_the_users_alone(parked: Project) -> None:
    proofs = parked.home / "proofs"
    assert {path.name: path.stat().st_mode & 0o777 for path in proofs.iterdir()} == {
        ".key": 0o600,
        log(parked).stem: 0o600,
    }
    parked.forge("sessions", "rm", "last")
    assert [path.name for path in proofs.iterdir()] == [".key"]


def test_the_key_counts_that_is_there_now(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also within one process, which does not read it each time."""
    monkeypatch.setenv("FORGE_HOME", str(tmp_path))
    key = tmp_path / "proofs" / ".key"
    first = prove("x")
    assert prove("x") == first
    other = tmp_path / "other"
    other.write_bytes(bytes(reversed(key.read_bytes())))
    other.replace(key)
    second = prove("x")
    key.unlink()
    assert len({first, second, prove("x")}) == 3
