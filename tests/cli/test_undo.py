"""``forge undo``: changes by file tools are undone, and nothing else is changed.

Covers forge_cli.cli.undo, forge_cli.record.changes, forge_cli.record.undo, forge_cli.files.replace.
"""

import fcntl
import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryFile

import pexpect
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forge_cli.core.zones import Zone
from forge_cli.files import copying
from forge_cli.record import changes
from forge_cli.record.changes import ChangeLog
from forge_cli.record.undo import undo_changes
from forge_cli.sandbox.files import held
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.testing import Project, call, calls
from tests.support.deadline import deadline
from tests.support.logs import script, sessions

WORKER = """
name: coder
model: script:script.yaml
sandbox: {zones: [{name: code, path: ., mode: rw, approval: {write: preApproved, delete: preApproved}}]}
toolsets: {filesystem: {}}
"""
PATCH = """*** Begin Patch
*** Update File: app.py
@@
-two
+2
*** Delete File: old.txt
*** Add File: deep/er/new.txt
+hello
*** End Patch"""


def tree(folder: Path) -> dict[str, tuple[int, bytes | str | None]]:
    """Every name below a folder with its mode and content."""
    found: dict[str, tuple[int, bytes | str | None]] = {}
    for path in sorted(folder.rglob("*")):
        held = (
            os.readlink(path)
            if path.is_symlink()
            else path.read_bytes()
            if path.is_file()
            else None
        )
        found[str(path.relative_to(folder))] = (path.lstat().st_mode, held)
    return found


@pytest.fixture
def coder(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("app.py", "one\ntwo\n").chmod(0o750)
    project.write("old.txt", "old\n").chmod(0o600)
    project.write("script.yaml", "")
    (project.folder / "link").symlink_to("app.py")
    (project.folder / "empty").mkdir(mode=0o711)
    return project


def work(coder: Project, cli, *made) -> None:
    script(coder, calls(*made), "done")
    done = cli("run", "worker.yaml", "go", "-p")
    assert (done.code, done.out) == (0, "done\n"), done


def test_all_changes_of_a_session_are_undone(coder: Project, cli) -> None:
    made = [
        call("apply_patch", input=PATCH),
        call("write_file", path="app.py", content="all new"),
        call("delete_file", path="link"),
        call("delete_file", path="empty"),
        call("write_file", path="a/b/c.txt", content="c"),
    ]
    script(coder, calls(*made), "done")
    before = tree(coder.folder)
    assert cli("run", "worker.yaml", "go", "-p").code == 0
    assert coder.read("app.py") == "all new"
    listed = cli("undo", "--list")
    assert listed.code == 0
    assert sorted(listed.out.splitlines()) == [
        "remove    a/b/c.txt",
        "remove    deep/er/new.txt",
        "restore   app.py",
        "restore   empty",
        "restore   link",
        "restore   old.txt",
    ]
    assert coder.read("app.py") == "all new"
    done = cli("undo")
    assert (done.code, done.err) == (0, "")
    assert tree(coder.folder) == before
    again = cli("undo", "last")
    assert (again.code, again.out) == (0, "")
    assert "nothing to undo" in again.err


def test_redo_keeps_newer_content_without_a_person(coder: Project, cli) -> None:
    work(
        coder,
        cli,
        call("write_file", path="app.py", content="x"),
        call("write_file", path="old.txt", content="y"),
    )
    coder.write("app.py", "mine")
    done = cli("undo", sessions(coder)[0].stem)
    assert (done.code, coder.read("app.py"), coder.read("old.txt")) == (1, "mine", "old\n")
    assert done.out == "left      app.py: it was changed after the session\nrestored  old.txt\n"
    assert done.err == "forge: 1 file of 2 left as it is\n"
    coder.write("app.py", "x")
    assert (cli("undo").code, coder.read("app.py")) == (0, "one\ntwo\n")


def test_changes_of_others_between_two_changes_are_kept(coder: Project, cli) -> None:
    work(coder, cli, call("write_file", path="app.py", content="x"))
    coder.write("app.py", "mine")
    script(coder, calls(call("write_file", path="app.py", content="z")), "done")
    assert cli("run", "worker.yaml", "go on", "-c", "-p").code == 0
    done = cli("undo", "--json")
    assert (done.code, coder.read("app.py")) == (1, "z")
    assert json.loads(done.out)[0]["left"] == "somebody else changed it during the session"


def test_session_can_continue_after_an_undo(coder: Project, cli) -> None:
    work(coder, cli, call("write_file", path="app.py", content="x"))
    assert cli("undo").code == 0
    coder.write("app.py", "mine")
    script(coder, calls(call("write_file", path="app.py", content="z")), "done")
    assert cli("run", "worker.yaml", "go on", "-c", "-p").code == 0
    assert (cli("undo").code, coder.read("app.py")) == (0, "mine")


def test_redo_names_files_that_were_not_kept(coder: Project, cli, monkeypatch) -> None:
    for module in (changes, held):
        monkeypatch.setattr(module, "KEPT_MAX", 6)
    work(
        coder,
        cli,
        call("write_file", path="app.py", content="x"),
        call("write_file", path="old.txt", content="y"),
    )
    done = cli("undo")
    assert (done.code, coder.read("app.py"), coder.read("old.txt")) == (1, "x", "old\n")
    assert "left      app.py: files of more than" in done.out


def test_large_file_made_by_the_session_is_removed(coder: Project, cli, monkeypatch) -> None:
    for module in (changes, held):
        monkeypatch.setattr(module, "KEPT_MAX", 6)
    work(
        coder,
        cli,
        call("write_file", path="a.txt", content="x" * 9),
        call("write_file", path="a.txt", content="long" * 3),
    )
    assert (cli("undo").code, (coder.folder / "a.txt").exists()) == (0, False)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "made", [call("write_file", path="vast", content="x"), call("delete_file", path="vast")]
)
def test_huge_file_is_changed_at_once_after_a_warning(coder: Project, cli, made) -> None:
    """A sparse file of 1 TiB, which cannot be read to its end."""
    with (coder.folder / "vast").open("wb") as stream:
        stream.truncate(1 << 40)
    script(coder, calls(made), "done")
    with deadline(30):
        done = cli("run", "worker.yaml", "go", "--output-format", "stream-json")
    events = [json.loads(line) for line in done.out.splitlines()]
    told = next(
        event for event in events if event["type"] == "status" and "vast" in event["message"]
    )
    result = next(event for event in events if event["type"] == "toolResult")
    assert (told["level"], result["status"]) == ("warning", "success")
    why = "files of more than 10 MB are not backed up"
    assert told["message"] == f"forge undo will not restore {coder.folder / 'vast'}: {why}"
    assert told["seq"] < result["seq"]
    undone = cli("undo")
    assert (undone.code, undone.out) == (1, f"left      vast: {why}\n")


