"""Live lines at the bottom of a terminal, such as the status line."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from math import ceil
from typing import TYPE_CHECKING, Protocol, TextIO

from forge_cli.ui.wrap import cell_width, fit

if TYPE_CHECKING:
    from forge_cli.core.notify import RetryNotice

FIRST_DELAY = 0.1
"""Seconds before the first drawing: shorter work needs no status line."""
TICK = 0.1
"""Seconds between two drawings."""
LOCK_TIMEOUT = 0.5
"""Seconds to wait for another writing thread; a longer wait could delay the end of the process."""

Lines = Callable[[float], Sequence[str]]
"""Returns the current lines, given the seconds since the start; they may have SGR sequences."""


def can_draw(stream: TextIO) -> bool:
    """Return True if the stream is a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


class LiveArea(Protocol):
    """The interface of an area for live lines."""

    lines: Lines

    def hidden(self) -> AbstractAsyncContextManager[None]: ...

    def close(self) -> None: ...


class LiveLines:
    """Lines that a thread redraws below the cursor; every writer to the terminal uses ``writing``.

    The thread ends with ``close``, at the latest with the process.
    """

    def __init__(self, descriptor: int, lines: Lines, *, since: float | None = None) -> None:
        self.lines = lines
        self.since = time.monotonic() if since is None else since
        self._descriptor = descriptor
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._drawn: tuple[str, ...] = ()
        self._column = 0
        self._paused = 0
        self._closed = False
        self._not_before = self.since + FIRST_DELAY
        # A thread, because an import may block the event loop for seconds.
        self._thread = threading.Thread(target=self._tick, name="forge-live-lines", daemon=True)

    def start(self) -> None:
        """Begin to draw."""
        # Only over the default: a program may handle Ctrl+Z itself, or ignore it.
        if (
            signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL
            and threading.current_thread() is threading.main_thread()
        ):
            signal.signal(signal.SIGTSTP, self._stop)
        # The thread inherits the mask: signals have to interrupt the main thread.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self._thread.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def close(self) -> None:
        """Erase the lines for good; safe to call repeatedly and from any thread."""
        with self._held():
            self._closed = True
            self._erase()
        self._ended.set()
        if (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGTSTP) == self._stop
        ):
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)

    def refresh(self) -> None:
        """Redraw the lines, unless another thread is writing."""
        if self._lock.acquire(blocking=False):
            try:
                self._draw()
            finally:
                self._lock.release()

    @contextmanager
    def writing(self, text: str) -> Iterator[None]:
        """Erase the lines while ``text`` is written, and draw them again below it."""
        with self._held():
            self._erase()
            try:
                yield
            finally:
                self._column = column_after(text, self._column)
                if not self._column:
                    self._draw()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Erase the lines while other code, such as a prompt, uses the terminal."""
        with self._held():
            self._paused += 1
            self._erase()
        try:
            yield
        finally:
            with self._held():
                self._paused -= 1
                self._column = 0  # prompts end with a newline

    @asynccontextmanager
    async def hidden(self) -> AsyncIterator[None]:
        """Erase the lines while a question is awaited."""
        with self.paused():
            yield

    @contextmanager
    def _held(self) -> Iterator[None]:
        held = self._lock.acquire(timeout=LOCK_TIMEOUT)
        try:
            yield  # also without the lock: a broken line is better than a hang
        finally:
            if held:
                self._lock.release()

    def _tick(self) -> None:
        pause = self._not_before - time.monotonic()
        while not self._closed:
            self._ended.wait(pause)
            pause = TICK
            try:
                self.refresh()
            except Exception:  # a broken status line must not break the command
                self._closed = True

    def _draw(self) -> None:
        now = time.monotonic()
        if self._closed or self._paused or now < self._not_before:
            return
        try:
            columns, rows = os.get_terminal_size(self._descriptor)
        except OSError:
            return
        columns = columns or 80
        rows = rows or 24
        if self._column and self._column % columns == 0:
            return  # at the right edge, terminals differ in whether the next line has begun
        shown = [fit(line, columns - 1) for line in self.lines(now - self.since)]
        lines = tuple(shown[-max(1, rows - 2) :])
        if lines != self._drawn:
            self._erase()
            if lines:
                self._write(drawing(lines, in_line=self._column > 0))
            self._drawn = lines

    def _erase(self) -> None:
        if self._drawn:
            # With J alone, tmux keeps the erased lines of a full screen in its history.
            self._write("\x1b[K\x1b[J")
            self._drawn = ()

    def _write(self, text: str) -> None:
        with suppress(OSError):
            os.write(self._descriptor, text.encode("utf-8", "backslashreplace"))

    def _stop(self, number: int, frame: object) -> None:
        """Erase the lines before Ctrl+Z stops the process; they are drawn again afterwards."""
        with self.paused():
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTSTP)
            signal.signal(signal.SIGTSTP, self._stop)


def drawing(lines: Sequence[str], *, in_line: bool) -> str:
    """Return a text that draws lines at the cursor, or below its line, and restores the cursor."""
    down = len(lines) - (not in_line)
    room = "\x1bD" * down  # IND: down, or scroll at the bottom
    if down:
        # Move down and up again first: at the bottom this scrolls the text with the cursor.
        room += f"\x1b[{down}A"
    shown = "\r\n".join(["", *lines] if in_line else lines)
    return f"{room}\x1b7{shown}\x1b8"  # save and restore the cursor


def column_after(text: str, column: int) -> int:
    """Return the cursor column after a text, counted from the beginning of the unwrapped line."""
    _, newline, last = text.rpartition("\n")
    _, back, last = last.rpartition("\r")
    if newline or back:
        return cell_width(last)
    return column + cell_width(last)


SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
"""Frames of the spinner."""
if os.environ.get("TERM") == "linux":  # the fonts of the Linux console have no braille
    SPINNER = "|/-\\"
TURNS_PER_SECOND = 10


def dim(text: str) -> str:
    """Return a text in dim style, unless ``NO_COLOR`` is set."""
    return _styled(text, 2)


def cyan(text: str) -> str:
    """Return a text in cyan, unless ``NO_COLOR`` is set."""
    return _styled(text, 36)


def _styled(text: str, code: int) -> str:
    if os.environ.get("NO_COLOR") or not text:
        return text
    return f"\x1b[{code}m{text}\x1b[0m"


def spin(seconds: float) -> str:
    """Return the frame of the spinner after so many seconds."""
    return SPINNER[int(seconds * TURNS_PER_SECOND) % len(SPINNER)]


def duration(seconds: float) -> str:
    """Format a duration as ``0.4 s``, ``14 s``, ``2 min 5 s`` or ``9 h 43 min``."""
    if seconds < 9.95:  # above it, .1f would show 10.0 s
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    if minutes:
        return f"{minutes} min {rest} s"
    return f"{rest} s"


def compact(number: int) -> str:
    """Format a number as ``112``, ``2.5k`` or ``1.2M``."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= size * 0.9995:  # 999,500 is 1.0M, not 1000k
            shown = number / size
            if shown >= 99.95:
                return f"{shown:.0f}{unit}"
            return f"{shown:.1f}{unit}"
    return str(number)


