"""The live lines below the last line of a terminal, drawn and erased by one owner, and the status line among them."""

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

FIRST = 0.1
"""Seconds until something is drawn: work that is done sooner needs no status line."""
TICK = 0.1
PATIENCE = 0.5
"""Seconds to wait for another thread that writes; a longer wait may hold up the end of the process."""

Lines = Callable[[float], Sequence[str]]
"""The lines as they are now, given the seconds since the start; each may begin with SGR sequences of our own."""


def can_draw(stream: TextIO) -> bool:
    """Is it a terminal on which the cursor can be moved?"""
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


class LiveArea(Protocol):
    """The lines below the text of a terminal, as those see it who have something to show there."""

    lines: Lines

    def hidden(self) -> AbstractAsyncContextManager[None]: ...

    def close(self) -> None: ...


class LiveLines:
    """Draws lines below the cursor, which stays where text continues; every writer to the terminal passes ``writing``.

    A thread redraws them, since an import may block everything else for seconds. It ends with ``close``, and with the
    process at the latest.
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
        self._not_before = self.since + FIRST
        self._thread = threading.Thread(target=self._tick, name="forge-live-lines", daemon=True)

    def start(self) -> None:
        if (
            signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL
            and threading.current_thread() is threading.main_thread()
        ):
            signal.signal(signal.SIGTSTP, self._stop)
        before = signal.pthread_sigmask(
            signal.SIG_BLOCK, signal.valid_signals()
        )  # they are for the main thread
        self._thread.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def close(self) -> None:
        """Erase them for good; may be called from anywhere, more than once."""
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
        """Draw them as they are now, unless somebody is writing: the next tick comes soon."""
        if self._lock.acquire(blocking=False):
            try:
                self._draw()
            finally:
                self._lock.release()

    @contextmanager
    def writing(self, text: str) -> Iterator[None]:
        """Somebody writes this text here."""
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
        """Somebody else owns the terminal, a prompt for example; afterwards the cursor stands in a new line."""
        with self._held():
            self._paused += 1
            self._erase()
        try:
            yield
        finally:
            with self._held():
                self._paused -= 1
                self._column = 0

    @asynccontextmanager
    async def hidden(self) -> AsyncIterator[None]:
        """The same, for a question that is awaited."""
        with self.paused():
            yield

    @contextmanager
    def _held(self) -> Iterator[None]:
        held = self._lock.acquire(timeout=PATIENCE)
        try:
            yield
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
            except Exception:  # a status line is worth no crash, least of all in a thread
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
        if (
            self._column and self._column % columns == 0
        ):  # the terminal may or may not have begun the next line
            return
        lines = tuple(fit(line, columns - 1) for line in self.lines(now - self.since))[
            -max(1, rows - 2) :
        ]
        if lines != self._drawn:
            self._erase()
            if lines:
                self._write(drawing(lines, in_line=self._column > 0))
            self._drawn = lines

    def _erase(self) -> None:
        if self._drawn:
            self._write(
                "\x1b[K\x1b[J"
            )  # tmux keeps what J alone erases on a whole screen in its history
            self._drawn = ()

    def _write(self, text: str) -> None:
        with suppress(OSError):
            os.write(self._descriptor, text.encode("utf-8", "backslashreplace"))

    def _stop(self, number: int, frame: object) -> None:
        """Ctrl+Z: leave a clean terminal to the shell; what was erased is drawn again when we continue."""
        with self.paused():
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTSTP)
            signal.signal(signal.SIGTSTP, self._stop)


def drawing(lines: Sequence[str], *, in_line: bool) -> str:
    """A text that draws lines from the cursor on, or under its line, and brings the cursor back.

    First the room is made, by moving down and up again: at the bottom that scrolls, and the cursor with the text.
    """
    down = len(lines) - (not in_line)
    room = "\x1bD" * down + (f"\x1b[{down}A" if down else "")
    return (
        f"{room}\x1b7{chr(13) + chr(10) if in_line else ''}{(chr(13) + chr(10)).join(lines)}\x1b8"
    )


def column_after(text: str, column: int) -> int:
    """The column of the cursor after a text, in cells from the beginning of the line, however often that is wrapped."""
    _, newline, last = text.rpartition("\n")
    _, back, last = last.rpartition("\r")
    return cell_width(last) + (0 if newline or back else column)


SPINNER = "|/-\\" if os.environ.get("TERM") == "linux" else "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
"""The fonts of the Linux console have no braille."""
TURNS_A_SECOND = 10


def dim(text: str) -> str:
    return _styled(text, 2)


def cyan(text: str) -> str:
    return _styled(text, 36)


def _styled(text: str, code: int) -> str:
    return text if os.environ.get("NO_COLOR") or not text else f"\x1b[{code}m{text}\x1b[0m"


def spin(seconds: float) -> str:
    return SPINNER[int(seconds * TURNS_A_SECOND) % len(SPINNER)]


def duration(seconds: float) -> str:
    """``0.4 s``, ``14 s``, ``2 min 5 s``, ``9 h 43 min``."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def compact(number: int) -> str:
    """``112``, ``2.5k``, ``1.2M``."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= size * 0.9995:
            shown = number / size
            return f"{shown:.0f}{unit}" if shown >= 99.95 else f"{shown:.1f}{unit}"
    return str(number)


class Status:
    """The content of the status line; those who know more set its fields."""

    def __init__(self, activity: str = "starting") -> None:
        self.model = ""
        self.activity = activity
        self.tokens_in = self.tokens_out = 0
        self._retry: tuple[RetryNotice, float] | None = None

    def wait(self, retry: RetryNotice | None) -> None:
        """Something is tried again after a while; None where that is over."""
        self._retry = (retry, time.monotonic() + retry.wait) if retry else None

    @property
    def doing(self) -> str:
        """The activity; before another try, how long it is until then."""
        if self._retry is None:
            return self.activity
        retry, until = self._retry
        left = ceil(until - time.monotonic())  # a short pause is told like a long one
        return f"{f'waiting {left} s, ' * (left > 0)}try {retry.attempt} of {retry.attempts}"

    @property
    def problem(self) -> list[str]:
        """Why something is tried again, on a row of its own; the model is named beside it already."""
        return (
            [dim(f"  {self._retry[0].problem.removeprefix(f'{self.model}: ')}")]
            if self._retry
            else []
        )

    def line(self, seconds: float, activity: str | None = None, *, spinning: bool = True) -> str:
        used = (
            f"{compact(self.tokens_in)} in, {compact(self.tokens_out)} out"
            if self.tokens_in
            else ""
        )
        parts = [
            self.model,
            activity or self.doing,
            f"{int(seconds)} s" if seconds < 60 else duration(seconds),
            used,
        ]
        sign = f"{cyan(spin(seconds))} " if spinning else ""
        return sign + dim(" · ".join(filter(None, parts)))

    def lines(self, seconds: float) -> list[str]:
        return [self.line(seconds)]
