"""A small process that outlives this one, to end the commands that would be left behind when this one is killed."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

CODE = """
import os, resource, signal, sys
os.chdir("/")
marks = {int(line) for line in sys.stdin.buffer}
def belongs(pid):
    try:
        if resource.prlimit(pid, resource.RLIMIT_RTTIME)[0] in marks:
            return True
        with open(f"/proc/{pid}/environ", "rb") as file:
            return not names.isdisjoint(file.read().split(b"\\0"))
    except OSError:
        return False
names = {b"%b=%d" % (sys.argv[1].encode(), mark) for mark in marks}
for _ in range(20):
    pids = {int(name) for name in os.listdir("/proc") if name.isdigit()} - {os.getpid()}
    found = [pid for pid in pids if belongs(pid)]
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    if not found:
        break
"""
"""Reads the marks of process trees to the end of its input, which comes when no process can write there any more."""


class Guardian:
    """Knows the marks of process trees, and kills what carries one once this process is gone, however it ended.

    It is started for the first mark. A parent-death signal would reach only the first process of each tree.
    """

    def __init__(self, marker: str) -> None:
        """``marker`` is the variable that the processes of a tree have in their environment."""
        self._marker = marker
        self._pid = self._pipe = -1

    def watch(self, mark: int) -> None:
        """End the processes with this mark when this one ends; where that is not possible, nothing happens."""
        if self._pid < 0 and sys.executable and os.path.exists("/proc/self/stat"):
            with suppress(OSError, RuntimeError):  # a system may not be able to start it in a session of its own
                self._start()
        with suppress(OSError):
            os.write(self._pipe, b"%d\n" % mark)

    def close(self) -> None:
        """Nothing is left to be watched."""
        if self._pid >= 0:
            os.kill(self._pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(self._pid, 0)
            os.close(self._pipe)
            self._pid = self._pipe = -1

    def _start(self) -> None:
        reading, writing = os.pipe()
        try:
            nowhere = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
            self._pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", "-c", CODE, self._marker],
                {},
                file_actions=[(os.POSIX_SPAWN_DUP2, reading, 0), nowhere, (os.POSIX_SPAWN_DUP2, 1, 2)],
                setsid=True,
            )
            self._pipe = writing
        except BaseException:
            os.close(writing)
            raise
        finally:
            os.close(reading)
