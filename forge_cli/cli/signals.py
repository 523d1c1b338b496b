"""What the signals that end a program do to the work of a command."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from forge_cli.cli.streams import erase_live_lines
from forge_cli.cli.watchdog import Leave, Watchdog, say_fault
from forge_cli.core.bounds import RUNNING, SHUTDOWN_GRACE, ForcedEnd, begin_shutdown, end
from forge_cli.core.ended import Interrupted
from forge_cli.core.errors import Terminated
from forge_cli.core.interrupt import HUNG_UP, QUIT, TERMINATED
from forge_cli.core.loop import start_loop
from forge_cli.ui.terminal.taken import give_terminal_back

T = TypeVar("T")

STOPS: dict[int, str] = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: TERMINATED,
    signal.SIGHUP: HUNG_UP,
    signal.SIGQUIT: QUIT,
}
"""The signals that end a program, each with the reason that the session keeps."""
ALWAYS = frozenset({signal.SIGINT, signal.SIGTERM})


def in_loop(function: Callable[..., Awaitable[T]], *args: object) -> T:
    """Run an async function to its end."""
    return start_loop(function, *args)


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
    loop, task, before = asyncio.get_running_loop(), asyncio.current_task(), set(RUNNING)
    last, unheard, cancelled_by = float("-inf"), False, None

    def leave_in_order(end: ForcedEnd) -> int:
        give_terminal_back()
        return leave(end)

    dog = Watchdog(leave_in_order)

    def hear_key() -> None:
        nonlocal unheard
        unheard = False
        if on_key:
            on_key()

    def stop(number: int) -> None:
        nonlocal cancelled_by
        if ready():
            interrupt(STOPS[number])
        elif task and cancelled_by is None:
            cancelled_by = number
            task.cancel()

    def handle(number: int, frame: object) -> None:
        """Called between two instructions of whatever runs, also where that holds the event loop."""
        nonlocal last, unheard
        if number == signal.SIGINT and on_key and ready() and not unheard:
            unheard = True
            loop.call_soon_threadsafe(hear_key)
            return
        previous, last = last, time.monotonic()
        if last - previous < 1:
            erase_live_lines()
            give_terminal_back()
            os._exit(128 + number)
        begin_shutdown(STOPS[number], Interrupted(STOPS[number]).exit_code, 0.0 if dog.is_starved else SHUTDOWN_GRACE)
        if dog.is_starved:
            dog.look()
        loop.call_soon_threadsafe(stop, number)

    # whoever starts a program with nohup has SIGHUP ignored, a shell without jobs SIGQUIT: so it stays
    heard = [number for number in STOPS if number in ALWAYS or signal.getsignal(number) is not signal.SIG_IGN]
    handlers = {number: signal.getsignal(number) for number in heard}
    for number in heard:
        loop.add_signal_handler(number, int)  # so that a signal wakes the loop; the handler itself is another
        signal.signal(number, handle)
    try:
        with dog:
            yield
    except asyncio.CancelledError:
        if cancelled_by is None:
            raise
        raise Terminated(128 + cancelled_by) from None
    finally:
        for number, handler in handlers.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
        for section in set(RUNNING) - before:
            end(section)
