"""One line from the person at the terminal: edited there, with a history, and waited for without a thread."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import Any, TextIO

import anyio
from rich.cells import cell_len
from rich.console import Console

from forge_cli.ui.terminal.editing import NOTHING, EditedLine, Layout, lay_out
from forge_cli.ui.terminal.keys import PASTE_OFF, PASTE_ON, KeyReader
from forge_cli.ui.terminal.lines import LineInput
from forge_cli.ui.terminal.render import plain

ESCAPE_ALONE = 0.05
"""Seconds after which an Escape was a key of its own, and not the beginning of another."""

_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)
_CANNOT_MOVE = (None, "", "dumb", "unknown")
_IFLAG, _LFLAG = 0, 3
Redraw = Callable[[], None]


def _do_nothing() -> None: ...


class LineEditor:
    """Reads lines from a terminal; where there is none, or it cannot move its cursor, line by line as they come."""

    def __init__(self, console: Console, stream: TextIO | None = None) -> None:
        """``console`` is where prompts are shown; standard input is read unless a ``stream`` is given."""
        self.console = console
        self.history: list[str] = []
        """Answers so far, for prompts that have no history of their own."""
        self._stream = stream
        self._plain = LineInput(stream)
        self._keys = KeyReader()
        self._open: _OpenLine | None = None

    async def ask(self, prompt: str, history: list[str] | None = None, show_again: Redraw = _do_nothing) -> str | None:
        """A line that was typed after the prompt stood there; None where the input ends before the line does.

        What was typed before does not count, and what comes behind the line, as of a paste, is not kept for others.
        ``show_again`` draws what the prompt is about, when the screen was somebody else's in between.
        """
        self._forget_typed()
        try:
            line = await self.read(prompt, history, show_again)
        finally:
            self._forget_typed()
        return line.removesuffix("\n") if line is not None and line.endswith("\n") else None

    async def read(self, prompt: str, history: list[str] | None = None, show_again: Redraw = _do_nothing) -> str | None:
        """The next line with its end, the last one perhaps without; None at the end of input."""
        fd = self._descriptor()
        if fd is None:
            return await self._read_plain(prompt)
        line = EditedLine(history or ())
        try:
            with _OpenLine(self.console, fd, prompt, line, show_again) as self._open:
                ended = await self._edit(fd, self._open, line)
        finally:
            self._open = None
        if history is not None and line.text.strip() and line.text not in history[-1:]:
            history.append(line.text)
        return f"{line.text}\n" if ended else None

    async def _read_plain(self, prompt: str) -> str | None:
        self.console.print(plain(prompt), end="")
        self.console.file.flush()
        line = await self._plain.read()
        if line is None or not line.endswith("\n"):
            self.console.print()
        return line

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Something else is written in between: the line is taken away, and drawn again below it."""
        shown = self._open
        if shown is not None:
            shown.erase()
        yield
        if shown is not None:
            shown.draw()

    def leave(self) -> None:
        """The line is not read to its end: what comes next is written behind it."""
        if self._open is not None:
            self._open.leave()

    async def _edit(self, fd: int, shown: _OpenLine, line: EditedLine) -> bool:
        """Edit until Enter (True), or until the input ends."""
        while True:
            for key in self._keys.complete():
                if key.name == "enter" or (key.name == "end of input" and not line.text):
                    shown.draw()
                    return key.name == "enter"
                line.press(key)
            shown.draw()
            if not await self._wait_for_key(fd):
                return False

    async def _wait_for_key(self, fd: int) -> bool:
        """Feed what is typed next; False at the end of input."""
        if self._keys.is_open:
            with anyio.move_on_after(ESCAPE_ALONE) as waited:
                await anyio.wait_readable(fd)
            if waited.cancelled_caught:
                self._keys.forget()
        try:
            await anyio.wait_readable(fd)
            data = os.read(fd, 4096)
        except OSError:
            return False
        self._keys.feed(data)
        return bool(data)

    def _descriptor(self) -> int | None:
        """That of a terminal on which lines can be edited."""
        with suppress(OSError, ValueError):
            fd = (self._stream or sys.stdin).fileno()
            if os.isatty(fd) and self.console.file.isatty() and os.environ.get("TERM") not in _CANNOT_MOVE:
                return fd
        return None

    def _forget_typed(self) -> None:
        self._keys.forget()
        self._plain.forget_typed()


