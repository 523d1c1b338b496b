"""Process trees: a process and everything it started, even in other sessions."""

from __future__ import annotations

import os
import resource
import secrets
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache

import anyio
from msgspec import Struct

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
"""Read marks of process trees until the input ends, when no other process can write to it."""
MARKER = "FORGE_PROCESS_TREE"
POLITE_TIMEOUT = 1.0
"""Seconds between SIGTERM and SIGKILL."""
KILL_TIMEOUT = 1.2
"""Seconds after which a process that survives SIGKILL is given up."""

_PR_SET_CHILD_SUBREAPER = 36
_LINUX = sys.platform == "linux"
_PROC = os.path.exists("/proc/self/stat")
_MARKING = threading.Lock()


class Member(Struct, frozen=True):
    """One process as the kernel shows it; ``started`` distinguishes processes with the same ID."""

    pid: int
    parent: int
    group: int
    session: int
    state: str
    started: int

    @property
    def identity(self) -> tuple[int, int]:
        return self.pid, self.started

    @property
    def alive(self) -> bool:
        return self.state not in "ZX"


@cache
def adopt_orphans() -> None:
    """Adopt processes that lose their parent, if the kernel supports it."""
    if _LINUX:
        import ctypes

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def new_mark() -> int:
    """Return a number that marks the processes of one tree.

    ``MARKER`` has it in the environment.
    """
    # As a time limit in microseconds, this is never reached.
    return 2**61 + secrets.randbelow(2**60)


@contextmanager
def mark_children(mark: int) -> Iterator[None]:
    """Start a process inside with the mark, so that its first children already inherit it."""
    if not _LINUX:
        yield
        return
    with _MARKING:
        own = resource.getrlimit(resource.RLIMIT_RTTIME)
        try:
            with suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_RTTIME, (mark, own[1]))
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_RTTIME, own)
            _unmark_children_of_other_threads(mark, own)


class ProcessTree:
    """One command, the first process of its own session, and everything that descends from it.

    Most processes are found by descent from the first one. A process whose parents have ended
    becomes our child. It belongs to the tree if it is in the session of the first process, or
    carries the mark. The mark is in the environment and in the soft limit of real-time scheduling,
    which limits nothing at that value. Both are inherited, and ``env -i`` removes only one of them.

    A process that removes both marks and leaves the session is lost; without ``/proc``, so is every
    process that leaves the process group. Only namespaces prevent that: if ``contained``, nothing
    outlives the first process.
    """

    def __init__(self, first: int, mark: int, *, contained: bool = False) -> None:
        self._first = first
        self._mark = mark
        self.contained = contained
        self._known: set[tuple[int, int]] = set()

    def members(self) -> list[Member]:
        """Return the living processes, after reaping dead orphans of the tree."""
        if not _PROC:
            return self._group()
        processes = _read_stats(entry.name for entry in os.scandir("/proc") if entry.name.isdigit())
        found = {process.pid: process for process in processes if self._belongs(process)}
        while more := [one for one in processes if one.parent in found and one.pid not in found]:
            found |= {one.pid: one for one in more}
        self._known |= {one.identity for one in found.values()}
        return self._alive(found.values())

    def remains(self) -> bool:
        """Return True if processes are left after the first one; cheap enough for every command.

        A remaining process is an orphan or descends from one, so only our own children are
        examined.
        """
        try:
            children = _read_stats(_children(os.getpid()))
        except OSError:
            return bool(self.members())
        return bool(self._alive([child for child in children if self._belongs(child)]))

    def pids(self) -> Iterator[int]:
        """Yield every process except those that keep the namespaces.

        This is cheap enough to be repeated.
        """
        around = [self._first]
        if self.contained:
            around = children_of(self._first)
        else:
            with suppress(OSError):
                around += [
                    one.pid for one in _read_stats(_children(os.getpid())) if self._belongs(one)
                ]
        waiting = deque(dict.fromkeys(around))
        if not self.contained:
            yield from waiting
        while waiting:
            born = children_of(waiting.popleft())
            yield from born
            waiting.extend(born)

    async def end(self, *, politely: bool = True) -> None:
        """Terminate every process, kill those that do not end, and give up the others."""
        if politely:
            await self._signal_all(signal.SIGTERM, POLITE_TIMEOUT)
        await self._signal_all(signal.SIGKILL, KILL_TIMEOUT)

    async def _signal_all(self, number: signal.Signals, seconds: float) -> None:
        """Signal every process once, as soon as it is seen, until none is left."""
        signalled: set[tuple[int, int]] = set()
        pause = 0.001
        with anyio.move_on_after(seconds):
            while members := self.members():
                targets = self._targets(number, members) if self.contained else members
                if not targets and not signalled:
                    return
                _send(number, [target for target in targets if target.identity not in signalled])
                signalled |= {target.identity for target in targets}
                await anyio.sleep(pause)
                pause = min(2 * pause, 0.05)

    def _targets(self, number: signal.Signals, members: list[Member]) -> list[Member]:
        """Return whom to signal in a namespace.

        Killing its first process ends all others; SIGTERM goes to all but the two that keep it.
        """
        if number is signal.SIGTERM:
            return [member for member in members if self._first not in (member.pid, member.parent)]
        return [member for member in members if member.pid == self._first] or members

    def _group(self) -> list[Member]:
        try:
            os.killpg(self._first, 0)
        except (ProcessLookupError, PermissionError):
            return []
        return [Member(self._first, os.getpid(), self._first, self._first, "R", 0)]

    def _belongs(self, process: Member) -> bool:
        if self._first in (process.group, process.session) or process.identity in self._known:
            return True
        orphan = process.parent == os.getpid()
        return orphan and (_limit(process.pid) == self._mark or self._in_environment(process.pid))

    def _in_environment(self, pid: int) -> bool:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                return f"{MARKER}={self._mark}".encode() in file.read().split(b"\0")
        except OSError:
            return False

    def _alive(self, found: Iterable[Member]) -> list[Member]:
        alive = []
        for process in found:
            if process.alive:
                alive.append(process)
            elif process.pid != self._first and process.parent == os.getpid():
                with suppress(ChildProcessError):
                    os.waitpid(process.pid, os.WNOHANG)
        return alive


