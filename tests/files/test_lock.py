"""Locks between processes: who waits, who is refused, and what a file put in the place of another does to them."""

import errno
import os
import threading
from pathlib import Path

import pytest

from forge_cli.files.lock import acquire_file_lock, hold_file_lock


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def test_one_writer_at_a_time(file: Path) -> None:
    with hold_file_lock(file):
        with pytest.raises(BlockingIOError):
            acquire_file_lock(file, wait=False)
        with pytest.raises(BlockingIOError):
            acquire_file_lock(file, shared=True, wait=False)
    os.close(acquire_file_lock(file, wait=False))


def test_a_lock_that_another_lets_go_of_soon_is_waited_for(file: Path) -> None:
    other = threading.Timer(0.05, os.close, (acquire_file_lock(file, shared=True),))
    other.start()
    os.close(acquire_file_lock(file, wait=30.0))
    other.join(30)


def test_readers_share_and_keep_a_writer_out(file: Path) -> None:
    with (
        hold_file_lock(file, shared=True),
        hold_file_lock(file, shared=True, wait=False),
        pytest.raises(BlockingIOError),
    ):
        acquire_file_lock(file, wait=False)


def test_a_removed_file_is_locked_by_nobody(file: Path) -> None:
    with hold_file_lock(file):
        file.unlink()
        with hold_file_lock(file, wait=False):
            assert file.exists()


def test_the_lock_is_that_of_the_file_which_has_the_name_now(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody replaces the file between its opening and its locking."""
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
def test_nothing_but_a_file_is_locked(file: Path, kind: str, number: int) -> None:
    if kind == "link":
        file.symlink_to(file.with_name("other"))
    else:
        os.mkfifo(file)
    with pytest.raises(OSError, match=".") as caught:
        acquire_file_lock(file)
    assert caught.value.errno == number
