"""Time limits for third-party code: what does not end in its time is stopped where it stands, and named."""

from __future__ import annotations

import _thread
import math
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

import anyio

from forge_cli.core.text import counted
from forge_cli.core.upkeep import mend_process
from forge_cli.core.values import dataclass
from forge_cli.core.wire import error_text

if TYPE_CHECKING:
    import asyncio

OPENING = 30.0
"""Seconds for whatever is opened: a module to be imported, a toolset, a model."""
LATER = 10.0
"""Seconds for each later call of a toolset or a model, and for closing it."""
LETTING_GO = 3.0
"""Seconds that a cancelled call has to come to its end; after that it is left behind."""
GRACE = 5.0
"""Seconds after which the process ends although third-party code holds it."""
_PUTTING_IN_ORDER = 3.0
_LOOK = 0.25
_AFTER_HURRY = 1.0
"""Seconds that third-party code has which begins when everything has to end."""

LOOP_CLOSED, EXITED = "descriptors closed", "process ended"
"""Why a session ends whose event loop third-party code has made useless, or whose process it wanted to end."""
DAMAGES = {
    LOOP_CLOSED: "closed descriptors that forge works with",
    EXITED: "called os._exit to end the process",
}

FORGOTTEN: list[asyncio.Task[Any]] = []
"""Tasks that do not end; with one of them, a process cannot be left in the usual way."""

T = TypeVar("T")


class OutOfTime(Exception):
    """Third-party code did not end in its time."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what} did not end within {counted(seconds, 'second')}")


class Overdue(BaseException):
    """Raised inside third-party code that holds the event loop; who called that code within a limit catches it."""

    def __init__(self, section: Section) -> None:
        super().__init__("its time is over")
        self.section = section


@dataclass(eq=False)
class Section:
    """A stretch of third-party code at work."""

    what: str
    due: float


def begin(what: str, seconds: float | None) -> Section:
    section = Section(what, time.monotonic() + (math.inf if seconds is None else seconds))
    if _watchdog:
        _watchdog.add(section)
    return section


def end(section: Section) -> None:
    section.due = math.inf
    if _watchdog:
        _watchdog.remove(section)


def is_of_forge(code: object) -> bool:
    """Is a function, a class or an object forge's own, and no third-party code?"""
    return str(getattr(code, "__module__", "")).startswith("forge_cli.")


def call_within(seconds: float, what: str, function: Callable[..., T], *args: Any) -> T:
    """Call a function; where a watchdog is there, one that blocks is stopped in time: OutOfTime."""
    section = begin(what, seconds)
    try:
        return function(*args)
    except Overdue as overdue:
        if overdue.section is not section:
            raise
        raise OutOfTime(what, seconds) from None
    finally:
        end(section)
        mend_process()