def children_of(pid: int) -> list[int]:
    """Return the children of all threads of a process."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with (
                suppress(OSError),
                open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as file,
            ):
                found += map(int, file.read().split())
    return found


def kill_children() -> None:
    """Kill everything that this process has started, just before it ends itself."""
    waiting = deque([os.getpid()])
    while waiting:
        for pid in children_of(waiting.popleft()):
            waiting.append(pid)
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def _send(number: signal.Signals, members: list[Member]) -> None:
    if number is signal.SIGKILL or not _PROC:
        # This also reaches processes of the group that were started while it was listed.
        for group in {member.group for member in members}:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)
    if _PROC:
        for member in members:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(member.pid, number)


def _unmark_children_of_other_threads(mark: int, own: tuple[int, int]) -> None:
    """Remove the mark from processes that other threads started in the meantime.

    Our own orphans become children of the first thread.
    """
    # With one thread, nothing else can have started a process.
    if threading.active_count() == 1:
        return
    with suppress(OSError):
        for thread in map(int, os.listdir("/proc/self/task")):
            if thread in (os.getpid(), threading.get_native_id()):
                continue
            for pid in map(int, _children(thread)):
                if _limit(pid) == mark:
                    resource.prlimit(pid, resource.RLIMIT_RTTIME, own)


def _limit(pid: int) -> int | None:
    try:
        return resource.prlimit(pid, resource.RLIMIT_RTTIME)[0]
    except OSError:
        return None


def _children(thread: int) -> list[str]:
    with open(f"/proc/self/task/{thread}/children") as file:
        return file.read().split()


def _read_stats(pids: Iterable[str]) -> list[Member]:
    found = []
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
                # The name of the program may contain spaces, and parentheses like those around it.
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        parent, group, session = map(int, fields[1:4])
        found.append(Member(int(pid), parent, group, session, fields[0].decode(), int(fields[19])))
    return found


class Guardian:
    """A process that kills everything with a known mark after this process is gone, for any reason.

    It is started for the first mark. A parent-death signal would reach only the first process of
    each tree.
    """

    def __init__(self) -> None:
        self._pid = self._pipe = -1

    def watch(self, mark: int) -> None:
        """End the processes with this mark when this process ends, if the system supports that."""
        if self._pid < 0 and sys.executable and os.path.exists("/proc/self/stat"):
            # A system may not be able to start it in a session of its own.
            with suppress(OSError, RuntimeError):
                self._start()
        with suppress(OSError):
            os.write(self._pipe, b"%d\n" % mark)

    def close(self) -> None:
        """Stop the guardian, because nothing is left to watch."""
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
                [sys.executable, "-I", "-S", "-c", CODE, MARKER],
                {},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, reading, 0),
                    nowhere,
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                ],
                setsid=True,
            )
            self._pipe = writing
        except BaseException:
            os.close(writing)
            raise
        finally:
            os.close(reading)