def clones(folder: Path) -> bool:
    with TemporaryFile(dir=folder) as source, TemporaryFile(dir=folder) as target:
        source.write(b"x")
        source.flush()
        return copying.clone_file(source.fileno(), target.fileno())


def test_huge_file_is_restored_if_the_file_system_can_clone(coder: Project, cli) -> None:
    if not clones(coder.folder):
        pytest.skip(
            "the file system of the temporary folder cannot share blocks between files, as btrfs and XFS can"
        )
    with (coder.folder / "vast").open("wb") as stream:
        stream.truncate(1 << 40)
    with deadline(30):
        work(coder, cli, call("write_file", path="vast", content="x"))
        assert cli("undo").code == 0
    assert (coder.folder / "vast").stat().st_size == 1 << 40


@pytest.mark.long
def test_clones_are_kept_by_path_and_restored_completely(coder: Project, cli, monkeypatch) -> None:
    """With a copy in the place of a clone, for file systems that have none."""

    def copy(source: int, target: int) -> bool:
        os.sendfile(target, source, 0, os.fstat(source).st_size)
        return True

    for module in (changes, copying):
        monkeypatch.setattr(module, "clone_file", copy)
    alike = b"x" * (held.KEPT_MAX + 5)
    ends = {name: alike + name.encode() + b"\n" for name in ("a", "b", "c")}
    for name, data in ends.items():
        (coder.folder / name).write_bytes(data)
    (coder.folder / "a").chmod(0o640)
    edit = call("edit_file", path="a", old="xa\n", new="xz\n")
    work(coder, cli, edit, call("write_file", path="b", content="b"), call("delete_file", path="c"))
    assert (coder.folder / "a").read_bytes().endswith(b"xz\n")
    undone = cli("undo")
    assert (undone.code, undone.err) == (0, "")
    assert {name: (coder.folder / name).read_bytes() for name in ends} == ends
    assert (coder.folder / "a").stat().st_mode & 0o777 == 0o640
    assert not list((coder.home / "sessions").glob("*.undo"))


