"""Into the event loop, and what the signals that end a program do to the work in it."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from msgspec import Struct

from forge_cli.core.bounds import (
    RUNNING,
    SHUTDOWN_GRACE,
    ForcedEnd,
    begin_shutdown,
    end,
    start_loop,
)
from forge_cli.core.errors import Terminated
from forge_cli.core.interrupt import HUNG_UP, QUIT, TERMINATED, Interrupted
from forge_cli.process.streams import erase_live_lines
from forge_cli.process.watchdog import Leave, Watchdog, say_fault

T = TypeVar("T")

STOPS: dict[int, str] = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: TERMINATED,
    signal.SIGHUP: HUNG_UP,
    signal.SIGQUIT: QUIT,
}
"""The signals that end a program, each with the reason that the session keeps."""
ALWAYS = frozenset({signal.SIGINT, signal.SIGTERM})


def _ignore(reason: str) -> None:
    """Interrupt nothing."""


def _never() -> bool:
    return False


class _Listener(Struct):
    """Work that signals end."""

    task: asyncio.Task[object] | None
    interrupt: Callable[[str], object] = _ignore
    ready: Callable[[], bool] = _never
    """Until then there is nothing to stop in good order, and the task is cancelled."""
    on_key: Callable[[], object] | None = None
    watchdog: Watchdog | None = None
    cancelled_by: int | None = None
    last: float = float("-inf")
    unheard: bool = False

    def handle(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        """Called between two instructions of any code, also where that holds the event loop."""
        if number == signal.SIGINT and self.on_key and self.ready() and not self.unheard:
            self.unheard = True
            loop.call_soon_threadsafe(self._hear_key)
            return
        before = self.last
        self.last = time.monotonic()
        if self.last - before < 1:
            from forge_cli.ui.terminal.raw_mode import give_terminal_back

            erase_live_lines()
            give_terminal_back()
            os._exit(128 + number)
        if self.watchdog:
            starved = self.watchdog.is_starved
            begin_shutdown(
                STOPS[number],
                Interrupted(STOPS[number]).exit_code,
                0.0 if starved else SHUTDOWN_GRACE,
            )
            if starved:
                self.watchdog.look()
        loop.call_soon_threadsafe(self._stop, number)

    def _hear_key(self) -> None:
        self.unheard = False
        if self.on_key:
            self.on_key()

    def _stop(self, number: int) -> None:
        """End the work of the innermost listener, which may have begun after the signal came."""
        # Cancelling its task would end a run that has begun as `interrupted` (130), whatever signal it was.
        if self in _listeners and _listeners[-1] is not self:
            _listeners[-1]._stop(number)
        elif self.ready():
            self.interrupt(STOPS[number])
        elif self.task and self.cancelled_by is None:
            self.cancelled_by = number
            self.task.cancel()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals instead of their handlers so far."""
        _listeners.append(self)
        try:
            yield
        except asyncio.CancelledError:
            if self.cancelled_by is None:
                raise
            raise Terminated(128 + self.cancelled_by) from None
        finally:
            _listeners.remove(self)


_listeners: list[_Listener] = []


def in_loop(function: Callable[..., Awaitable[T]], *args: object) -> T:
    """Run an async function to its end; signals cancel it, unless it is ``interruptible``.

    They wait while the event loop is made and closed, where an exception would leave half a loop behind.
    """
    if threading.current_thread() is not threading.main_thread():
        return start_loop(function, *args)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)

    async def work() -> T:
        with _Listener(asyncio.current_task()).listening(), _handling_signals():
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            try:
                found = await function(*args)
                await asyncio.sleep(
                    0
                )  # a signal that came before counts, though the input ended by the same Ctrl+C
                return found
            finally:
                signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)

    try:
        return start_loop(work)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@contextmanager
def _handling_signals() -> Iterator[None]:
    """Real handlers, not those of the event loop: a tool that blocks the loop must not block the way out as well."""
    loop = asyncio.get_running_loop()
    # nohup has SIGHUP ignored, a shell without jobs SIGQUIT: so it stays
    heard = [
        number
        for number in STOPS
        if number in ALWAYS or signal.getsignal(number) is not signal.SIG_IGN
    ]
    before = {number: signal.getsignal(number) for number in heard}
    for number in heard:
        loop.add_signal_handler(number, int)  # so that a signal wakes the loop
        signal.signal(number, lambda number, frame: _listeners[-1].handle(number, loop))
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


@contextmanager
def interruptible(
    interrupt: Callable[[str], object],
    ready: Callable[[], bool] = lambda: True,
    leave: Leave = say_fault,
    *,
    on_key: Callable[[], object] | None = None,
) -> Iterator[None]:
    """Signals that end a program call ``interrupt`` with the reason; a second within a second leaves at once.

    Until it is ``ready`` there is nothing to stop in good order, and the task is cancelled.
    What still holds the process after a grace is abandoned: ``leave`` writes what is due. In a conversation Ctrl+C is
    a key, which ``on_key`` takes, unless the loop has not even heard the one before it.
    """

    def leave_in_order(end: ForcedEnd) -> int:
        from forge_cli.ui.terminal.raw_mode import give_terminal_back

        give_terminal_back()
        return leave(end)

    before = set(RUNNING)
    with Watchdog(leave_in_order) as watchdog:
        listener = _Listener(asyncio.current_task(), interrupt, ready, on_key, watchdog)
        try:
            with listener.listening():
                yield
        finally:
            for section in set(RUNNING) - before:
                end(section)
