"""The event loop of a command, and the signals that stop the work in it."""

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
"""Signals that end a program, with the reason that is recorded in the session."""
ALWAYS_HANDLED = frozenset({signal.SIGINT, signal.SIGTERM})
"""Signals that forge handles even if the parent process ignores them."""


def _ignore(reason: str) -> None:
    """Do nothing; the default ``interrupt`` of a listener."""


def _never() -> bool:
    return False


class _Listener(Struct):
    """Work that signals stop."""

    task: asyncio.Task[object] | None
    interrupt: Callable[[str], object] = _ignore
    ready: Callable[[], bool] = _never
    """Returns True once ``interrupt`` can stop the work in order; before, the task is cancelled."""
    on_key: Callable[[], object] | None = None
    """Takes Ctrl+C as a key in a conversation."""
    watchdog: Watchdog | None = None
    cancelled_by: int | None = None
    last: float = float("-inf")
    has_unheard_key: bool = False
    """Whether the event loop has not handled the last Ctrl+C yet."""

    def handle(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        """Handle a signal; Python calls this even while other code blocks the event loop."""
        takes_key = self.on_key and self.ready() and not self.has_unheard_key
        if number == signal.SIGINT and takes_key:
            self.has_unheard_key = True
            loop.call_soon_threadsafe(self._hear_key)
            return
        before = self.last
        self.last = time.monotonic()
        if self.last - before < 1:
            from forge_cli.ui.terminal.raw_mode import give_terminal_back

            # A second signal within a second: leave without cleanup, which is what may hang.
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
            if starved:  # its thread gets no turn, so this handler ends the process
                self.watchdog.look()
        loop.call_soon_threadsafe(self._stop, number)

    def _hear_key(self) -> None:
        self.has_unheard_key = False
        if self.on_key:
            self.on_key()

    def _stop(self, number: int) -> None:
        """Stop the work of the innermost listener, which may have begun after the signal came."""
        # Cancelling the task would end a run that has begun with 130, whatever the signal.
        if self in _listeners and _listeners[-1] is not self:
            _listeners[-1]._stop(number)
        elif self.ready():
            self.interrupt(STOPS[number])
        elif self.task and self.cancelled_by is None:
            self.cancelled_by = number
            self.task.cancel()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle signals in place of the listener before."""
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
    """Run an async function to its end; signals cancel it, unless it is ``interruptible``."""
    if threading.current_thread() is not threading.main_thread():
        return start_loop(function, *args)
    # An exception of a signal while the loop is made or closed would leave half a loop behind.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)

    async def work() -> T:
        with _Listener(asyncio.current_task()).listening(), _handling_signals():
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            try:
                found = await function(*args)
                # Ctrl+C can also end the input; let its signal count before the function returns.
                await asyncio.sleep(0)
                return found
            finally:
                signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)

    try:
        return start_loop(work)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@contextmanager
def _handling_signals() -> Iterator[None]:
    """Install handlers for the signals in ``STOPS``, and restore the handlers before."""
    loop = asyncio.get_running_loop()
    before = {}
    for number in STOPS:
        handler = signal.getsignal(number)
        # nohup ignores SIGHUP, and a shell without job control SIGQUIT: keep that.
        if number in ALWAYS_HANDLED or handler is not signal.SIG_IGN:
            before[number] = handler
    for number in before:
        # The handler of the loop only wakes it: a tool that blocks the loop would block it, too.
        loop.add_signal_handler(number, int)
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
    """Call ``interrupt`` with the reason when a signal ends the program.

    Before ``ready`` returns True, a signal cancels the task instead. A second signal within a
    second ends the process at once. If other code still holds the process after a grace, ``leave``
    writes the pending output and the process ends. In a conversation ``on_key`` takes Ctrl+C as a
    key, unless the event loop has not handled the one before.
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