def test_question_about_a_change_says_that_it_cannot_be_restored(coder: Project, cli) -> None:
    coder.write(
        "worker.yaml",
        WORKER.replace("write: preApproved, delete: preApproved", "write: ask, delete: ask"),
    )
    with (coder.folder / "vast").open("wb") as stream:
        stream.truncate(1 << 40)
    script(
        coder,
        calls(call("write_file", path="vast", content="x"), call("delete_file", path="vast")),
        "done",
    )
    with deadline(30):
        done = cli("run", "worker.yaml", "go", "--output-format", "stream-json", "--on-ask", "park")
    events = [json.loads(line) for line in done.out.splitlines()]
    recaps = [event["recap"] for event in events if event["type"] == "approvalRequired"]
    why = "forge undo will not restore it: files of more than 10 MB are not backed up"
    assert recaps == [why] * 2
    assert cli("approvals", "list").out.count(f"  {why}\n") == 2


def test_incomplete_line_in_the_index_is_not_a_change(coder: Project, cli) -> None:
    work(coder, cli, call("write_file", path="app.py", content="x"))
    (index,) = (coder.home / "sessions").glob("*.undo/changes.jsonl")
    index.write_text(index.read_text() + '{"zone": "/no')
    script(coder, calls(call("write_file", path="old.txt", content="y")), "done")
    assert cli("run", "worker.yaml", "go on", "-c", "-p").code == 0
    assert cli("undo").code == 0
    assert (coder.read("app.py"), coder.read("old.txt")) == ("one\ntwo\n", "old\n")


def test_undo_restores_files_deleted_since(coder: Project, cli) -> None:
    """Nothing is overwritten by that."""
    work(coder, cli, call("write_file", path="app.py", content="x"))
    (coder.folder / "app.py").unlink()
    assert (cli("undo").code, coder.read("app.py")) == (0, "one\ntwo\n")


def test_kept_content_of_a_session_is_bounded(coder: Project, cli, monkeypatch) -> None:
    monkeypatch.setattr(changes, "SESSION_MAX", 10)
    work(
        coder,
        cli,
        call("write_file", path="app.py", content="x"),
        call("write_file", path="old.txt", content="y"),
    )
    done = cli("undo")
    assert done.code == 1
    assert "MB of backups are the limit for a session" in done.out


def test_home_that_cannot_store_content_does_not_stop_the_work(coder: Project, cli) -> None:
    work(coder, cli, call("read_file", path="app.py"))
    (log,) = sessions(coder)
    log.with_suffix(".undo").write_text("not a folder")
    script(coder, calls(call("write_file", path="app.py", content="x")), "done")
    assert cli("run", "worker.yaml", "go on", "-c", "-p").code == 0
    assert (cli("undo").code, coder.read("app.py")) == (0, "x")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("answer", "code", "left"), [("y", 0, "one\ntwo\n"), ("n", 1, "mine"), ("", 1, "mine")]
)
def test_person_is_asked_before_newer_content_is_overwritten(
    coder: Project, cli, answer, code, left
) -> None:
    work(coder, cli, call("write_file", path="app.py", content="x"))
    coder.write("app.py", "mine")
    child = pexpect.spawn(
        sys.executable,
        ["-m", "forge_cli", "undo"],
        cwd=str(coder.folder),
        env={name: value for name, value in os.environ.items() if name != "CI"}
        | {"FORGE_HOME": str(coder.home)},
        encoding="utf-8",
        timeout=60,
    )
    child.expect_exact("app.py: it was changed after the session. Overwrite it? [y]es, [n]o >")
    child.sendline(answer)
    child.expect(pexpect.EOF)
    child.close()
    assert (child.exitstatus, coder.read("app.py")) == (code, left)


@pytest.mark.parametrize(
    ("zone", "why"), [(".", "leads outside every zone"), ("sub", "leads elsewhere now")]
)
def test_redirected_path_is_left_unchanged(
    coder: Project, cli, tmp_path: Path, zone: str, why: str
) -> None:
    coder.write("worker.yaml", WORKER.replace("path: .", f"path: {zone}"))
    work(coder, cli, call("write_file", path="sub/a.txt", content="x"))
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.txt").write_text("x")
    (coder.folder / "sub" / "a.txt").unlink()
    (coder.folder / "sub").rmdir()
    (coder.folder / "sub").symlink_to(other)
    done = cli("undo")
    assert (done.code, (other / "a.txt").read_text()) == (1, "x")
    assert done.out.startswith("left      sub/a.txt: ")
    assert why in done.out


