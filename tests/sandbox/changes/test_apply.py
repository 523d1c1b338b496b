"""Applying is all or nothing: killed anywhere, it is finished or taken back after the next start.

Covers forge_cli.sandbox.changes.apply.
"""

import errno
import os
import shutil
import signal
import subprocess
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from forge_cli.core.errors import Stale, ToolError
from forge_cli.sandbox.changes.apply import ChangeSet, apply_changes, finish_interrupted
from forge_cli.sandbox.changes.path_changes import entry_of
from forge_cli.sandbox.trial.copies import drop_copies

from ..trees import on_copies, tree

pytestmark = pytest.mark.needs("overlay")

CALLS = (
    *(
        "open",
        "close",
        "link",
        "rename",
        "unlink",
        "rmdir",
        "mkdir",
        "symlink",
        "chmod",
        "chown",
        "utime",
        "mkfifo",
    ),
    *(
        "stat",
        "lstat",
        "dup",
        "ftruncate",
        "copy_file_range",
        "sendfile",
        "lseek",
        "listxattr",
        "fsync",
        "fdatasync",
    ),
    *("replace", "fstat"),
)
LINES = [
    ("write", "./made/deep/file", "", 7),
    ("append", "./changed", "", 1),
    ("delete", "./gone", "", 0),
    ("clear", "./folder", "", 0),
    ("move", "./moved", "./elsewhere", 0),
    ("link", "./link", "changed", 0),
    ("hard", "./changed", "./other", 0),
    ("mode", "./mode", "", 9),
    ("swap", "./swap", "", 0),
    ("sparse", "./sparse", "", 3),
]


@pytest.fixture
def zone(tmp_path: Path) -> Path:
    zone = tmp_path / "zone"
    for name in ("changed", "gone", "folder/a", "folder/b/c", "moved/x", "mode", "swap/inside"):
        (zone / name).parent.mkdir(parents=True, exist_ok=True)
        (zone / name).write_text(f"old {name}\n")
    return zone


@pytest.fixture
def changes(zone: Path, kept_path: Path) -> ChangeSet:
    async def run() -> ChangeSet:
        copies, done = await on_copies(zone, kept_path / "trial", LINES)
        assert (done.exit_code, done.stderr) == (0, "")
        return copies.read()

    return anyio.run(run)


def killed_at(number: int, folder: Path, *, begun: bool = False) -> bool:
    """Apply in another process that is killed before so many calls of the system; was it?

    Once it has ``begun``, only the calls after its journal are counted.
    """
    pid = os.fork()
    if pid == 0:
        left = [number]

        def counting(function):
            def call(*args, **options):
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                if not begun or os.access(folder / "journal", os.F_OK):
                    left[0] -= 1
                return function(*args, **options)

            return call

        for name in CALLS:
            setattr(os, name, counting(getattr(os, name)))
        try:
            apply_changes(ChangeSet.load(folder))
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def found_anew(zone: Path, changes: ChangeSet, kept_path: Path) -> ChangeSet:
    """The same changes to a zone that was made anew."""
    shutil.rmtree(zone, ignore_errors=True)
    shutil.rmtree(kept_path / "again", ignore_errors=True)
    shutil.copytree(zone.with_name("kept"), zone, symlinks=True)
    subprocess.run(["cp", "-a", changes.folder, kept_path / "again"], check=True, timeout=60)
    fresh = [
        replace(change, before=change.before and entry_of(change.path, os.lstat(change.path)))
        for change in changes.changes
    ]
    roots = {str(zone): zone.stat().st_ino}
    again = ChangeSet(kept_path / "again", tuple(fresh), roots, moves=changes.moves)
    again.save()
    return again


def kill_everywhere(zone: Path, changes: ChangeSet, kept_path: Path, step: int) -> int:
    """Kill it at one call after the other; how many there were."""
    shutil.copytree(zone, zone.with_name("kept"), symlinks=True)
    before = tree(zone)
    apply_changes(found_anew(zone, changes, kept_path))
    after, failures, ends = tree(zone), [], set()
    number = 0
    while killed_at(number, found_anew(zone, changes, kept_path).folder):
        said = finish_interrupted(kept_path / "again")
        left = tree(zone)
        ends.add("nothing" if left == before else "all")
        if left not in (before, after) or (kept_path / "again/journal").exists():
            failures.append(
                (number, said, {name for name in left | after if left.get(name) != after.get(name)})
            )
        number += step
    assert failures == []
    assert ends == {"nothing", "all"}
    return number


@pytest.mark.parametrize("moves", [True, False])
def test_killed_now_and_then(moves: bool, zone: Path, changes: ChangeSet, kept_path: Path) -> None:
    kill_everywhere(zone, replace(changes, moves=moves), kept_path, step=29)


@pytest.mark.long
@pytest.mark.parametrize("moves", [True, False])
def test_killed_at_every_call(moves: bool, zone: Path, changes: ChangeSet, kept_path: Path) -> None:
    assert kill_everywhere(zone, replace(changes, moves=moves), kept_path, step=1) > 120


def test_change_of_somebody_else_stops_all(zone: Path, changes: ChangeSet) -> None:
    for spoil in (
        lambda: (zone / "changed").write_text("newer"),
        lambda: (zone / "made").write_text("newer"),
        lambda: (zone / "folder/new").write_text("newer"),
        lambda: (zone / "gone").chmod(0o600),
    ):
        spoil()
        before = tree(zone)
        with pytest.raises(Stale):
            apply_changes(changes)
        assert tree(zone) == before


