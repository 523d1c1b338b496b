"""``forge undo --redo``: an undo is undone, once, and can then be done again.

Covers forge_cli.record.redo.
"""

import os

import pytest

from forge_cli.core.errors import ExitCode
from forge_cli.testing import Project, call
from tests.support.logs import sessions

from .test_undo import WORKER, work
from .test_undo_commands import own


@pytest.fixture
def writer(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("app.py", "one\n").chmod(0o750)
    project.write("old.txt", "old\n").chmod(0o600)
    project.write("script.yaml", "")
    return project


def write(path: str, content: str) -> object:
    return call("write_file", path=path, content=content)


def test_undo_can_be_redone_and_undone_again(writer: Project, cli) -> None:
    before = own(writer.folder)
    work(
        writer,
        cli,
        write("app.py", "two\n"),
        write("a/b/new.txt", "new\n"),
        call("delete_file", path="old.txt"),
    )
    (writer.folder / "a").chmod(0o700)
    after = own(writer.folder)
    for _ in range(2):
        assert cli("undo").code == 0
        assert own(writer.folder) == before
        assert cli("undo").err.endswith(": no change is kept\n")
        listed = cli("undo", "--redo", "--list")
        assert (listed.code, "remove    old.txt" in listed.out) == (0, True)
        assert own(writer.folder) == before
        done = cli("undo", "--redo")
        assert (done.code, done.err, own(writer.folder)) == (0, "", after), done
    gone = cli("undo", "--redo")
    assert (gone.code, gone.out, gone.err.endswith(": no undo is kept\n")) == (0, "", True)
    assert cli("undo", "--redo", "--call", "1").code == 2


def test_each_call_can_be_undone_after_a_redo(writer: Project, cli) -> None:
    work(writer, cli, write("one", "1"), write("two", "2"), write("one", "3"))
    assert cli("undo").code == 0
    assert cli("undo", "--redo").code == 0
    assert cli("undo", "--call", "2").out == "removed   two\n"
    assert cli("undo", "--call", "3").out == "restored  one\n"
    assert writer.read("one") == "1"
    assert cli("undo", "--redo").out == "restored  one\n"
    assert writer.read("one") == "3"


def test_redo_reverts_the_last_undo(writer: Project, cli) -> None:
    work(writer, cli, write("one", "1"), write("two", "2"))
    assert cli("undo", "--call", "2").code == 0
    assert cli("undo", "--call", "1").code == 0
    assert cli("undo", "--redo").out == "restored  one\n"
    assert not (writer.folder / "two").exists()


def test_redo_keeps_files_changed_since_the_undo(writer: Project, cli) -> None:
    work(writer, cli, write("app.py", "two\n"), write("new.txt", "new\n"))
    assert cli("undo").code == 0
    writer.write("app.py", "mine\n")
    done = cli("undo", "--redo")
    assert (done.code, writer.read("app.py"), writer.read("new.txt")) == (1, "mine\n", "new\n")
    assert "left      app.py: it was changed after the undo" in done.out
    writer.write("app.py", "one\n")
    assert cli("undo", "--redo").out == "restored  app.py\n"
    assert writer.read("app.py") == "two\n"


def test_interrupted_undo_is_completed_before_a_redo(writer: Project, cli, monkeypatch) -> None:
    before = own(writer.folder)
    work(
        writer, cli, write("app.py", "two\n"), write("new.txt", "new\n"), write("other.txt", "x\n")
    )
    after = own(writer.folder)
    with monkeypatch.context() as patched:
        patched.setattr("forge_cli.record.undo.restore_file", interrupt)
        assert cli("undo").code == ExitCode.INTERRUPTED
    assert own(writer.folder) not in (before, after)
    refused = cli("undo", "--redo")
    assert (refused.code, "the last undo was interrupted" in refused.err) == (2, True)
    assert cli("undo").code == 0
    assert own(writer.folder) == before
    with monkeypatch.context() as patched:
        patched.setattr("forge_cli.record.undo.restore_file", interrupt)
        assert cli("undo", "--redo").code == ExitCode.INTERRUPTED
    assert cli("undo", "--redo").code == 0
    assert own(writer.folder) == after


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_removed_session_loses_its_redo_data(writer: Project, cli) -> None:
    work(writer, cli, write("new.txt", "new\n"))
    assert cli("undo").code == 0
    kept = sessions(writer)[0].with_suffix(".redo")
    assert kept.is_dir()
    assert oct(os.stat(kept).st_mode)[-3:] == "700"
    assert cli("sessions", "rm", "last").code == 0
    assert not kept.exists()
