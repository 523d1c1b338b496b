"""The signal that interrupts a turn, and exceptions that end a task early."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import ClassVar, Literal

import anyio

from forge_cli.core.errors import ExitCode

TERMINATED = "terminated"
HUNG_UP = "hung up"
QUIT = "quit"
"""Reasons for the signals SIGTERM, SIGHUP and SIGQUIT."""


class InterruptSignal:
    """Stops the current work of a worker; ``reset`` prepares it for the next task.

    ``interrupt`` may be called from the event loop, from another thread or from a signal handler.
    """

    def __init__(self) -> None:
        self._reason: str | None = None
        self._wakers: dict[object, Callable[[], object]] = {}

    @property
    def interrupted(self) -> bool:
        """True if a stop was requested."""
        return self._reason is not None

    @property
    def reason(self) -> str | None:
        """The reason of the stop; None without one."""
        return self._reason

    def interrupt(self, reason: str = "interrupted") -> None:
        """Stop the current work; the first reason counts."""
        self._reason = self._reason or reason
        # A copy, because a signal handler may run between two steps of another loop over the
        # wakers.
        for wake in list(self._wakers.values()):
            wake()

    def reset(self) -> None:
        """Forget the stop, so that work can begin again."""
        self._reason = None

    @contextmanager
    def scope(self) -> Iterator[anyio.CancelScope]:
        """Open a cancel scope that is cancelled by the signal, at once if it has already come."""
        import asyncio

        loop = asyncio.get_running_loop()
        key = object()
        with anyio.CancelScope() as scope:
            # Cancelling has to happen in the loop; a signal handler or a thread only schedules it.
            self._wakers[key] = partial(loop.call_soon_threadsafe, scope.cancel)
            try:
                if self.interrupted:
                    scope.cancel()
                yield scope
            finally:
                del self._wakers[key]

    @contextmanager
    def child(self) -> Iterator[InterruptSignal]:
        """Open a signal for a part of the work, which this signal triggers as well."""
        key = object()
        inner = InterruptSignal()

        def pass_on() -> None:
            inner.interrupt(self._reason or "interrupted")

        self._wakers[key] = pass_on
        try:
            if self.interrupted:
                pass_on()
            yield inner
        finally:
            del self._wakers[key]


ResultStatus = Literal[
    "completed", "failed", "denied", "limit", "invalid_output", "interrupted", "parked"
]

_STOPS: dict[str | None, ExitCode] = {
    TERMINATED: ExitCode.TERMINATED,
    HUNG_UP: ExitCode.HUNG_UP,
    QUIT: ExitCode.QUIT,
}


class Ended(Exception):
    """The task ends here in good order; the message is the error of its result."""

    status: ClassVar[ResultStatus]
    exit_code: ExitCode


class Parked(Ended):
    """The task stops because a request waits on disk for an answer."""

    status = "parked"
    exit_code = ExitCode.PARKED


class Interrupted(Ended):
    """The task was stopped on request, which is not an error."""

    status = "interrupted"
    exit_code = ExitCode.INTERRUPTED

    def __init__(self, reason: str | None = None) -> None:
        super().__init__()
        self.exit_code = _STOPS.get(reason, ExitCode.INTERRUPTED)
