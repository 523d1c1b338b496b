"""The event loop of a process that is forge's own: third-party code can neither stop it nor hold it back at its end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from forge_cli.core.bounds import LETTING_GO, forget_task, watchdog

T = TypeVar("T")


class SteadyLoop(asyncio.SelectorEventLoop):
    """Runs until its work is done, whoever calls ``stop`` or lets an exit out of a task of its own."""

    def __init__(self) -> None:
        with _signals_held():
            super().__init__()

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
            finally:
                if task.done():
                    self._let_go()

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


def _is_third_party(error: BaseException) -> bool:
    """A loop that was stopped, or an exit that no signal asked for; before signals are listened to, nobody can say."""
    if isinstance(error, RuntimeError):
        return str(error).startswith("Event loop stopped")
    dog = watchdog()
    return dog is not None and not dog.signalled