class _OpenLine:
    """A line on the screen while it is edited: the terminal gives key by key, and is as before whatever happens."""

    def __init__(self, console: Console, fd: int, prompt: str, line: EditedLine, show_again: Redraw) -> None:
        self._console, self._fd, self._prompt, self._line = console, fd, prompt, line
        self._show_again = show_again
        self._shown = NOTHING
        self._left = False
        self._before: list[Any] | None = None
        self._signals = ExitStack()

    def __enter__(self) -> _OpenLine:
        self._take_terminal()
        self._handle_signals()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._signals.close()
        self.leave()
        if kind is None:
            self._write("\r\n")
        self._give_back_terminal()

    def leave(self) -> None:
        """Go behind the last row; nothing is drawn any more."""
        if not self._left:
            below = len(self._shown.rows) - 1 - self._shown.row
            self._write(f"\x1b[{below}B" * bool(below))
            self._left = True

    def draw(self) -> None:
        """Draw the line in the place of what was drawn of it before; of a very long one the rows at the cursor."""
        if self._left:
            return
        width, height = self._console.size
        rows, row, column = lay_out(self._prompt, self._line, width)
        top = max(0, row - height + 2)
        new = Layout(rows[top : top + height - 1], row - top, column)
        added = new.added_to(self._shown)
        if added is None:
            up, right = len(new.rows) - 1 - new.row, f"\x1b[{column}C" * bool(column)
            shown = "\r\n".join(new.rows) + f"\x1b[{up}A" * bool(up) + "\r" + right
            self._write(self._to_start(width) + "\x1b[J" + shown)
        elif added:
            self._write(added)
        self._shown = new

    def erase(self) -> None:
        if self._left:
            return
        self._write(self._to_start(self._console.size.width) + "\x1b[J")
        self._shown = NOTHING

    def _to_start(self, width: int) -> str:
        """To the first row of what is drawn; a terminal that became narrower has wrapped its rows."""
        above = self._shown.rows[: self._shown.row]
        up = sum(max(1, -(-cell_len(row) // width)) for row in above) + self._shown.column // width
        return f"\x1b[{up}A" * bool(up) + "\r"

    def _write(self, text: str) -> None:
        self._console.file.write(text)
        self._console.file.flush()

    def _take_terminal(self) -> None:
        """Key by key and without an echo; Ctrl+C and Ctrl+Z stay signals."""
        ours = termios.tcgetattr(self._fd)
        self._before = self._before or [*ours]
        ours[_IFLAG] &= ~termios.ICRNL
        ours[_LFLAG] &= ~(termios.ICANON | termios.ECHO | termios.IEXTEN)
        termios.tcsetattr(self._fd, termios.TCSANOW, ours)
        self._write(PASTE_ON)

    def _give_back_terminal(self) -> None:
        before, self._before = self._before, None
        if before is not None:
            with suppress(OSError, ValueError):
                self._write(PASTE_OFF)
            with suppress(termios.error):
                termios.tcsetattr(self._fd, termios.TCSANOW, before)

    def _handle_signals(self) -> None:
        """Whatever ends or stops the process gives the terminal back first."""
        if threading.current_thread() is not threading.main_thread():
            return
        later = asyncio.get_running_loop().call_soon_threadsafe
        for number in _STOPS:
            self._signals.enter_context(_handled(number, self._give_back_terminal))
        self._signals.enter_context(_handled(signal.SIGCONT, lambda: later(self._continue)))
        self._signals.enter_context(_handled(signal.SIGWINCH, lambda: later(self.draw)))

    def _continue(self) -> None:
        """Draw everything anew after a stop, in which the screen was somebody else's."""
        self._take_terminal()
        self._shown = NOTHING
        self._show_again()
        self.draw()


@contextmanager
def _handled(number: int, first: Callable[[], object]) -> Iterator[None]:
    """Do something ``first`` when a signal comes, and then what would have been done."""
    before = signal.getsignal(number)
    if before is None or before is signal.SIG_IGN:
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        first()
        if callable(before):
            before(number, frame)
        elif number in _STOPS:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        if number == signal.SIGTSTP:  # it continues, and whoever stopped it may have put a handler in place of this one
            signal.signal(number, handle)

    signal.signal(number, handle)
    try:
        yield
    finally:
        if signal.getsignal(number) is handle:
            signal.signal(number, before)
