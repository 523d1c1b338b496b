"""The locks of sessions: one process works on a log at a time, however many sessions it has at once."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forge_cli.record.places import SessionBusy, lock_file, lock_holder, lock_log, unlock_log

HOLD = """
import sys
from pathlib import Path
from forge_cli.record.places import lock_log
held = [lock_log(Path(name)) for name in sys.argv[1:]]
print("held", flush=True)
sys.stdin.read()
"""
TRY = """
import sys
from pathlib import Path
from forge_cli.record.places import SessionBusy, lock_log
try:
    lock_log(Path(sys.argv[1]))
    print("free")
except SessionBusy as error:
    print(error.message)
"""


@contextmanager
def other_process(*paths: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has the locks of these logs."""
    argv = [sys.executable, "-c", HOLD, *map(str, paths)]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def locked(path: Path) -> Iterator[os.stat_result]:
    held = lock_log(path)
    try:
        yield os.stat(lock_file(path))
    finally:
        unlock_log(path, held)


def told(path: Path) -> str:
    """The message that another process gets for the lock."""
    done = subprocess.run(
        [sys.executable, "-c", TRY, str(path)], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return [tmp_path / f"s{number}.jsonl" for number in range(3)]


def test_session_cannot_be_opened_twice_by_one_process(paths: list[Path]) -> None:
    with locked(paths[0]), locked(paths[1]):
        for path in paths[:2]:
            with pytest.raises(SessionBusy, match=f"in use by process {os.getpid()}"):
                lock_log(path)
        assert [lock_holder(path) for path in paths] == [os.getpid(), os.getpid(), None]
    assert os.listdir(paths[0].parent) == []


def test_locked_session_names_its_process(paths: list[Path]) -> None:
    with locked(paths[0]), other_process(paths[1]) as process:
        assert told(paths[0]) == f"the session s0 is in use by process {os.getpid()}"
        with pytest.raises(SessionBusy, match=f"in use by process {process.pid}"):
            lock_log(paths[1])
        assert (lock_holder(paths[1]), told(paths[2])) == (process.pid, "free")


def test_sessions_of_a_killed_process_are_free(paths: list[Path]) -> None:
    with other_process(*paths) as process:
        process.send_signal(signal.SIGKILL)
    with locked(paths[0]):
        assert [lock_holder(path) for path in paths] == [os.getpid(), None, None]
