"""Keys that a person presses, one by one, at most with Enter behind; several at once were pasted, and are none."""

from __future__ import annotations

import os
import select
import signal
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import anyio
from rich.console import Console

from forge_cli.ui.terminal.raw_mode import terminal_taken
from forge_cli.ui.terminal.render import plain
from forge_cli.ui.wrap import cell_len, wrap_for

ESCAPE = 0.05
"""Seconds after which an Escape was a key of its own, and not the beginning of another."""
SETTLE = 0.25
"""Seconds without a key before a question takes one: what was on its way when it appeared is not an answer."""
_LFLAG, _CC = 3, 6
_STOP, _LEAVE, _ESCAPE, _SUSPEND = b"\x03", b"\x04", b"\x1b", "\x1a"
_MARK_PASTES, _LEAVE_PASTES = "\x1b[?2004h", "\x1b[?2004l"
_PASTE_BEGINS, _PASTE_ENDS = b"\x1b[200~", b"\x1b[201~"


class QuestionLeft(Exception):
    """Raised where a question is left without an answer: by Esc, by Ctrl+C, or because its terminal was closed."""

    def __init__(self, *, ctrl_c: bool = False, hung_up: bool = False) -> None:
        super().__init__("left without an answer")
        self.ctrl_c = ctrl_c
        self.hung_up = hung_up

    @property
    def leaves_all(self) -> bool:
        """Whether the work ends; Esc leaves only the question that it was pressed at."""
        return self.ctrl_c or self.hung_up


