"""The folder in which forge stores data of its user."""

import os
import pwd
from pathlib import Path

import pytest

from forge_cli.core.events import StatusEvent
from forge_cli.files.home import close_home, forge_home
from forge_cli.testing import Project


@pytest.mark.parametrize(
    ("named", "meant"),
    [
        ("/x/my forge", "/x/my forge"),
        ("~/mine", "/home/me/mine"),
        ("mine", "/there/mine"),
        ("", "/home/me/.forge"),
    ],
)
def test_forge_home_follows_its_variable(
    monkeypatch: pytest.MonkeyPatch, named: str, meant: str
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("FORGE_HOME", named)
    monkeypatch.setattr("os.getcwd", lambda: "/there")
    assert forge_home() == Path(meant)


@pytest.fixture
def worker(project: Project) -> Project:
    project.write("worker.yaml", "name: w\ntoolsets: {memory: {}}\n")
    return project


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_home_open_to_others_is_closed_and_reported_once(worker: Project) -> None:
    worker.home.mkdir()
    worker.home.chmod(0o755)
    said = [event.message for event in worker.run("Hello.").of(StatusEvent)]
    assert said == [f"{worker.home} was open to others (mode 755); it is now private (700)"]
    assert mode(worker.home) == 0o700
    assert worker.run("Hello.").of(StatusEvent) == []


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "words", [["run", "worker.yaml", "go"], ["tools", "list"], ["tools", "new", "greet"]]
)
def test_new_home_is_accessible_only_to_its_user(worker: Project, words: list[str]) -> None:
    worker.write("script.yaml", "turns: [{text: hi}]\n")
    done = worker.forge(*words, env={"FORGE_MODEL": "script:script.yaml"})
    assert (done.returncode, mode(worker.home)) == (0, 0o700)
    assert "open to others" not in done.stderr
    assert {mode(path) for path in worker.home.iterdir() if path.is_dir()} == {0o700}


def test_home_shared_with_other_files_is_not_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, work, own = tmp_path / "shared", tmp_path / "work", tmp_path / "own"
    for folder in (shared, work / "below", own):
        folder.mkdir(parents=True)
        folder.chmod(0o755)
    shared.chmod(0o1777)
    work.chmod(0o755)
    (tmp_path / "link").symlink_to(own)
    monkeypatch.chdir(work / "below")
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    for folder in (shared, work, work / "below", tmp_path, tmp_path / "link", tmp_path / "missing"):
        assert close_home(folder) is None
    assert [mode(folder) for folder in (work, work / "below", own)] == [0o755] * 3
    assert os.stat(shared).st_mode & 0o1777 == 0o1777
    assert close_home(own) is not None


def test_empty_home_variable_means_the_home_of_the_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "")
    for named in ("", "~/mine"):
        monkeypatch.setenv("FORGE_HOME", named)
        assert forge_home() == Path(pwd.getpwuid(os.getuid()).pw_dir) / (named[2:] or ".forge")


def test_missing_home_is_refused(worker: Project) -> None:
    done = worker.forge("run", "worker.yaml", "go", env={"FORGE_HOME": "~nobody-here/x"})
    assert (done.returncode, done.stderr) == (
        3,
        "forge: FORGE_HOME=~nobody-here/x: unknown user 'nobody-here'\n"
        "  name another user or a folder, or unset FORGE_HOME\n",
    )
    assert not (worker.folder / "~nobody-here").exists()


def test_circular_home_link_costs_only_the_session(worker: Project) -> None:
    worker.home.symlink_to(worker.home)
    worker.write("script.yaml", "turns: [{text: hi}]\n")
    done = worker.forge("run", "worker.yaml", "go", "-p", env={"FORGE_MODEL": "script:script.yaml"})
    assert (done.returncode, done.stdout) == (0, "hi\n")
    assert f"this session will not be saved: {worker.home}/sessions: " in done.stderr
