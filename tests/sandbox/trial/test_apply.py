"""Applying is all or nothing: killed anywhere, it is finished or taken back after the next start.

Covers forge_cli.sandbox.trial.apply.
"""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from forge_cli.core.errors import Stale, ToolError
from forge_cli.sandbox.trial.apply import ChangeSet, apply, finish
from forge_cli.sandbox.trial.changes import entry_of

from .trees import on_copies, tree

pytestmark = pytest.mark.needs("overlay")

CALLS = (
    *("open", "close", "link", "rename", "unlink", "rmdir", "mkdir", "symlink", "chmod", "chown", "utime", "mkfifo"),
    *("stat", "lstat", "dup", "truncate", "copy_file_range", "lseek", "listxattr", "fsync", "replace", "fstat"),
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
def changes(zone: Path, tmp_path: Path) -> ChangeSet:
    async def run() -> ChangeSet:
        copies, done = await on_copies(zone, tmp_path / "trial", LINES)
        assert (done.exit_code, done.stderr) == (0, "")
        return copies.read()

    return anyio.run(run)


def killed_at(number: int, folder: Path) -> bool:
    """Apply in another process that is killed before so many calls of the system; was it?"""
    pid = os.fork()
    if pid == 0:
        left = [number]

        def counting(function):
            def call(*args, **options):
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left[0] -= 1
                return function(*args, **options)

            return call

        for name in CALLS:
            setattr(os, name, counting(getattr(os, name)))
        try:
            apply(ChangeSet.load(folder))
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def found_anew(zone: Path, changes: ChangeSet, tmp_path: Path) -> ChangeSet:
    """The same changes to a zone that was made anew."""
    shutil.rmtree(zone, ignore_errors=True)
    shutil.rmtree(tmp_path / "again", ignore_errors=True)
    shutil.copytree(tmp_path / "kept", zone, symlinks=True)
    subprocess.run(["cp", "-a", changes.folder, tmp_path / "again"], check=True, timeout=60)
    fresh = [
        replace(change, before=change.before and entry_of(change.path, os.lstat(change.path)))
        for change in changes.changes
    ]
    again = ChangeSet(tmp_path / "again", tuple(fresh), {str(zone): zone.stat().st_ino})
    again.save()
    return again


def kill_everywhere(zone: Path, changes: ChangeSet, tmp_path: Path, step: int) -> int:
    """Kill it at one call after the other; how many there were."""
    shutil.copytree(zone, tmp_path / "kept", symlinks=True)
    before = tree(zone)
    apply(found_anew(zone, changes, tmp_path))
    after, failures, ends = tree(zone), [], set()
    number = 0
    while killed_at(number, found_anew(zone, changes, tmp_path).folder):
        said = finish(tmp_path / "again")
        left = tree(zone)
        ends.add("nothing" if left == before else "all")
        if left not in (before, after) or (tmp_path / "again/journal").exists():
            failures.append((number, said, {name for name in left | after if left.get(name) != after.get(name)}))
        number += step
    assert failures == []
    assert ends == {"nothing", "all"}
    return number


def test_killed_now_and_then(zone: Path, changes: ChangeSet, tmp_path: Path) -> None:
    kill_everywhere(zone, changes, tmp_path, step=29)


@pytest.mark.long
def test_killed_at_every_call(zone: Path, changes: ChangeSet, tmp_path: Path) -> None:
    assert kill_everywhere(zone, changes, tmp_path, step=1) > 200


def test_a_change_of_somebody_else_stops_all(zone: Path, changes: ChangeSet) -> None:
    for spoil in (
        lambda: (zone / "changed").write_text("newer"),
        lambda: (zone / "made").write_text("newer"),
        lambda: (zone / "folder/new").write_text("newer"),
        lambda: (zone / "gone").chmod(0o600),
    ):
        spoil()
        before = tree(zone)
        with pytest.raises(Stale):
            apply(changes)
        assert tree(zone) == before


def test_a_step_that_fails_takes_the_others_back(
    zone: Path, changes: ChangeSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree(zone)
    real, calls = os.symlink, []

    def fail(*args, **options):
        calls.append(args)
        raise OSError(28, "No space left on device", args[1])

    monkeypatch.setattr(os, "symlink", fail)
    with pytest.raises(ToolError, match="nothing was changed: .*No space left"):
        apply(changes)
    monkeypatch.setattr(os, "symlink", real)
    assert calls
    assert tree(zone) == before
    assert not (changes.folder / "journal").exists()
