"""The event loop of a process that is forge's own: third-party code can neither stop it nor hold it back at its end."""

from __future__ import annotations

import asyncio
import os
import selectors
import signal
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import Any, TypeVar

from forge_cli.core.bounds import LETTING_GO, forget_task, watchdog
from forge_cli.core.upkeep import end_forked

T = TypeVar("T")


class SteadyLoop(asyncio.SelectorEventLoop):
    """Runs until its work is done, whoever calls ``stop`` or lets an exit out of a task of its own."""

    def __init__(self) -> None:
        with _signals_held():
            selector = selectors.DefaultSelector()
            super().__init__(selector)
            self._descriptors = {each: _identity(each) for each in _numbers(selector)}

    def close(self) -> None:
        with _signals_held():
            super().close()

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        task: asyncio.Future[T] = asyncio.ensure_future(future, loop=self)  # type: ignore[arg-type]
        while True:
            try:
                return super().run_until_complete(task)
            except (RuntimeError, KeyboardInterrupt, SystemExit) as error:
                if task.done() or not _is_third_party(error):
                    raise
            except OSError:
                self.check_descriptors()
                raise
            finally:
                if task.done():
                    self._let_go()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """The same, but for a signal that was raised in the middle of a task: whoever runs the loop hears of it."""
        if not _is_signal(context.get("exception")):
            super().call_exception_handler(context)

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """The same, from a thread that may have closed what wakes the loop: nobody else would notice."""
        handle = super().call_soon_threadsafe(callback, *args, context=context)
        end_forked()
        self.check_descriptors()
        return handle

    def check_descriptors(self) -> None:
        """Third-party code has closed what the loop waits with, and perhaps opened something else in its place."""
        dog = watchdog()
        if not dog or dog.loop is not self:
            return
        changed = any(_identity(number) != identity for number, identity in self._descriptors.items())
        if changed and watchdog() is dog:  # or else the loop was closed in good order while a thread looked
            dog.give_up()

    def _let_go(self) -> None:
        """Cancel what is left; what does not end is forgotten."""
        left = asyncio.all_tasks(self)
        for task in left:
            task.cancel()
        if left:
            super().run_until_complete(asyncio.wait(left, timeout=LETTING_GO))
        for task in left:
            if not task.done():
                forget_task(task)

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Without waiting for its threads: the process leaves those behind that do not end."""


@contextmanager
def _signals_held() -> Iterator[None]:
    """Signals wait: an exception raised by one would leave half a loop behind, which complains when it is deleted."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _numbers(selector: selectors.DefaultSelector) -> list[int]:
    """What the loop waits with: the selector, and the end of the pipe by which other threads wake it."""
    return [selector.fileno(), *(key.fd for key in selector.get_map().values())]


def _identity(descriptor: int) -> tuple[int, int, int] | None:
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_mode, found.st_dev, found.st_ino


def _is_signal(error: object) -> bool:
    """A signal raises KeyboardInterrupt, or Terminated, which is one; task groups put it into a group."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_signal, error.exceptions))
    return isinstance(error, KeyboardInterrupt)


def _is_third_party(error: BaseException) -> bool:
    """A loop that was stopped, or an exit that no signal asked for; before signals are listened to, nobody can say."""
    if isinstance(error, RuntimeError):
        return str(error).startswith("Event loop stopped")
    dog = watchdog()
    return dog is not None and not dog.signalled
