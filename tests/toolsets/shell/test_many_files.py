"""A trial that makes more files than anybody looks through asks, takes no room and leaves nothing behind.

Covers forge_cli.sandbox.trial.enter, forge_cli.sandbox.trial.copies, forge_cli.sandbox.changes.path_changes.
"""

import os
import tempfile
from pathlib import Path

import pytest

from forge_cli import ApprovalRequest
from forge_cli.core.events import ApprovalRequired
from forge_cli.core.trial import CommandTried
from forge_cli.sandbox.changes.path_changes import ReadUntil, TooManyChanges, read_changes
from forge_cli.sandbox.trial import trials
from forge_cli.sandbox.trial.copies import drop_copies
from forge_cli.sandbox.trial.enter import WriteRoom
from forge_cli.testing import Project, Seen, call, calls

WORKER = "name: w\ntoolsets: {shell: {}}\n"


@pytest.fixture
def shell(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A worker whose trials lie in a folder of their own."""
    project.write("worker.yaml", WORKER)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(trials, "MAX_PATHS", 200)
    return project


def run(project: Project, script: str, *answers: bool) -> Seen:
    project.write("gen.sh", script)
    return project.run(
        calls(call("shell", command="sh gen.sh")), "done", timeout=120, answers=answers
    )


def left(tmp_path: Path) -> list[str]:
    return os.listdir(tmp_path / "temporary")


MANY = [
    "mkdir d; cd d; seq 1000 | xargs touch",
    "for n in $(seq 20); do mkdir -p a/$n/b; (cd a/$n/b; seq 30 | xargs touch); done",
    "mkdir d; for n in $(seq 300); do ln -s x d/$n; done",
    "echo x > one; for n in $(seq 300); do ln one $n; done",
    "mkdir e; for n in $(seq 250); do mkdir e/$n; done",
    "rm -r old",
    "mv old new",
    "chmod -R go-r old",
    "touch old/*",
]


@pytest.mark.few(5)
@pytest.mark.needs("overlay")
@pytest.mark.parametrize("script", MANY)
def test_too_many_files_ask(shell: Project, tmp_path: Path, script: str) -> None:
    for number in range(250):
        shell.write(f"old/{number}", "")
    seen = run(shell, f"echo more > kept; {script}; sleep 0.6", False)
    (tried,) = seen.of(CommandTried)
    assert (tried.outcome, tried.unsure, tried.changed) == (
        "incomplete",
        "it made too many files",
        (),
    )
    (asked,) = seen.of(ApprovalRequired)
    assert isinstance(asked.request, ApprovalRequest)
    assert asked.request.preview is not None
    assert "it made too many files" in asked.request.preview.text()
    assert asked.request.recap == "yes runs it for real; nothing of the trial is kept"
    assert sorted(os.listdir(shell.folder)) == ["gen.sh", "old", "worker.yaml"]
    assert left(tmp_path) == []


@pytest.mark.needs("overlay")
def test_yes_to_too_many_files_creates_them(shell: Project, tmp_path: Path) -> None:
    run(shell, "mkdir d; cd d; seq 1000 | xargs touch", True)
    assert len(os.listdir(shell.folder / "d")) == 1000
    assert left(tmp_path) == []


@pytest.mark.needs("overlay")
def test_caches_do_not_count(shell: Project) -> None:
    seen = run(shell, "mkdir -p __pycache__; cd __pycache__; seq 1000 | xargs touch; sleep 0.6")
    assert [each.outcome for each in seen.of(CommandTried)] == ["noEffect"]


@pytest.mark.needs("overlay")
def test_long_paths_count_against_the_size_limit(
    shell: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "MAX_PATHS", 5000)
    shell.write("worker.yaml", WORKER + "sandbox: {limits: {file_size: 1m}}\n")
    seen = run(shell, "seq 300 | xargs touch", False)
    (tried,) = seen.of(CommandTried)
    assert tried.unsure == "it was stopped: it wrote more than a trial may"


@pytest.mark.needs("overlay")
@pytest.mark.parametrize("depth", [250, 1500])
def test_deeply_nested_folders_leave_nothing(shell: Project, tmp_path: Path, depth: int) -> None:
    code = f"import os\nfor n in range({depth}):\n  os.mkdir('d'); os.chdir('d')\nopen('f', 'w').close()"
    seen = run(shell, f'python3 -c "{code}"', False)
    assert len(seen.of(ApprovalRequired)) == 1
    assert left(tmp_path) == []
    assert not (shell.folder / "d").exists()


@pytest.mark.needs("overlay")
@pytest.mark.long
def test_files_are_limited_by_memory(
    shell: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "MAX_PATHS", 50_000)
    seen = run(shell, "mkdir d; cd d; seq 400000 | xargs touch", False)
    (tried,) = seen.of(CommandTried)
    assert tried.unsure == "it made too many files"
    assert left(tmp_path) == []


def test_reading_changes_has_a_time_limit(tmp_path: Path) -> None:
    for name in ("zone/a", "upper/b", "upper/c"):
        (tmp_path / name).mkdir(parents=True)
    zone, upper = tmp_path / "zone", tmp_path / "upper"
    assert len(read_changes(zone, upper, scratch=False, until=ReadUntil(2))) == 2
    for until in (ReadUntil(1), ReadUntil(time=0.0)):
        with pytest.raises(TooManyChanges):
            read_changes(zone, upper, scratch=False, until=until)


def test_write_limits_count_paths_and_size(tmp_path: Path) -> None:
    (tmp_path / "a/__pycache__").mkdir(parents=True)
    for number in range(10):
        (tmp_path / f"a/{number}").touch()
        (tmp_path / f"a/__pycache__/{number}").touch()
    folders = [str(tmp_path)]
    assert WriteRoom(None, None, []).exceeded(folders) == ""
    assert WriteRoom(None, 12, ["__pycache__"]).exceeded(folders) == ""
    assert WriteRoom(None, 11, ["__pycache__"]).exceeded(folders) == "paths"
    assert WriteRoom(None, 21, []).exceeded(folders) == "paths"
    assert WriteRoom(4096 * 22 - 1, None, []).exceeded(folders) == "size"
    assert WriteRoom(4096 * 40, None, []).exceeded(folders) == ""


def test_deep_unreadable_and_linked_copies_are_removed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/kept").touch()
    top = tmp_path / "top"
    top.mkdir()
    folder = os.open(top, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("folder-with-a-name", dir_fd=folder)
        os.symlink(tmp_path / "outside", "link", dir_fd=folder)
        inner = os.open("folder-with-a-name", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    (top / "closed/in").mkdir(parents=True)
    (top / "closed").chmod(0)
    drop_copies(top)
    assert sorted(os.listdir(tmp_path)) == ["outside"]
    assert os.listdir(tmp_path / "outside") == ["kept"]
