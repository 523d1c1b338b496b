"""Proofs of approvals in a log: written by the user's forge, for this session, and valid once.

Covers forge_cli.record.proof.
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from forge_cli.record.proof import make_proof
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
    assert answer(project) == 0
    return project


def answer(project: Project, word: str = "yes") -> int:
    (waiting,) = json.loads(project.forge("approvals", "list", "--json").stdout)
    return project.forge("approvals", "answer", "last", waiting["request"], word).returncode


def answered(project: Project) -> bool | None:
    """The answer in the list."""
    (waiting,) = json.loads(project.forge("approvals", "list", "--json").stdout)
    return waiting["answer"]["approved"] if waiting["answer"] else None


def log(project: Project) -> Path:
    (found,) = sorted((project.home / "sessions").glob("*.jsonl"))
    return found


def resumed(project: Project, *argv: str) -> tuple[int, str]:
    """The end of the resumed session without a person, and its effects so far."""
    done = project.forge("run", "worker.yaml", "--json", *argv)
    noted = project.folder / "noted.txt"
    status: Any = [json.loads(line) for line in done.stdout.splitlines()]
    results = [line["status"] for line in status if line["type"] == "toolResult"]
    return len(results) and done.returncode, noted.read_text() if noted.exists() else ""


def test_proven_yes_counts_once(parked: Project) -> None:
    assert resumed(parked, "-r", log(parked).stem) == (0, "x")


@pytest.mark.long
def test_fork_asks_again(parked: Project) -> None:
    session = log(parked).stem
    assert resumed(parked, "-r", session, "--fork")[1] == ""
    assert resumed(parked, "-r", session)[1] == "x"


@pytest.mark.long
def test_yes_in_a_foreign_log_does_not_count(parked: Project) -> None:
    there = parked.folder / "planted.jsonl"
    shutil.copy(log(parked), there)
    assert resumed(parked, "-r", str(there))[1] == ""


def rewritten(project: Project, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the last line, and seal it as anybody can."""
    *before, last = (json.loads(line) for line in log(project).read_text().splitlines())
    change(last)
    sealed = json.dumps(
        {key: value for key, value in last.items() if key != "hash"}, ensure_ascii=False
    )
    last["hash"] = hashlib.sha256(sealed.encode()).hexdigest()
    log(project).write_text(
        "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in (*before, last))
    )


def without_key(project: Project) -> None:
    (project.home / "proofs" / ".key").unlink()


def without_proof(project: Project) -> None:
    """As an earlier version left it, whose proof was a file beside the log."""
    rewritten(project, lambda line: line.pop("proof"))
    (project.home / "proofs" / log(project).stem).write_text("0" * 64)


def with_another_proof(project: Project) -> None:
    rewritten(project, lambda line: line.update(proof="0" * 64))


def with_nonsense(project: Project) -> None:
    rewritten(project, lambda line: line.update(proof=["ä"]))


def with_another_answer(project: Project) -> None:
    rewritten(project, lambda line: line.update(note="other"))


@pytest.mark.long
@pytest.mark.few(2)
@pytest.mark.parametrize(
    "lose", [without_key, without_proof, with_another_proof, with_nonsense, with_another_answer]
)
def test_unproven_yes_asks_again_and_a_new_one_counts(
    parked: Project, lose: Callable[[Project], None]
) -> None:
    lose(parked)
    assert answered(parked) is None
    assert resumed(parked, "-r", log(parked).stem, "--on-ask", "park")[1] == ""
    assert answer(parked) == 0
    assert answered(parked) is True
    assert resumed(parked, "-r", log(parked).stem) == (0, "x")


def test_new_answer_needs_only_its_own_proof(parked: Project) -> None:
    without_proof(parked)
    assert answer(parked) == 0
    assert resumed(parked, "-r", log(parked).stem) == (0, "x")


@pytest.mark.long
def test_no_needs_no_proof(parked: Project) -> None:
    assert answer(parked, "no") == 0
    without_key(parked)
    assert answered(parked) is False
    assert resumed(parked, "-r", log(parked).stem)[1] == ""


def test_session_moved_with_its_home_keeps_its_yes(parked: Project, tmp_path: Path) -> None:
    name = log(parked).stem
    shutil.move(parked.home, tmp_path / "moved")
    parked.home.symlink_to(tmp_path / "moved")
    assert resumed(parked, "-r", name) == (0, "x")


def test_log_in_another_folder_accepts_its_own_yes(parked: Project) -> None:
    there = parked.folder / log(parked).name
    shutil.copy(log(parked), there)
    (waiting,) = json.loads(parked.forge("approvals", "list", "--json").stdout)
    assert (
        parked.forge("approvals", "answer", str(there), waiting["request"], "yes").returncode == 0
    )
    assert resumed(parked, "-r", str(there)) == (0, "x")


@pytest.mark.long
def test_unprovable_yes_is_not_accepted(parked: Project) -> None:
    key = parked.home / "proofs" / ".key"
    key.unlink()
    key.mkdir()
    (waiting,) = json.loads(parked.forge("approvals", "list", "--json").stdout)
    done = parked.forge("approvals", "answer", "last", waiting["request"], "yes")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        f"forge: an approval would not count: the key {key} cannot be used\n"
    )
    assert answer(parked, "no") == 0


@pytest.mark.few(1)
@pytest.mark.parametrize("change", ["worker", "workspace"])
def test_yes_is_bound_to_worker_file_and_folder(
    parked: Project, change: str, tmp_path: Path
) -> None:
    argv = ["-r", log(parked).stem]
    if change == "worker":
        parked.write("worker.yaml", WORKER + "description: other\n")
    else:
        (tmp_path / "other").mkdir()
        argv += ["-C", str(tmp_path / "other"), "-m", f"script:{parked.folder}/script.yaml"]
    assert resumed(parked, *argv)[1] == ""
    assert not (tmp_path / "other" / "noted.txt").exists()


@pytest.mark.few(1)
@pytest.mark.parametrize("size", [0, 31, 33, 100])
def test_invalid_key_is_replaced(parked: Project, size: int) -> None:
    key = parked.home / "proofs" / ".key"
    key.write_bytes(b"x" * size)
    assert resumed(parked, "-r", log(parked).stem)[1] == ""
    assert len(key.read_bytes()) == 32


def test_key_is_readable_only_by_the_user(parked: Project) -> None:
    proofs = parked.home / "proofs"
    assert {path.name: path.stat().st_mode & 0o777 for path in proofs.iterdir()} == {".key": 0o600}


def test_concurrent_processes_create_one_key(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FORGE_HOME", str(tmp_path))
    (tmp_path / "proofs").mkdir()
    (tmp_path / "proofs" / ".key").write_bytes(b"torn")
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(make_proof, ["x"] * 8))) == 1


def test_current_key_is_used_after_a_change(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also within one process."""
    monkeypatch.setenv("FORGE_HOME", str(tmp_path))
    key = tmp_path / "proofs" / ".key"
    first = make_proof("x")
    assert make_proof("x") == first
    other = tmp_path / "other"
    other.write_bytes(bytes(reversed(key.read_bytes())))
    other.replace(key)
    second = make_proof("x")
    key.unlink()
    assert len({first, second, make_proof("x")}) == 3
