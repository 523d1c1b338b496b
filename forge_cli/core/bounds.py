"""Time limits and threads for third-party code, and the start of the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
from msgspec import Struct
from sniffio import current_async_library_cvar

from forge_cli.core.errors import ExitCode
from forge_cli.core.text import counted
from forge_cli.core.wire import error_text

LOAD_LIMIT = 30.0
"""Seconds to open a toolset or a model, and to import code unless ``import_timeout`` is set."""
CALL_LIMIT = 10.0
"""Seconds for each later call of a toolset or a model, and for closing it."""
MORE_TIME_TO_LOAD = "to allow more time, set FORGE_IMPORT_TIMEOUT=SECONDS"
CANCEL_GRACE = 3.0
"""Seconds that a cancelled call has to end before it is abandoned."""
SHUTDOWN_GRACE = 4.0
"""Seconds after which the process exits even if third-party code is still running."""

ABANDONED: list[asyncio.Task[Any]] = []
"""Tasks that ignore their cancellation.

They are kept because asyncio reports a pending task that is garbage collected.
"""

T = TypeVar("T")


class OutOfTime(Exception):
    """Third-party code exceeded its time limit."""

    def __init__(self, what: str, seconds: float, remedy: str = "") -> None:
        more = f"; {remedy}" if remedy else ""
        super().__init__(f"{what} did not end within {counted(seconds, 'second')}{more}")


class OwnExit(Exception):
    """Third-party code raised SystemExit, CancelledError or similar, although the work goes on."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error_text(error))
        self.with_traceback(error.__traceback__)


class Section(Struct, eq=False):
    """Running third-party code with a deadline, or a deadline for the process itself (``why``)."""

    what: str
    seconds: float
    due: float
    exit_code: ExitCode = ExitCode.FAILED
    why: str = ""
    remedy: str = ""
    """Advice for the user if the code is late."""


class ForcedEnd(Struct, frozen=True):
    """A forced exit, because third-party code does not return."""

    exit_code: ExitCode
    why: str = ""
    """The reason of an interrupt; empty if third-party code exceeded its own limit."""
    late: str | None = None
    """The third-party code that is running or late."""
    fault: str | None = None
    """The message that names the code."""


RUNNING: dict[Section, None] = {}
"""Sections that have begun and not ended, in that order.

If forge owns the process, a watchdog thread reads them.
"""


def begin(
    what: str,
    seconds: float,
    *,
    grace: float = 0.0,
    exit_code: ExitCode = ExitCode.FAILED,
    why: str = "",
) -> Section:
    """Begin a section; ``grace`` extends the deadline while other cleanup runs."""
    section = Section(what, seconds, time.monotonic() + seconds + grace, exit_code, why)
    RUNNING[section] = None
    return section


def end(section: Section) -> None:
    """Mark a section as ended."""
    RUNNING.pop(section, None)


def begin_shutdown(why: str, exit_code: ExitCode, grace: float = SHUTDOWN_GRACE) -> None:
    """End the process soon, even if code does not return; may be called by a signal handler."""
    begin("", 0.0, grace=grace, exit_code=exit_code, why=why)


def find_forced_end() -> ForcedEnd | None:
    """Return why the process has to exit now; None if no section is overdue."""
    now = time.monotonic()
    # A copy, because other threads begin and end sections meanwhile.
    sections = list(RUNNING)
    overdue = [section for section in sections if section.due <= now]
    if not overdue:
        return None
    due = min(overdue, key=lambda section: section.due)
    if not due.why:
        fault = str(OutOfTime(due.what, due.seconds, due.remedy))
        return ForcedEnd(due.exit_code, late=due.what, fault=fault)
    # The innermost section is the code that keeps an interrupt from taking effect.
    late = next((section.what for section in reversed(sections) if section.what), None)
    if late is None:
        return ForcedEnd(due.exit_code, due.why)
    return ForcedEnd(due.exit_code, due.why, late, f"{late} did not end, and was abandoned")


def call_within(
    seconds: float,
    what: str,
    function: Callable[..., T],
    *args: Any,
    exit_code: ExitCode = ExitCode.FAILED,
    remedy: str = "",
) -> T:
    """Call a synchronous function with a time limit.

    A late call cannot be stopped; the watchdog ends the process if forge owns it.
    """
    section = begin(what, seconds, exit_code=exit_code)
    section.remedy = remedy
    try:
        return function(*args)
    except BaseException as error:
        if is_own_exit(error):
            raise OwnExit(error) from error
        raise
    finally:
        end(section)