def test_step_that_fails_takes_the_others_back(
    zone: Path, changes: ChangeSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree(zone)
    real, calls = os.symlink, []

    def fail(*args, **options):
        calls.append(args)
        raise OSError(28, "No space left on device", args[1])

    monkeypatch.setattr(os, "symlink", fail)
    with pytest.raises(ToolError, match="nothing was changed: .*No space left"):
        apply_changes(changes)
    monkeypatch.setattr(os, "symlink", real)
    assert calls
    assert tree(zone) == before
    assert not (changes.folder / "journal").exists()


def left_behind(zone: Path) -> list[Path]:
    return list(zone.rglob(".forge-*"))


def lies_in(folder: Path, descriptor: int) -> bool:
    return Path(os.readlink(f"/proc/self/fd/{descriptor}")).is_relative_to(folder)


def test_full_disk_is_met_before_anything_is_deleted(
    zone: Path, changes: ChangeSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree(zone)
    real = {
        name: getattr(os, name)
        for name in ("copy_file_range", "sendfile", "pwrite", "unlink", "rmdir")
    }
    deleted: list[str] = []

    def linked(source: Path, target: Path | str, **options: int) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    def full(name: str):
        def call(*args: int) -> int:
            target = args[0] if name in ("pwrite", "sendfile") else args[1]
            if lies_in(zone, target):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real[name](*args)

        return call

    def counted(name: str):
        def call(path: str, **options: int) -> None:
            deleted.extend([path] if not str(path).startswith(".forge-") else [])
            real[name](path, **options)

        return call

    monkeypatch.setattr(os, "link", linked)  # as between two file systems
    for name in ("copy_file_range", "sendfile", "pwrite"):
        monkeypatch.setattr(os, name, full(name))
    for name in ("unlink", "rmdir"):
        monkeypatch.setattr(os, name, counted(name))
    with pytest.raises(
        ToolError, match=r"nothing was changed: .*/zone/\S+': No space left on device"
    ):
        apply_changes(changes)
    assert [name for name in deleted if "journal" not in str(name)] == []
    assert (tree(zone), left_behind(zone), (changes.folder / "journal").exists()) == (
        before,
        [],
        False,
    )


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_failed_rollback_is_completed_by_the_next_start(
    zone: Path, changes: ChangeSet, monkeypatch: pytest.MonkeyPatch, kept_path: Path, number: int
) -> None:
    shutil.copytree(zone, zone.with_name("kept"), symlinks=True)
    apply_changes(found_anew(zone, changes, kept_path))
    after = tree(zone)
    begun = found_anew(zone, changes, kept_path)
    real = os.rename

    def fail(
        source: str, target: str, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None
    ) -> None:
        if dst_dir_fd is not None and lies_in(zone, dst_dir_fd):
            raise OSError(number, os.strerror(number))
        real(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(ToolError, match="undoing the other changes failed") as caught:
        apply_changes(begun)
    assert str(begun.folder) in str(caught.value)
    assert os.strerror(number) in str(caught.value)
    drop_copies(begun.folder)
    drop_copies(begun.folder.parent)
    assert (begun.folder / "journal").exists()
    with pytest.raises(ToolError, match="undoing the other changes failed"):
        finish_interrupted(begun.folder)
    assert (begun.folder / "before").exists()
    monkeypatch.setattr(os, "rename", real)
    assert (
        finish_interrupted(begun.folder) == f"{len(changes.changes)} interrupted changes completed"
    )
    assert (tree(zone), left_behind(zone)) == (after, [])
    drop_copies(begun.folder)
    assert not begun.folder.exists()


def test_rollback_after_a_restart_is_reported(
    zone: Path, changes: ChangeSet, monkeypatch: pytest.MonkeyPatch, kept_path: Path
) -> None:
    shutil.copytree(zone, zone.with_name("kept"), symlinks=True)
    before = tree(zone)
    assert killed_at(20, found_anew(zone, changes, kept_path).folder, begun=True)
    real = os.symlink

    def fail(*args: str, **options: int) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "symlink", fail)
    told = finish_interrupted(kept_path / "again")
    monkeypatch.setattr(os, "symlink", real)
    assert told == f"interrupted changes were undone: '{zone}/link': Operation not permitted"
    assert (tree(zone), left_behind(zone)) == (before, [])


def test_foreign_files_do_not_stop_a_rollback(
    zone: Path, changes: ChangeSet, kept_path: Path
) -> None:
    shutil.copytree(zone, zone.with_name("kept"), symlinks=True)
    before = tree(zone)
    again = found_anew(zone, changes, kept_path)
    apply_changes(again)
    (again.folder / "journal").touch()
    (zone / "made/theirs").write_text("theirs\n")
    (zone / "swap").write_text("theirs\n")
    told = finish_interrupted(again.folder)
    assert (
        told == f"interrupted changes were undone, except '{zone}/swap': it has changed since then"
    )
    left = tree(zone)
    theirs = {"swap", "swap/inside", "made", "made/theirs"}
    assert {name for name in left | before if left.get(name) != before.get(name)} == theirs
    assert not (again.folder / "journal").exists()