async def wait_within(seconds: float, what: str, function: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Await a function in this very task, so that it may open what has to be closed here: OutOfTime when it is late.

    The time limit is not a cancel scope, in which nothing could be opened that stays open.
    """
    import asyncio

    section = begin(what, seconds)
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await function(*args)
    except Overdue as overdue:
        if overdue.section is not section:
            raise
        raise OutOfTime(what, seconds) from None
    except TimeoutError:
        if not limit.expired():
            raise
        raise OutOfTime(what, seconds) from None
    finally:
        end(section)
        mend_process()


async def run_section(section: Section, function: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Await a function that was begun as a section; whoever waits for it ends the section."""
    try:
        return await function(*args)
    finally:
        mend_process()


def is_cancelled() -> bool:
    """Has somebody ended a scope around this task, so that a CancelledError is not the tool's own?"""
    return anyio.current_effective_deadline() == -math.inf


def is_fault(error: BaseException) -> bool:
    """Did third-party code raise this by itself, and not somebody who wants the work to end?"""
    import asyncio

    match error:
        case Overdue():
            return False
        case asyncio.CancelledError():
            return not is_cancelled()
        case KeyboardInterrupt():
            return _watchdog is not None and not _watchdog.signalled
        case _:
            return True


def fault_text(error: BaseException) -> str:
    """What third-party code did wrong, in one sentence."""
    return str(error) if isinstance(error, OutOfTime) else error_text(error)


def shrug_off_cancel() -> None:
    """Third-party code has cancelled this task, which is not its own."""
    import asyncio

    if task := asyncio.current_task():
        task.uncancel()


def forget_task(task: asyncio.Task[Any]) -> None:
    """Let the event loop end without a task that does not.

    It is kept: thrown away, its coroutine would be closed, and might not let even that happen.
    """
    import asyncio

    FORGOTTEN.append(task)
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    asyncio.tasks._unregister_task(task)


_SECTIONS = {call_within.__code__, wait_within.__code__, run_section.__code__}
_watchdog: Watchdog | None = None
Leave = Callable[[str, str | None], int]
"""Ends the session: gets why, and what would not end or did the damage; returns the exit code."""


def blame(why: str, holding: str | None) -> str | None:
    """What third-party code did, in one sentence, where it is known."""
    if holding is None:
        return None
    return f"{holding} {DAMAGES.get(why, 'would not end, and was left behind')}"


class Watchdog:
    """Sees to it that third-party code cannot hold the process; for the main thread of a process that is forge's own.

    Code that holds the event loop past its limit, past the deadline or after a signal gets an exception, by an alarm
    of the operating system that even a regular expression heeds. Code that does not let go of the process ``GRACE``
    seconds later is left: ``leave`` puts the session in order from another thread, and the process ends.
    """

    def __init__(self, leave: Leave) -> None:
        self._leave = leave
        self._sections: set[Section] = set()
        self._deadline = math.inf
        self._last = math.inf
        self._why = ""
        self._asked = False
        """Whether the event loop has been asked for a sign of life that it has not given yet."""
        self._alarm = math.inf
        """When the alarm rings. It may ring for a section that has ended, which costs less than setting it anew."""
        self._standing_by = False
        self._left = False
        self.exit_code = 1
        """What the process ends with if putting the session in order is late, too."""
        self.signalled = False
        """Whether a signal came that asks the process to end, so that an exception which says so is not a tool's."""

    def __enter__(self) -> Self:
        global _watchdog
        import asyncio

        self.loop = asyncio.get_running_loop()
        self._outer = _watchdog
        self._handler = signal.signal(signal.SIGALRM, self._ring)
        self._timer = signal.setitimer(signal.ITIMER_REAL, 0)
        _watchdog = self
        _thread.start_new_thread(self._look_after, ())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        global _watchdog
        _watchdog, self._left = self._outer, True
        self._deadline = self._last = math.inf
        self._sections.clear()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._handler)
        signal.setitimer(signal.ITIMER_REAL, *self._timer)

    @property
    def hurried(self) -> bool:
        """Has everything to end, whether or not the event loop has heard of it yet?"""
        return self._last != math.inf

    def add(self, section: Section) -> None:
        if self.hurried:  # what begins after everything had to end has no time of its own
            section.due = min(section.due, time.monotonic() + _AFTER_HURRY)
        self._sections.add(section)
        if section.due < self._alarm or not signal.getitimer(signal.ITIMER_REAL)[0]:
            self._set_alarm()

    def remove(self, section: Section) -> None:
        self._sections.discard(section)

    def set_deadline(self, seconds: float, why: str) -> None:
        """At the deadline everything must end."""
        self._deadline, self._why = time.monotonic() + seconds, why
        self._set_alarm()

    def hurry(self, why: str, grace: float = GRACE, *, signalled: bool = False) -> None:
        """Everything must end now, and the process with it; may be called by a signal handler."""
        now, self.signalled = time.monotonic(), self.signalled or signalled
        self._why, self._deadline, self._last = why, math.inf, now + grace
        for section in list(self._sections):
            section.due = min(section.due, now)
        self._stand_by()
        self._set_alarm()

    def calm(self) -> None:
        """What had to end has ended."""
        self._deadline = self._last = math.inf
        self._set_alarm()

    def _set_alarm(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        now, first = time.monotonic(), self._first_due()
        seconds = 0.0 if first == math.inf else max(_LOOK, first - now)
        self._alarm = now + seconds if seconds else math.inf
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def _first_due(self) -> float:
        return min([self._deadline, *(section.due for section in list(self._sections))])

    def _ring(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._first_due() > now:
            self._set_alarm()
            return
        if self._deadline <= now:
            self.hurry(self._why)
        self._stand_by()
        held, self._asked = self._asked, True
        with suppress(RuntimeError):  # a loop that is closed has nothing to say
            self.loop.call_soon_threadsafe(self._answer)
        self._alarm = now + _LOOK
        signal.setitimer(signal.ITIMER_REAL, _LOOK)
        section = _running(frame)
        if held and section and section.due <= now:
            raise Overdue(section)

    def _answer(self) -> None:
        self._asked = False
        self._set_alarm()

    def _stand_by(self) -> None:
        """A plain thread of the interpreter: a signal handler must not wait for a lock of ``threading``."""
        if not self._standing_by:
            self._standing_by = True
            _thread.start_new_thread(self._watch, ())

    def _look_after(self) -> None:
        """Stand by as well where no alarm rings: third-party code may have the process ignore signals."""
        while not self._left:
            time.sleep(GRACE)
            due = min((section.due for section in list(self._sections)), default=math.inf)
            if due + GRACE <= time.monotonic():
                self._stand_by()

    def _watch(self) -> None:
        while True:
            time.sleep(_LOOK)
            now = time.monotonic()
            sections = sorted(self._sections, key=lambda section: section.due)
            holding = sections[0].what if sections and sections[0].due <= now else None
            if now >= self._last:
                self._end(self._why, holding)
            if holding and sections[0].due + GRACE <= now:
                self._end("", holding)
            if not holding and self._last == math.inf:
                self._standing_by = False
                return

    def give_up(self, why: str = LOOP_CLOSED) -> NoReturn:
        """The session cannot be continued, because of what third-party code, perhaps still at work, has done."""
        mend_process()
        names = {section.what for section in list(self._sections)}
        self._end(why, names.pop() if len(names) == 1 else "a tool or a plugin")

    def _end(self, why: str, holding: str | None) -> NoReturn:
        _thread.start_new_thread(self._exit_soon, ())
        with suppress(BaseException):  # whatever goes wrong now, the process ends
            self.exit_code = self._leave(why, holding)
        os._exit(self.exit_code)

    def _exit_soon(self) -> None:
        """Putting the session in order may wait for what the main thread holds."""
        time.sleep(_PUTTING_IN_ORDER)
        os._exit(self.exit_code)


def exit_at_last(code: int) -> None:
    """End the process after a grace, should third-party code hold it that asked to be called at its end."""

    def wait() -> None:
        time.sleep(GRACE)
        os._exit(code)

    _thread.start_new_thread(wait, ())


def watchdog() -> Watchdog | None:
    """The one of this process, where forge owns the process."""
    return _watchdog


def _running(frame: FrameType | None) -> Section | None:
    """The innermost section that is executed right now."""
    while frame:
        if frame.f_code in _SECTIONS:
            section: Section = frame.f_locals["section"]
            return section
        frame = frame.f_back
    return None