class KeyReader:
    """Asks for single keys on a terminal."""

    def __init__(self, console: Console, descriptor: int) -> None:
        self._console = console
        self._fd = descriptor
        self._prompt: str | None = None
        self._drawn = ""
        self._taken_away = False
        self._pasting = False
        self._last_bytes = b""
        """The end of what was read: the mark of a paste may come in two pieces."""

    @property
    def shows_prompt(self) -> bool:
        return self._prompt is not None and not self._taken_away

    async def ask(
        self,
        prompt: str,
        show_again: Callable[[], None],
        means: Callable[[str], bool],
        *,
        follows: bool = False,
    ) -> str | None:
        """The key that was pressed after the prompt stood there, Enter as a newline; None at the end of input.

        One that ``means`` nothing does nothing. A question that ``follows`` from the last key takes what was pressed
        since. QuestionLeft is raised at Esc and Ctrl+C, and where the terminal was closed. ``show_again`` draws what
        the prompt is about, when the screen was somebody else's in between.
        """
        try:
            with self._one_by_one() as before:
                if not follows:
                    await self._settle()
                self._prompt = prompt
                self._taken_away = False
                self.draw()
                while (text := await self._key()) and (text == _SUSPEND or not means(text)):
                    if text == _SUSPEND:
                        self._suspend(before)
                        show_again()
                        self.draw()
            if self.shows_prompt:
                self._console.print(plain(text if text.isprintable() else ""))
            return text or None
        except QuestionLeft:
            if self.shows_prompt:
                with suppress(OSError):  # a terminal that was closed
                    self._console.print()  # the cursor stands behind the question
            raise
        finally:
            self._prompt = None

    def draw(self) -> None:
        if self._prompt is not None:
            self._drawn = wrap_for(self._console.file, self._prompt, indent=0)
            self._console.print(plain(self._drawn), end="")
            self._console.file.flush()

    def erase(self) -> None:
        """Take the prompt off the screen, however many rows it has."""
        width = max(self._console.size.width, 1)
        rows = sum(max(cell_len(line) - 1, 0) // width + 1 for line in self._drawn.split("\n"))
        self._console.file.write((f"\x1b[{rows - 1}A" if rows > 1 else "") + "\r\x1b[J")
        self._console.file.flush()

    def take_away(self) -> None:
        """Take the question away: it is not asked any more."""
        self.erase()
        self._taken_away = True

    async def _key(self) -> str:
        """One key, or nothing at the end of input; sequences, pastes and keys that came together do nothing."""
        while True:
            pasted = self._pasting
            piece = await self._piece()
            if piece == b"":
                raise QuestionLeft(hung_up=True)  # Ctrl+D is a key here, so the terminal is gone
            if pasted or self._pasting:
                continue
            if piece == _LEAVE:
                return ""
            quiet = await self._is_quiet(ESCAPE)
            if quiet and piece.endswith(_ESCAPE):
                raise QuestionLeft
            if quiet:
                text = piece.decode(errors="replace").replace("\r", "\n")
                if _is_one(piece):
                    return text
                if len(text) == 2 and text[0].isprintable() and text[1] == "\n":
                    return text[
                        0
                    ]  # the key of somebody who presses Enter behind it, on a slow line
            await self._settle()

    async def _settle(self) -> None:
        while not await self._is_quiet(SETTLE):
            if not await self._piece():
                return

    async def _piece(self) -> bytes:
        """Keys that came at once; those behind a Ctrl+C are for the next reader."""
        piece = b""
        while (
            len(piece) < 4096
            and not piece.endswith(_STOP)
            and (not piece or select.select([self._fd], [], [], 0)[0])
        ):
            key = await read_piece(self._fd, 1)
            if not key:
                break
            piece += key
        if piece.endswith(_STOP):
            raise QuestionLeft(ctrl_c=True)
        self._note_paste(piece)
        return piece

    def _note_paste(self, piece: bytes) -> None:
        """Keep in mind whether a paste is under way: however slowly it comes, no letter of it is a key."""
        seen = self._last_bytes + piece
        begin = seen.rfind(_PASTE_BEGINS)
        end = seen.rfind(_PASTE_ENDS)
        if begin != end:
            self._pasting = begin > end
        self._last_bytes = seen[-len(_PASTE_BEGINS) + 1 :]

    async def _is_quiet(self, seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            await anyio.wait_readable(self._fd)
            return False
        return True

    @contextmanager
    def _one_by_one(self) -> Iterator[list[object]]:
        before = termios.tcgetattr(self._fd)
        ours = termios.tcgetattr(self._fd)
        ours[_LFLAG] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
        ours[_CC][termios.VMIN] = 1
        ours[_CC][termios.VTIME] = 0

        def give_back() -> None:
            with suppress(termios.error, OSError, ValueError):
                termios.tcsetattr(self._fd, termios.TCSANOW, before)
                self._write(_LEAVE_PASTES)

        termios.tcsetattr(self._fd, termios.TCSANOW, ours)
        self._write(_MARK_PASTES)
        try:
            with terminal_taken(give_back):
                yield before
        finally:
            give_back()

    def _suspend(self, before: list[object]) -> None:
        """Stop as a shell wants it."""
        ours = termios.tcgetattr(self._fd)
        termios.tcsetattr(self._fd, termios.TCSANOW, before)  # type: ignore[arg-type]
        self._write(_LEAVE_PASTES)
        os.kill(0, signal.SIGTSTP)
        termios.tcsetattr(self._fd, termios.TCSANOW, ours)
        self._write(_MARK_PASTES)

    def _write(self, sequence: str) -> None:
        self._console.file.write(sequence)
        self._console.file.flush()


async def read_piece(fd: int, size: int = 4096) -> bytes:
    """The bytes to be read, waited for without a thread; none at the end of input."""
    try:
        with suppress(
            PermissionError
        ):  # a file and /dev/null cannot be waited for: they are always ready
            await anyio.wait_readable(fd)
        return os.read(fd, size)
    except OSError:
        return b""


def _is_one(piece: bytes) -> bool:
    """Return True for one character, whatever its bytes."""
    return len(piece) == 1 or (piece[0] >= 0x80 and len(piece.decode(errors="replace")) == 1)
