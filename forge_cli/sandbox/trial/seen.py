"""Starting a command from a filtered thread of this process, to see what the command reaches for.

Everything that the thread starts inherits the filter, and another thread answers the kernel. This
saves the first program of commands on copies, which would take longer than the command.
"""

from __future__ import annotations

import ctypes
import os
import posix
import select
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from msgspec.structs import replace

from forge_cli.sandbox.changes.path_changes import SCRATCH
from forge_cli.sandbox.isolation.isolation import Confined
from forge_cli.sandbox.isolation.seccomp import seccomp_filter
from forge_cli.sandbox.isolation.watching import watch_filter
from forge_cli.sandbox.processes.command import Command
from forge_cli.sandbox.trial.copies import Reached
from forge_cli.sandbox.trial.watch import Watch

if TYPE_CHECKING:
    import _thread

T = TypeVar("T")
_PR_SET_NO_NEW_PRIVS = 38


class _PolledWatch(Watch):
    """A watch that ends when no process is under the filter any more."""

    def _serve(self, beginning: _thread.LockType) -> None:
        with beginning:
            listener = self._listener
        if listener < 0:
            return
        calls = select.poll()
        calls.register(listener, select.POLLIN)
        try:
            while calls.poll()[0][1] & select.POLLIN and self._serve_one():
                pass
        finally:
            posix.close(listener)


class FilteredThread:
    """A thread that starts one command and lives as long: ``bwrap`` ends with its parent."""

    def __init__(self) -> None:
        """Start the thread; raise OSError if the kernel does not allow the filter."""
        self._begun: SimpleQueue[OSError | None] = SimpleQueue()
        self._wanted: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._watch: Watch | None = None
        self._thread = threading.Thread(target=self._work, name="forge-seen", daemon=True)
        self._thread.start()
        if problem := self._begun.get():
            raise problem

    def run(self, function: Callable[[], T]) -> T:
        """Call a function in the thread; return or raise what it does."""
        done: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

        def work() -> None:
            try:
                done.put((function(), None))
            except BaseException as error:
                done.put((None, error))

        self._wanted.put(work)
        value, error = done.get()
        if error is not None:
            raise error
        return value  # type: ignore[return-value]

    def close(self) -> Reached:
        """End the thread after the command, and return what was seen."""
        self._wanted.put(None)
        self._thread.join()
        found: dict[str, Any] = self._watch.found() if self._watch else {}
        return Reached(**found)

    def _work(self) -> None:
        try:
            self._watch = _PolledWatch(_plan())
        except OSError as error:
            self._begun.put(error)
            return
        self._begun.put(None)
        while work := self._wanted.get():
            work()


def _plan() -> Mapping[str, Any]:
    found = watch_filter(writes=True, begins=True)
    if found is None:
        raise OSError("unknown system calls of this processor")
    # This applies to the calling thread only.
    if ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, *map(ctypes.c_ulong, (1, 0, 0, 0))) < 0:
        raise OSError("a filter needs it")
    return {
        "filter": found.program,
        "seccomp": found.seccomp,
        "calls": found.calls,
        "paths": found.paths,
        "program": "",
        "scratch": SCRATCH,
        "thread": threading.get_native_id(),
    }


def filtered_thread(program: Path) -> FilteredThread | None:
    """Return a thread for one confined command, or None if it cannot be watched this way."""
    with open(program, "rb") as file:
        # Under a filter, the kernel ignores the set-user-ID bit.
        needs_rights = os.fstat(file.fileno()).st_mode & 0o6000
    if needs_rights or seccomp_filter(unix_sockets=True) is None:
        return None
    try:
        return FilteredThread()
    except (OSError, RuntimeError):
        return None  # another program watches this process, or there are too many threads


class SeenCommand:
    """Starts an argv confined, from a thread under the filter."""

    confined: ClassVar[bool] = True

    def __init__(self, wrap: Confined, thread: FilteredThread) -> None:
        self._wrap = replace(wrap, shows_sockets=True)
        self._thread = thread
        self._started = False
        self.reached: Reached | None = None
        """What the command reached for, once it has ended."""

    @contextmanager
    def __call__(self, argv: Sequence[str], cwd: Path) -> Iterator[Command]:
        with self._wrap(argv, cwd) as command:
            yield replace(command, start=self._thread.run)
            self._started = True

    def appeared(self) -> Sequence[str]:
        self.reached = self._thread.close()
        return ()

    def exceeded(self) -> str | None:
        return self._wrap.exceeded()

    def end_excess(self) -> None:
        self._wrap.end_excess()

    def drop(self) -> None:
        """End the thread of a command that was not started."""
        if not self._started and self.reached is None:
            self.appeared()