def test_ephemeral_session_keeps_nothing(coder: Project, cli) -> None:
    script(coder, calls(call("write_file", path="app.py", content="x")), "done")
    assert cli("run", "worker.yaml", "go", "-p", "--ephemeral").code == 0
    done = cli("undo")
    assert (done.code, f"there is no session in {coder.folder.resolve()} yet" in done.err) == (
        3,
        True,
    )
    assert not list(coder.home.rglob("*.undo"))


def test_undo_without_a_name_takes_the_last_session_of_the_folder(
    coder: Project, cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    work(coder, cli, call("write_file", path="app.py", content="x"))
    other = coder.folder / "other"
    other.mkdir()
    monkeypatch.chdir(other)
    done = cli("undo")
    assert (done.code, coder.read("app.py")) == (3, "x")
    assert "name one, or 'last'" in done.err
    assert (cli("undo", "last").code, coder.read("app.py")) == (0, "one\ntwo\n")


def test_running_session_is_left_unchanged(coder: Project, cli) -> None:
    work(coder, cli, call("write_file", path="app.py", content="x"))
    (log,) = sessions(coder)
    held = hold_lock(log)
    try:
        done = cli("undo")
    finally:
        os.close(held)
    assert (done.code, "is in use by process" in done.err, coder.read("app.py")) == (
        1,
        True,
        "x",
    )
    assert done.err.endswith(
        "\n  end that process, or wait for it; in its conversation, use /undo\n"
    )


def hold_lock(log: Path) -> int:
    descriptor = os.open(log.with_name(f".{log.name}.lock"), os.O_RDWR | os.O_CREAT)
    os.write(descriptor, str(os.getpid()).encode())
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def test_deleted_session_loses_its_stored_content(coder: Project, cli) -> None:
    work(coder, cli, call("write_file", path="app.py", content="x"))
    (kept,) = (coder.home / "sessions").glob("*.undo")
    assert {path.stat().st_mode & 0o777 for path in kept.iterdir()} == {0o600}
    assert kept.stat().st_mode & 0o777 == 0o700
    assert cli("sessions", "rm", "last").code == 0
    assert not kept.exists()


def test_undo_covers_changes_of_child_workers(coder: Project, cli) -> None:
    delegating = "{workers: {allowed: [./child.yaml], approval: {default: preApproved}}}"
    coder.write("worker.yaml", WORKER.replace("{filesystem: {}}", delegating))
    coder.write(
        "child.yaml", WORKER.replace("coder", "child").replace("script.yaml", "child-script.yaml")
    )
    script(
        coder,
        calls(call("write_file", path="app.py", content="x")),
        "written",
        name="child-script.yaml",
    )
    work(coder, cli, call("child", input="write"))
    assert coder.read("app.py") == "x"
    assert (cli("undo").code, coder.read("app.py")) == (0, "one\ntwo\n")


NAMES = st.sampled_from(["a", "b", "sub/a", "sub/deep/c"])
CONTENT = st.binary(max_size=8)
STEP = st.tuples(NAMES, st.one_of(st.none(), CONTENT))


@settings(max_examples=min(settings().max_examples, 100))
@given(start=st.dictionaries(NAMES, CONTENT), steps=st.lists(STEP, max_size=8))
def test_any_changes_are_undone(tmp_path_factory, start: dict[str, bytes], steps) -> None:
    base = Path(os.path.realpath(tmp_path_factory.mktemp("undo")))
    folder = base / "zone"
    folder.mkdir()
    for name, data in start.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    before = tree(folder)
    log = ChangeLog(base / "kept.jsonl")
    sandbox = Sandbox([Zone("z", folder, "rw")])
    sandbox.open_changes = lambda: log
    for name, content in steps:
        if content is not None:
            sandbox.write_bytes(f"/z/{name}", content)
        elif sandbox.exists(f"/z/{name}"):
            sandbox.delete(f"/z/{name}")
    done = undo_changes(ChangeLog(base / "kept.jsonl"), lambda file, why: False)
    assert not [each for each in done if each.left]
    assert {name: held for name, held in tree(folder).items() if held[1] is not None} == {
        name: held for name, held in before.items() if held[1] is not None
    }
    assert not (base / "kept").exists()