class Status:
    """The content of the status line; its owner sets the fields."""

    def __init__(self, activity: str = "starting") -> None:
        self.model = ""
        self.activity = activity
        self.tokens_in = self.tokens_out = 0
        self._retry: tuple[RetryNotice, float] | None = None

    def wait(self, retry: RetryNotice | None) -> None:
        """Show that a request is retried; None ends that."""
        if retry:
            self._retry = (retry, time.monotonic() + retry.wait)
        else:
            self._retry = None

    @property
    def doing(self) -> str:
        """The activity, or the time until the next try."""
        if self._retry is None:
            return self.activity
        retry, until = self._retry
        left = ceil(until - time.monotonic())
        attempt = f"try {retry.attempt} of {retry.attempts}"
        if left > 0:
            return f"waiting {left} s, {attempt}"
        return attempt

    @property
    def problem(self) -> list[str]:
        """The reason of a retry as a row, without the name of the model, which the line has."""
        if self._retry is None:
            return []
        return [dim(f"  {self._retry[0].problem.removeprefix(f'{self.model}: ')}")]

    def line(self, seconds: float, activity: str | None = None, *, spinning: bool = True) -> str:
        """Return the status line."""
        if seconds < 60:
            took = f"{int(seconds)} s"
        else:
            took = duration(seconds)
        parts = [self.model, activity or self.doing, took]
        if self.tokens_in:
            parts.append(f"{compact(self.tokens_in)} in, {compact(self.tokens_out)} out")
        line = dim(" · ".join(filter(None, parts)))
        if spinning:
            return f"{cyan(spin(seconds))} {line}"
        return line

    def lines(self, seconds: float) -> list[str]:
        """Return the status line as the only live line."""
        return [self.line(seconds)]
