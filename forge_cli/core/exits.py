"""The ends of a process that third-party code shares with forge: it can neither end nor replace it unnoticed."""

from __future__ import annotations

import errno
import os
import posix
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from forge_cli.core.bounds import EXITED, watchdog

_NAMES = ("_exit", "execv", "execve")
"""All other functions of ``os`` that replace the process call one of these."""


@contextmanager
def exits_guarded() -> Iterator[None]:
    """Inside, ``os._exit`` of third-party code raises SystemExit, and ``os.exec...`` fails.

    Both would leave a session without its end, and a script with an exit code that may say success. Child processes
    that third-party code has forked, and forge itself, have the real functions.
    """
    process, real = os.getpid(), {name: getattr(posix, name) for name in _NAMES}

    def is_guarded(caller: FrameType) -> bool:
        return os.getpid() == process and not _is_own(caller)

    def exit_guarded(status: int) -> NoReturn:
        if is_guarded(caller := sys._getframe(1)):
            _refuse_exit(status, caller)
        real["_exit"](status)
        raise AssertionError

    def guarded(replace: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            if is_guarded(sys._getframe(1)):
                raise PermissionError(errno.EPERM, "the process is forge's own; start a program with subprocess")
            return replace(*args, **more)

        return call

    _put({"_exit": exit_guarded, "execv": guarded(real["execv"]), "execve": guarded(real["execve"])})
    try:
        yield
    finally:
        _put(real)


def fix_exit_code(code: int) -> None:
    """From now on this process ends with ``code``, whatever third-party code says that was registered for its end."""
    process, real = os.getpid(), posix._exit
    _put({"_exit": lambda status: real(code if os.getpid() == process else status)})


def _put(functions: dict[str, Callable[..., Any]]) -> None:
    for name, function in functions.items():
        setattr(os, name, function)
        setattr(posix, name, function)


def _refuse_exit(status: int, caller: FrameType) -> NoReturn:
    """Where forge waits for the call, it hears of it; a thread that nobody waits for ends the session instead."""
    dog, frame = watchdog(), caller
    while dog and not _is_awaited(frame):
        if frame.f_back is None:
            dog.give_up(EXITED)
        else:
            frame = frame.f_back
    raise SystemExit(f"os._exit({status}) was called")


def _is_own(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__"))
    return name == "__main__" or name.startswith("forge_cli.")


def _is_awaited(frame: FrameType) -> bool:
    """Functions that are not async are called by a thread of forge, or of anyio."""
    return _is_own(frame) or str(frame.f_globals.get("__name__")).startswith("anyio.")
