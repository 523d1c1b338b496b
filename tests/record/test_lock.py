"""The locks of sessions: one process works on a log at a time, however many sessions it has at once."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import permutations
from pathlib import Path

import pytest

from forge_cli.record.lock import SessionBusy, holder, lock, lock_file, unlock

HOLD = """
import sys
from pathlib import Path
from forge_cli.record.lock import lock
held = [lock(Path(name)) for name in sys.argv[1:]]
print("held", flush=True)
sys.stdin.read()
"""
TRY = """
import sys
from pathlib import Path
from forge_cli.record.lock import SessionBusy, lock
try:
    lock(Path(sys.argv[1]))
    print("free")
except SessionBusy as error:
    print(error.message)
"""


@contextmanager
def other_process(*paths: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has the locks of these logs."""
    argv = [sys.executable, "-c", HOLD, *map(str, paths)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def locked(path: Path) -> Iterator[os.stat_result]:
    held = lock(path)
    try:
        yield os.stat(lock_file(path))
    finally:
        unlock(path, held)


def told(path: Path) -> str:
    """What another process hears that wants the lock."""
    done = subprocess.run([sys.executable, "-c", TRY, str(path)], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return [tmp_path / f"s{number}.jsonl" for number in range(3)]


def test_sessions_of_one_process_share_a_file_and_are_locked_each_for_itself(paths: list[Path]) -> None:
    first, second, third = paths
    busy = "the session {} is in use by the process " + str(os.getpid())
    held = lock(first)
    with locked(second) as shared:
        assert (shared.st_nlink, holder(first), holder(second), holder(third)) == (2, os.getpid(), os.getpid(), None)
        unlock(first, held)
        assert (told(first), told(second)) == ("free", busy.format("s1"))
        assert (holder(first), holder(second)) == (None, os.getpid())
        with locked(third):
            pass
        assert (told(third), told(second)) == ("free", busy.format("s1"))
    assert [path for path in paths if holder(path)] == []
    with locked(second):
        assert told(second) == busy.format("s1")


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_lock_that_sessions_share_is_let_go_with_the_last_of_them(paths: list[Path], order: tuple[int, ...]) -> None:
    held = [lock(path) for path in paths]
    assert len(set(held)) == 1
    for number in order:
        os.fstat(held[number])
        unlock(paths[number], held[number])
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(held[0])
    assert os.listdir(paths[0].parent) == []


def test_a_process_does_not_work_on_a_session_twice(paths: list[Path]) -> None:
    with locked(paths[0]), locked(paths[1]):
        for path in paths[:2]:
            with pytest.raises(SessionBusy, match=f"in use by the process {os.getpid()}"):
                lock(path)


def test_who_shares_no_file_with_another_process_is_told_about_it(paths: list[Path]) -> None:
    with locked(paths[0]), other_process(paths[1], paths[2]) as process:
        for path in paths[1:]:
            with pytest.raises(SessionBusy, match=f"in use by the process {process.pid}"):
                lock(path)
            assert holder(path) == process.pid


def test_all_sessions_of_a_process_that_was_killed_are_free(paths: list[Path]) -> None:
    """Each for itself: who takes one of them does not take the others, which have the same file."""
    with other_process(*paths) as process:
        process.send_signal(signal.SIGKILL)
    assert os.stat(lock_file(paths[0])).st_nlink == 3
    with locked(paths[0]):
        with other_process(paths[1]) as other:
            assert holder(paths[1]) == other.pid
            with locked(paths[2]):
                assert [holder(path) for path in paths] == [os.getpid(), other.pid, os.getpid()]
        with locked(paths[1]):
            assert [holder(path) for path in paths] == [os.getpid(), os.getpid(), None]
    assert os.listdir(paths[0].parent) == []


def remove(file: str) -> None:
    os.unlink(file)


def replace(file: str) -> None:
    os.unlink(file)
    Path(file).write_text("1")


def link(file: str) -> None:
    os.unlink(file)
    os.symlink("elsewhere", file)


@pytest.mark.parametrize("change", [remove, replace, link])
def test_a_file_that_somebody_has_changed_is_not_shared(paths: list[Path], change: Callable[[str], None]) -> None:
    first, second, _ = paths
    with locked(first):
        change(lock_file(first))
        with locked(second) as own:
            assert (own.st_nlink, holder(second)) == (1, os.getpid())
            assert Path(lock_file(second)).read_text() == str(os.getpid())
            assert told(second).endswith(f"in use by the process {os.getpid()}")


def test_where_files_have_one_name_only_each_session_has_its_own(
    paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    with ExitStack() as stack:
        held = [stack.enter_context(locked(path)) for path in paths]
        assert len({each.st_ino for each in held}) == 3
        assert [holder(path) for path in paths] == [os.getpid()] * 3
    assert os.listdir(paths[0].parent) == []


def test_a_process_that_was_forked_does_not_share_what_is_its_parents(paths: list[Path]) -> None:
    with locked(paths[0]):
        if (pid := os.fork()) == 0:
            lock(paths[1])
            os._exit(0 if Path(lock_file(paths[1])).read_text() == str(os.getpid()) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
