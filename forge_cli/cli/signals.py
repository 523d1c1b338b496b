"""Into the event loop of forge's own process and out of it, and what signals do to it."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import asyncio
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from forge_cli.cli.steady import SteadyLoop
from forge_cli.cli.streams import erase_live_lines
from forge_cli.core.bounds import DAMAGES, Leave, Watchdog, blame, is_of_forge
from forge_cli.core.ended import Interrupted
from forge_cli.core.errors import ExitCode, Terminated
from forge_cli.core.exits import exits_guarded
from forge_cli.core.interrupt import HUNG_UP, QUIT, TERMINATED
from forge_cli.core.loop import start_loop
from forge_cli.core.upkeep import mending, standard_streams_kept
from forge_cli.sandbox.processes.tree import kill_children
from forge_cli.ui.terminal.live import give_terminal_back

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
    """Run an async function to its end, in a process that is forge's own."""
    return start_loop(function, *args, factory=SteadyLoop)


@contextmanager
def interruptible(
    interrupt: Callable[[str], object],
    ready: Callable[[], bool] = lambda: True,
    leave: Leave | None = None,
    *,
    on_key: Callable[[], object] | None = None,
) -> Iterator[Watchdog]:
    """Signals that end a program call ``interrupt`` with the reason; a second within a second leaves at once.

    Until it is ``ready`` there is nothing to stop in good order, and the first one leaves.
    Real handlers, not those of the event loop: a tool that blocks the loop must not block the way out as well.
    What still holds the process after a grace is left behind by ``leave``. In a conversation Ctrl+C is a key, which
    ``on_key`` takes, unless the loop has not even heard the one before it.
    """
    loop, last, unheard = asyncio.get_running_loop(), float("-inf"), False

    def hear() -> None:
        nonlocal unheard
        unheard = False
        if on_key:
            on_key()

    def handle(number: int, frame: object) -> None:
        nonlocal last, unheard
        if number == signal.SIGINT and on_key and ready() and not unheard:
            unheard = True
            loop.call_soon_threadsafe(hear)
            return
        before, last = last, time.monotonic()
        if last - before < 1:
            erase_live_lines()
            give_terminal_back()
            os._exit(128 + number)
        dog.hurry(STOPS[number], signalled=True)
        if not ready():
            raise Terminated(128 + number)
        loop.call_soon_threadsafe(interrupt, STOPS[number])

    def leave_in_order(why: str, holding: str | None) -> int:
        give_terminal_back()
        return (leave or _leave)(why, holding)

    # whoever starts a program with nohup has SIGHUP ignored, a shell without jobs SIGQUIT: so it stays
    heard = [number for number in STOPS if number in ALWAYS or signal.getsignal(number) is not signal.SIG_IGN]
    with Watchdog(leave_in_order) as dog:
        handlers = {number: signal.signal(number, handle) for number in heard}
        try:
            with (
                exits_guarded(),
                standard_streams_kept(),
                _wakeup_socket(loop) as wakeup,
                mending(_keep_signals(wakeup)),
            ):
                yield dog
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)


def _keep_signals(wakeup: int) -> Callable[[], None]:
    """What puts signals back as they are now, should third-party code change how they are handled.

    It is called after every tool and plugin, so it looks at handlers as they are: ``signal`` makes enums of them first.
    No thread but this one can change them.
    """
    thread, mask = threading.get_ident(), _signal.pthread_sigmask(signal.SIG_BLOCK, ())
    numbers = [int(number) for number in (*STOPS, signal.SIGALRM, signal.SIGCHLD)]
    handlers = list(map(_signal.getsignal, numbers))

    def put_back() -> None:
        if threading.get_ident() != thread:
            return
        if (found := list(map(_signal.getsignal, numbers))) != handlers:
            for number, handler, other in zip(numbers, handlers, found, strict=True):
                if other != handler and not is_of_forge(other):  # a prompt has some for the time being
                    _signal.signal(number, handler)
        if _signal.pthread_sigmask(signal.SIG_BLOCK, ()) != mask:
            _signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        with suppress(OSError, ValueError):  # the socket itself may be closed
            signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)

    return put_back


def _leave(why: str, holding: str | None) -> int:
    """End what has no session to put in order."""
    sys.stderr.write(f"forge: {blame(why, holding or 'the work')}\n")
    kill_children()
    return forced_exit_code(why)


def forced_exit_code(why: str) -> ExitCode:
    """How a process ends that third-party code would not let end, or has damaged."""
    return Interrupted(why).exit_code if why and why not in DAMAGES else ExitCode.FAILED


@contextmanager
def _wakeup_socket(loop: asyncio.AbstractEventLoop) -> Iterator[int]:
    """Let signals wake the loop: one that comes just before it goes to sleep would wait for the next event there."""
    ours, pythons = socket.socketpair()
    with ours, pythons:
        ours.setblocking(False)
        pythons.setblocking(False)
        loop.add_reader(ours, ours.recv, 4096)
        before = signal.set_wakeup_fd(pythons.fileno(), warn_on_full_buffer=False)
        try:
            yield pythons.fileno()
        finally:
            signal.set_wakeup_fd(before)
            loop.remove_reader(ours)
