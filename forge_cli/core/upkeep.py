"""What third-party code in this process may close or replace: kept out of its reach, and put back after it."""

from __future__ import annotations

import fcntl
import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

OUT_OF_REACH = 1024
"""The first descriptor that is spared by code which closes all of those that a process usually has."""
_IN, _OUT, _ERR = 0, 1, 2


def copy_out_of_reach(descriptor: int) -> int:
    """A copy of a descriptor with a high number, where the limits of the process allow one."""
    with suppress(OSError):
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, OUT_OF_REACH)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        # a descriptor stays when the limit goes down again, which child processes inherit
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(2 * OUT_OF_REACH, hard), hard))
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, OUT_OF_REACH)
    except (OSError, ValueError):
        return os.dup(descriptor)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def move_out_of_reach(descriptor: int) -> int:
    """The same, instead of the descriptor."""
    try:
        return copy_out_of_reach(descriptor)
    finally:
        os.close(descriptor)


_menders: list[Callable[[], object]] = []
_process = 0


def mend_process() -> None:
    """After third-party code: put back what it took."""
    end_forked()
    for mend in _menders:
        mend()


def end_forked() -> None:
    """End a child process that third-party code has forked and that came back: two of us would do everything twice."""
    if _menders and os.getpid() != _process:
        os._exit(0)


@contextmanager
def mending(mend: Callable[[], object]) -> Iterator[None]:
    """Inside, ``mend`` is called after third-party code; for a process that is forge's own."""
    global _process
    _process = os.getpid()
    _menders.append(mend)
    try:
        yield
    finally:
        _menders.remove(mend)


@contextmanager
def standard_streams_kept() -> Iterator[None]:
    """Inside, third-party code may close and replace the standard streams as it likes; afterwards they are ours again.

    They are given back at once, or the next file that is opened would get the number, and our messages. Standard output
    leads to standard error while third-party code is at work.
    """
    streams = {name: getattr(sys, name) for name in ("stdin", "stdout", "stderr")}
    standard_in, standard_err = copy_out_of_reach(_IN), copy_out_of_reach(_ERR)
    copies = {_IN: standard_in, _OUT: standard_err, _ERR: standard_err}

    def give_back() -> None:
        for descriptor, copy in copies.items():
            if not _is_standard(descriptor):
                with suppress(OSError):
                    os.dup2(copy, descriptor)
        for name in ("stdout", "stderr"):
            if not callable(getattr(getattr(sys, name), "write", None)):
                setattr(sys, name, streams[name])

    try:
        with mending(give_back):
            yield
    finally:
        for name, stream in streams.items():
            setattr(sys, name, stream)
        for copy in (standard_in, standard_err):
            with suppress(OSError):
                os.close(copy)


def _is_standard(descriptor: int) -> bool:
    """Not if it was closed, nor if a file was opened since that got the number: child processes do not inherit that."""
    try:
        return os.get_inheritable(descriptor)
    except OSError:
        return False
