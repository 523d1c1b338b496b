"""Time limits and threads for third-party code, and the event loop: what is late is cancelled, abandoned and blamed."""

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
"""Seconds for opening something, such as a toolset or a model; also for imports, unless ``import_timeout`` is set."""
CALL_LIMIT = 10.0
"""Seconds for each later call of a toolset or a model, and for closing it."""
MORE_TIME_TO_LOAD = "FORGE_IMPORT_TIMEOUT=SECONDS gives it more"
CANCEL_GRACE = 3.0
"""Seconds that a cancelled call has to end; after that it is abandoned."""
SHUTDOWN_GRACE = 4.0
"""Seconds after which the process ends although third-party code holds it."""

ABANDONED: list[asyncio.Task[Any]] = []
"""Tasks that swallow their cancellation; they are kept, because a task that is thrown away complains."""

T = TypeVar("T")


class OutOfTime(Exception):
    """Third-party code did not end in its time."""

    def __init__(self, what: str, seconds: float, remedy: str = "") -> None:
        more = f"; {remedy}" if remedy else ""
        super().__init__(f"{what} did not end within {counted(seconds, 'second')}{more}")


class OwnExit(Exception):
    """Third-party code raised SystemExit, CancelledError or the like, although forge does not want the work to end."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error_text(error))
        self.with_traceback(error.__traceback__)


class Section(Struct, eq=False):
    """Third-party code at work, or a time by which the process has to end for the reason ``why``."""

    what: str
    seconds: float
    due: float
    exit_code: ExitCode = ExitCode.FAILED
    why: str = ""
    remedy: str = ""
    """The remedy for a person where it is late."""


class ForcedEnd(Struct, frozen=True):
    """The end of a process that third-party code holds."""

    exit_code: ExitCode
    why: str = ""
    """The reason of an interrupt; empty where third-party code is late by itself."""
    late: str | None = None
    """The third-party code that is at work, or is late."""
    fault: str | None = None
    """The sentence that blames it."""


RUNNING: dict[Section, None] = {}
"""Sections that have begun and not ended, in that order; where forge owns the process, a thread watches it."""


def begin(
    what: str,
    seconds: float,
    *,
    grace: float = 0.0,
    exit_code: ExitCode = ExitCode.FAILED,
    why: str = "",
) -> Section:
    """Begin a section; ``grace`` is added where something else is done first when the time is over."""
    section = Section(what, seconds, time.monotonic() + seconds + grace, exit_code, why)
    RUNNING[section] = None
    return section


def end(section: Section) -> None:
    RUNNING.pop(section, None)


def begin_shutdown(why: str, exit_code: ExitCode, grace: float = SHUTDOWN_GRACE) -> None:
    """End the process in a moment, even if code holds it; may be called by a signal handler."""
    begin("", 0.0, grace=grace, exit_code=exit_code, why=why)


def find_forced_end() -> ForcedEnd | None:
    """Why the process has to end now, if it has to."""
    now = time.monotonic()
    sections = list(RUNNING)
    due = min(
        (section for section in sections if section.due <= now),
        key=lambda each: each.due,
        default=None,
    )
    if due is None:
        return None
    if not due.why:
        return ForcedEnd(
            due.exit_code, late=due.what, fault=str(OutOfTime(due.what, due.seconds, due.remedy))
        )
    late = next((section.what for section in reversed(sections) if section.what), None)
    return ForcedEnd(
        due.exit_code, due.why, late, late and f"{late} did not end, and was abandoned"
    )


def call_within(
    seconds: float,
    what: str,
    function: Callable[..., T],
    *args: Any,
    exit_code: ExitCode = ExitCode.FAILED,
    remedy: str = "",
) -> T:
    """Call a function that is not async; one that is late cannot be stopped, and ends a process that forge owns."""
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
    """Await a function in this very task, so that it may open what has to be closed here: OutOfTime when it is late.

    The time limit is not a cancel scope, in which nothing could be opened that stays open. ``of`` names whose function
    it is, where it may have to be blamed without its caller.
    """
    section = begin(f"{what} of {of}" if of else what, seconds, grace=CANCEL_GRACE)
    limit = asyncio.timeout(seconds)
    before = count_cancellations()
    try:
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
    """The cancellations of this very task that are under way."""
    task = asyncio.current_task()
    return task.cancelling() if task else 0


async def check_cancelled(before: int) -> None:
    """End this very task where third-party code has swallowed its cancellation, which were ``before`` it was called."""
    if count_cancellations() > before:
        await anyio.lowlevel.checkpoint_if_cancelled()  # a cancel scope wants an error of its own
        raise asyncio.CancelledError


def is_own_exit(error: BaseException) -> bool:
    """Return True if third-party code ends what is not its own; a cancelled task or Ctrl+C does not count."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or not task.cancelling()
    return not isinstance(error, Exception | KeyboardInterrupt)


def abandon_task(task: asyncio.Task[Any]) -> None:
    """Wait no longer for a task that swallows its cancellation."""
    ABANDONED[:] = [*(each for each in ABANDONED if not each.done()), task]


def is_of_forge(code: object) -> bool:
    """Return True for a function, a class or an object of forge itself."""
    return str(getattr(code, "__module__", "")).startswith("forge_cli.")


def fault_text(error: BaseException) -> str:
    """The fault of third-party code, in one sentence."""
    return str(error) if isinstance(error, OutOfTime | OwnExit) else error_text(error)


async def run_in_thread(function: Callable[..., T], *args: Any, **more: Any) -> T:
    """Call a function in a thread, where ``anyio.from_thread`` works; one that is cancelled is abandoned there.

    Each call has a limiter of its own: it never waits for a thread.
    """

    def call() -> T:
        try:
            return function(*args, **more)
        except StopIteration as error:  # which cannot be raised into a coroutine
            raise RuntimeError(f"StopIteration: {error}").with_traceback(
                error.__traceback__
            ) from error

    return await anyio.to_thread.run_sync(
        call, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
    )


def start_loop(function: Callable[..., Awaitable[T]], *args: object) -> T:
    """Run an async function to its end; what anyio needs for it is loaded only where something of anyio is used.

    At its end asyncio cancels the tasks that are left, and waits for them and for threads, for ever: after a grace
    the loop is stopped.
    """
    results: list[T] = []
    errors: list[BaseException] = []
    stopped = False

    async def work() -> None:
        current_async_library_cvar.set(
            "asyncio"
        )  # callbacks belong to no task, by which anyio could know the loop
        try:
            results.append(await function(*args))
        except BaseException as error:
            errors.append(error)
            raise
        finally:
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
        if not stopped:
            raise
        if errors:
            raise errors[0] from None
    return results[0]
