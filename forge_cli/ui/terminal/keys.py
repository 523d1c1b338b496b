"""Single keys on a terminal; pasted text and keys that come together are ignored."""

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

ESCAPE_TIMEOUT = 0.05
"""Seconds after which an Escape is a key, not the beginning of a sequence."""
SETTLE_TIME = 0.25
"""Seconds without a key before a question takes one: earlier keys were not meant for it."""
_LFLAG, _CC = 3, 6  # indices of termios attributes
_STOP, _LEAVE, _ESCAPE, _SUSPEND = b"\x03", b"\x04", b"\x1b", "\x1a"
_MARK_PASTES, _LEAVE_PASTES = "\x1b[?2004h", "\x1b[?2004l"
_PASTE_BEGINS, _PASTE_ENDS = b"\x1b[200~", b"\x1b[201~"


class QuestionLeft(Exception):
    """A question was left by Esc, Ctrl+C or Ctrl+D, or its terminal was closed."""

    def __init__(
        self, *, ctrl_c: bool = False, hung_up: bool = False, ctrl_d: bool = False
    ) -> None:
        super().__init__("left without an answer")
        self.ctrl_c = ctrl_c
        self.hung_up = hung_up
        self.ctrl_d = ctrl_d
        """True if the question waits on, for somebody else or for later."""

    @property
    def leaves_all(self) -> bool:
        """Return True if the work ends; Esc only leaves the current question."""
        return self.ctrl_c or self.hung_up or self.ctrl_d


class KeyReader:
    """Reader of single keys on a terminal."""

    def __init__(self, console: Console, descriptor: int) -> None:
        self._console = console
        self._fd = descriptor
        self._prompt: str | None = None
        self._drawn = ""
        self._taken_away = False
        self._pasting = False
        self._last_bytes = b""
        """The last bytes read: the mark of a paste may arrive in two pieces."""

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
        """Return the key pressed after the prompt appeared; None at the end of input.

        Enter is a newline. Keys for which ``means`` is False do nothing. A question that
        ``follows`` from the last key also takes keys pressed since. ``show_again`` redraws the
        subject of the question after a suspend. Raise QuestionLeft at Esc, Ctrl+C and a closed
        terminal.
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
                with suppress(OSError):  # the terminal may be closed
                    self._console.print()  # the cursor is still behind the question
            raise
        finally:
            self._prompt = None

    def draw(self) -> None:
        if self._prompt is not None:
            self._drawn = wrap_for(self._console.file, self._prompt, indent=0)
            self._console.print(plain(self._drawn), end="")
            self._console.file.flush()

    def erase(self) -> None:
        """Erase the prompt with all of its rows."""
        width = max(self._console.size.width, 1)
        # A row that is exactly full does not begin another one.
        rows = sum(max(cell_len(line) - 1, 0) // width + 1 for line in self._drawn.split("\n"))
        self._console.file.write((f"\x1b[{rows - 1}A" if rows > 1 else "") + "\r\x1b[J")
        self._console.file.flush()

    def take_away(self) -> None:
        """Erase the question for good, because it no longer needs an answer."""
        self.erase()
        self._taken_away = True

    async def _key(self) -> str:
        """Return one key, or an empty text at the end of input.

        Sequences, pastes and several keys at once are ignored.
        """
        while True:
            pasted = self._pasting
            piece = await self._piece()
            if piece == b"":
                # Ctrl+D is a key in this mode, so the end of input is the end of the terminal.
                raise QuestionLeft(hung_up=True)
            if pasted or self._pasting:
                continue
            if piece == _LEAVE:
                return ""
            quiet = await self._is_quiet(ESCAPE_TIMEOUT)
            if quiet and piece.endswith(_ESCAPE):
                raise QuestionLeft
            if quiet:
                text = piece.decode(errors="replace").replace("\r", "\n")
                if _is_one(piece):
                    return text
                if len(text) == 2 and text[0].isprintable() and text[1] == "\n":
                    # On a slow connection, a key and the Enter after it arrive together.
                    return text[0]
            await self._settle()

    async def _settle(self) -> None:
        """Drop keys until no key comes for a moment."""
        while not await self._is_quiet(SETTLE_TIME):
            if not await self._piece():
                return

    async def _piece(self) -> bytes:
        """Return the bytes that arrived together; raise QuestionLeft at Ctrl+C."""
        piece = b""
        while len(piece) < 4096 and not piece.endswith(_STOP):
            if piece and not select.select([self._fd], [], [], 0)[0]:
                break
            # Byte by byte: bytes after a Ctrl+C are left in the terminal for the next reader.
            key = await read_piece(self._fd, 1)
            if not key:
                break
            piece += key
        if piece.endswith(_STOP):
            raise QuestionLeft(ctrl_c=True)
        self._note_paste(piece)
        return piece

    def _note_paste(self, piece: bytes) -> None:
        """Note whether a paste is in progress: however slowly it comes, none of it is a key."""
        seen = self._last_bytes + piece
        begin = seen.rfind(_PASTE_BEGINS)
        end = seen.rfind(_PASTE_ENDS)
        if begin != end:  # both are -1 if neither mark is in the text
            self._pasting = begin > end
        self._last_bytes = seen[-len(_PASTE_BEGINS) + 1 :]  # one byte less than a mark

    async def _is_quiet(self, seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            await anyio.wait_readable(self._fd)
            return False
        return True

    @contextmanager
    def _one_by_one(self) -> Iterator[list[object]]:
        before = termios.tcgetattr(self._fd)
        ours = termios.tcgetattr(self._fd)
        # Without ISIG, Ctrl+C is a key that leaves the question, not a signal.
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
        """Stop the process group for the shell, with the terminal in its usual mode."""
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
    """Wait for input without a thread and return it; empty at the end of input."""
    try:
        # epoll refuses files and /dev/null, which are always ready.
        with suppress(PermissionError):
            await anyio.wait_readable(fd)
        return os.read(fd, size)
    except OSError:
        return b""


def _is_one(piece: bytes) -> bool:
    """Return True if the bytes are exactly one character."""
    return len(piece) == 1 or (piece[0] >= 0x80 and len(piece.decode(errors="replace")) == 1)
