"""The signal that stops a turn, and the reasons for which a task ends before it is done."""

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
"""The reasons given when the operating system asks the process to end: SIGTERM, SIGHUP and SIGQUIT."""


class InterruptSignal:
    """Stops what the worker is doing; ``reset`` makes it ready for the next task.

    ``interrupt`` may be called from the event loop, from another thread, or from a signal handler.
    """

    def __init__(self) -> None:
        self._reason: str | None = None
        self._wakers: dict[object, Callable[[], object]] = {}

    @property
    def interrupted(self) -> bool:
        """Return True if somebody has asked to stop."""
        return self._reason is not None

    @property
    def reason(self) -> str | None:
        """Why it was stopped; None where it was not."""
        return self._reason

    def interrupt(self, reason: str = "interrupted") -> None:
        """Stop what runs; the first reason counts."""
        self._reason = self._reason or reason
        for wake in list(self._wakers.values()):
            wake()

    def reset(self) -> None:
        """Forget it, so that work can begin again."""
        self._reason = None

    @contextmanager
    def scope(self) -> Iterator[anyio.CancelScope]:
        """A cancel scope that ends when the signal comes; at once, if it has come already."""
        import asyncio

        loop = asyncio.get_running_loop()
        key = object()
        with anyio.CancelScope() as scope:
            self._wakers[key] = partial(loop.call_soon_threadsafe, scope.cancel)
            try:
                if self.interrupted:
                    scope.cancel()
                yield scope
            finally:
                del self._wakers[key]

    @contextmanager
    def child(self) -> Iterator[InterruptSignal]:
        """A signal for a part of the work: it comes when this one does, and may come alone."""
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
    """The task ends here, in good order; the sentence is the error of its result."""

    status: ClassVar[ResultStatus]
    exit_code: ExitCode


class Parked(Ended):
    """A request waits on disk for somebody to decide it; the work ends here until then."""

    status = "parked"
    exit_code = ExitCode.PARKED


class Interrupted(Ended):
    """Somebody stopped the work, which is not an error."""

    status = "interrupted"
    exit_code = ExitCode.INTERRUPTED

    def __init__(self, reason: str | None = None) -> None:
        super().__init__()
        self.exit_code = _STOPS.get(reason, ExitCode.INTERRUPTED)