async def wait_within(
    seconds: float, what: str, function: Callable[..., Awaitable[T]], *args: Any, of: str = ""
) -> T:
    """Await a function in the current task; raise OutOfTime if it is late.

    The time limit is not a cancel scope: anything opened inside a scope would have to be closed in
    it, but a toolset stays open. ``of`` names the owner of the function if an error has to name it.
    """
    # The watchdog waits longer than the timeout, so that a cancellation can end the call first.
    section = begin(f"{what} of {of}" if of else what, seconds, grace=CANCEL_GRACE)
    limit = asyncio.timeout(seconds)
    before = count_cancellations()
    try:  # in the same task, because some resources must be closed in the task that opened them
        async with limit:
            found = await function(*args)
    except TimeoutError:
        if not limit.expired():
            raise
        raise OutOfTime(what, seconds) from None
    except BaseException as error:
        if is_own_exit(error):
            raise OwnExit(error) from error
        raise
    finally:
        end(section)
    await check_cancelled(before)
    return found


def count_cancellations() -> int:
    """Return how many cancellations of the current task are pending."""
    task = asyncio.current_task()
    return task.cancelling() if task else 0


async def check_cancelled(before: int) -> None:
    """Raise the cancellation of the current task that third-party code has swallowed.

    ``before`` is the number of pending cancellations before that code was called.
    """
    if count_cancellations() > before:
        # Inside a cancel scope, anyio expects its own exception.
        await anyio.lowlevel.checkpoint_if_cancelled()
        raise asyncio.CancelledError


def is_own_exit(error: BaseException) -> bool:
    """Return True if third-party code raised an exit of its own, not a cancellation or Ctrl+C."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or not task.cancelling()
    return not isinstance(error, Exception | KeyboardInterrupt)


def abandon_task(task: asyncio.Task[Any]) -> None:
    """Stop waiting for a task that ignores its cancellation."""
    ABANDONED[:] = [*(each for each in ABANDONED if not each.done()), task]


def is_of_forge(code: object) -> bool:
    """Return True if a function, class or object is defined in forge."""
    return str(getattr(code, "__module__", "")).startswith("forge_cli.")


def fault_text(error: BaseException) -> str:
    """Return the error of third-party code as one sentence."""
    return str(error) if isinstance(error, OutOfTime | OwnExit) else error_text(error)


async def run_in_thread(function: Callable[..., T], *args: Any, **more: Any) -> T:
    """Call a function in a thread in which ``anyio.from_thread`` works.

    A cancelled call is abandoned. Each call has its own limiter, so it never waits for a free
    thread.
    """

    def call() -> T:
        try:
            return function(*args, **more)
        except StopIteration as error:
            # A coroutine cannot raise StopIteration.
            problem = RuntimeError(f"StopIteration: {error}")
            raise problem.with_traceback(error.__traceback__) from error

    return await anyio.to_thread.run_sync(
        call, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
    )


def start_loop(function: Callable[..., Awaitable[T]], *args: object) -> T:
    """Run an async function to its end.

    At the end asyncio cancels the remaining tasks and waits for them and for threads without a
    limit, so the loop is stopped after a grace period.
    """
    results: list[T] = []
    errors: list[BaseException] = []
    stopped = False

    async def work() -> None:
        # Callbacks run outside of tasks, where anyio cannot detect the loop by itself. Only
        # anyio.run sets this as well, and it imports the backend: a tenth of `forge worker check`.
        current_async_library_cvar.set("asyncio")
        try:
            results.append(await function(*args))
        except BaseException as error:
            errors.append(error)
            raise
        finally:
            # asyncio.run cancels these tasks next and waits for them; ``stop`` bounds that wait.
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                abandon_task(task)
            asyncio.get_running_loop().call_later(CANCEL_GRACE, stop, asyncio.get_running_loop())

    def stop(loop: asyncio.AbstractEventLoop) -> None:
        nonlocal stopped
        stopped = True
        loop.stop()

    try:
        asyncio.run(work())
    except RuntimeError:
        # asyncio.run raises this error as well if ``stop`` ended the loop before all tasks ended.
        if not stopped:
            raise
        if errors:
            raise errors[0] from None
    return results[0]
