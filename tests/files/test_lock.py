"""Locks between processes: waiting, refusal, and a file that replaces another."""

import errno
import os
import threading
from pathlib import Path

import pytest

from forge_cli.files.lock import acquire_file_lock, hold_file_lock


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def test_lock_has_one_writer(file: Path) -> None:
    with hold_file_lock(file):
        with pytest.raises(BlockingIOError):
            acquire_file_lock(file, wait=False)
        with pytest.raises(BlockingIOError):
            acquire_file_lock(file, shared=True, wait=False)
    os.close(acquire_file_lock(file, wait=False))


def test_briefly_held_lock_is_waited_for(file: Path) -> None:
    other = threading.Timer(0.05, os.close, (acquire_file_lock(file, shared=True),))
    other.start()
    os.close(acquire_file_lock(file, wait=30.0))
    other.join(30)


def test_readers_share_a_lock_and_exclude_a_writer(file: Path) -> None:
    with (
        hold_file_lock(file, shared=True),
        hold_file_lock(file, shared=True, wait=False),
        pytest.raises(BlockingIOError),
    ):
        acquire_file_lock(file, wait=False)


def test_lock_on_a_removed_file_does_not_count(file: Path) -> None:
    with hold_file_lock(file):
        file.unlink()
        with hold_file_lock(file, wait=False):
            assert file.exists()


def test_lock_belongs_to_the_current_file_of_that_name(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is replaced between its opening and its locking."""
    os.close(acquire_file_lock(file))
    (new := file.with_name("new")).touch()
    opened = os.open

    def replaced(path: Path, flags: int, mode: int) -> int:
        descriptor = opened(path, flags, mode)
        if new.exists():
            new.replace(file)
        return descriptor

    monkeypatch.setattr(os, "open", replaced)
    with hold_file_lock(file) as descriptor:
        assert os.path.samestat(os.fstat(descriptor), file.stat())


@pytest.mark.parametrize(("kind", "number"), [("link", errno.ELOOP), ("pipe", errno.EINVAL)])
def test_only_a_regular_file_is_locked(file: Path, kind: str, number: int) -> None:
    if kind == "link":
        file.symlink_to(file.with_name("other"))
    else:
        os.mkfifo(file)
    with pytest.raises(OSError, match=".") as caught:
        acquire_file_lock(file)
    assert caught.value.errno == number
