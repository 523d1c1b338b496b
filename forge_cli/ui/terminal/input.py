"""Lines that a person types: edited on a terminal, else read as they are, without a thread."""

from __future__ import annotations

import builtins
import os
import signal
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, TextIO, cast

from rich.console import Console

from forge_cli.core.hangup import is_hung_up
from forge_cli.core.text import visible
from forge_cli.ui.terminal.keys import ESCAPE_TIMEOUT, KeyReader, read_piece
from forge_cli.ui.terminal.keys import QuestionLeft as QuestionLeft
from forge_cli.ui.terminal.live import can_draw
from forge_cli.ui.terminal.raw_mode import terminal_taken
from forge_cli.ui.terminal.render import plain
from forge_cli.ui.wrap import wrap_for

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.application import Application
    from prompt_toolkit.key_binding import KeyPressEvent

GIVE_BACK = "\x1b[?2004l\x1b[?25h\r\n"
"""Turns bracketed paste off and shows the cursor."""
Redraw = Callable[[], None]


def _do_nothing() -> None: ...


class LineReader:
    """Reader of lines, which can be edited if the terminal can move its cursor.

    The arrow keys bring back earlier lines. The first edited line imports prompt_toolkit.
    """

    def __init__(self, console: Console, stream: TextIO | None = None) -> None:
        """Show prompts on ``console`` and read ``stream``, by default standard input."""
        self.console = console
        self._stream = stream
        self._plain = PlainInput(stream)
        self._session: PromptSession[str] | None = None
        self._keys: KeyReader | None = None
        self._show_again: Redraw = _do_nothing
        self.leaves_at_end = False
        """True if Ctrl+D leaves a question open; otherwise it is a no."""
        self._had_terminal = _is_terminal(stream or sys.stdin)
        """Kept here, because isatty is False once the terminal is closed."""

    @property
    def takes_keys(self) -> bool:
        """Return True if single keys can be read on a terminal that can draw the question."""
        return _is_terminal(self._stream or sys.stdin) and can_draw(cast(TextIO, self.console.file))

    @property
    def nobody_there(self) -> bool:
        """Return True if the input has ended and was no terminal, so no person has ended it."""
        is_terminal = self._had_terminal or _is_terminal(self._stream or sys.stdin)
        return self._plain.ended and not is_terminal

    async def ask_key(
        self,
        prompt: str,
        show_again: Redraw = _do_nothing,
        means: Callable[[str], bool] = bool,
        *,
        follows: bool = False,
    ) -> str | None:
        """Return a key pressed after the prompt appeared, without Enter; None at the end of input.

        Earlier keys, pasted text and keys for which ``means`` is False do not count. If the
        question ``follows`` from the key before, keys pressed right behind that one count. Raise
        QuestionLeft at Esc and Ctrl+C.
        """
        if not follows:
            self._forget_typed()
        self._keys = KeyReader(self.console, (self._stream or sys.stdin).fileno())
        try:
            key = await self._keys.ask(
                visible(prompt, keep="\n"), show_again, means, follows=follows
            )
        finally:
            self._keys = None
        if key is None and self.leaves_at_end:
            raise QuestionLeft(ctrl_d=True)
        return key

    async def ask(self, prompt: str, show_again: Redraw = _do_nothing) -> str | None:
        """Return a line typed after the prompt appeared; None if the input ends first.

        Earlier input and text after the line, such as the rest of a paste, are dropped.
        ``show_again`` redraws the subject of the question after a suspend. Raise QuestionLeft at
        Esc, Ctrl+C and a closed terminal.
        """
        line = await self.read(prompt, show_again, fresh=True)
        if line is not None and line.endswith("\n"):
            return line.removesuffix("\n")
        return None

    async def read(
        self, prompt: str, show_again: Redraw = _do_nothing, *, fresh: bool = False
    ) -> str | None:
        """Return the next line with its newline, if it has one; None at the end of input.

        Text typed ahead counts unless ``fresh``. Raise QuestionLeft as ``ask`` does.
        """
        stream = self._stream or sys.stdin
        prompt = visible(prompt, keep="\n")
        self._show_again = show_again
        edited = _is_terminal(stream) and can_draw(cast(TextIO, self.console.file))
        if edited and self._session is None:
            self._session = self._new_session(stream)
        if fresh:
            self._forget_typed()
        watched = None
        if self._had_terminal or _is_terminal(stream):
            watched = stream.fileno()
        if edited and self._session:
            line = await self._edit(self._session, prompt)
        else:
            line = await self._read_plain(prompt)
        # A closed terminal also looks like the end of input, but nobody has answered.
        if line is None and watched is not None and is_hung_up(watched):
            raise QuestionLeft(hung_up=True)
        if line is None and self.leaves_at_end:
            raise QuestionLeft(ctrl_d=True)
        if fresh:
            self._forget_typed()
        return line

    async def _edit(self, session: PromptSession[str], prompt: str) -> str | None:
        with terminal_taken(self._give_back(session.input.fileno())), wakeup_kept():
            session.app.erase_when_done = False  # take_away() may have set it
            try:
                text = await session.prompt_async(
                    [("", prompt)], set_exception_handler=False, handle_sigint=False
                )
            except EOFError:
                return None
            except OSError as error:  # the final redraw failed
                if not is_hung_up(session.input.fileno()):
                    raise
                raise QuestionLeft(hung_up=True) from error
        # A terminal can send halves of characters, which cannot be encoded.
        return text.encode(errors="replace").decode() + "\n"

    async def _read_plain(self, prompt: str) -> str | None:
        self.console.print(plain(wrap_for(self.console.file, prompt, indent=0)), end="")
        self.console.file.flush()
        try:
            line = await self._plain.read()
        except BaseException:
            self._forget_typed()  # else half an answer would begin the next line
            raise
        if line is None or not line.endswith("\n"):
            with suppress(OSError):  # a terminal that was closed
                self.console.print()
        return line

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Erase the prompt while other output is written, then draw it again below."""
        shown = self._shown
        keys = None
        if self._keys and self._keys.shows_prompt:
            keys = self._keys
        if shown:
            shown.renderer.erase()
        if keys:
            keys.erase()
        yield
        if shown:
            shown.invalidate()
        if keys:
            keys.draw()

    def take_away(self) -> bool:
        """Erase the current prompt for good; return False if there is none."""
        if self._keys and self._keys.shows_prompt:
            self._keys.take_away()
            return True
        shown = self._shown
        if shown:
            shown.renderer.erase()
            shown.erase_when_done = True
        return shown is not None

    @property
    def _shown(self) -> Application[str] | None:
        """The line that is being edited; None if there is none."""
        app = self._session.app if self._session else None
        if app is None or not app.is_running or app.is_done or app.erase_when_done:
            return None
        return app

    def _forget_typed(self) -> None:
        self._plain.forget_typed()
        if self._session:
            from prompt_toolkit.input.typeahead import clear_typeahead

            clear_typeahead(self._session.input)

    def _give_back(self, fd: int) -> Callable[[], None]:
        """Return a function that restores the current mode of the terminal."""
        before = termios.tcgetattr(fd)
        out = self.console.file.fileno()

        def give_back() -> None:
            with suppress(termios.error, OSError):
                termios.tcsetattr(fd, termios.TCSANOW, before)
                os.write(out, GIVE_BACK.encode())  # the stream may be locked when the process ends

        return give_back

    def _new_session(self, stream: TextIO) -> PromptSession[str]:
        # Imported for the first edited line only, because it is slow.
        from prompt_toolkit import PromptSession
        from prompt_toolkit.application import run_in_terminal
        from prompt_toolkit.data_structures import Size
        from prompt_toolkit.filters import is_searching
        from prompt_toolkit.input.vt100 import Vt100Input
        from prompt_toolkit.key_binding import KeyBindings
        from prompt_toolkit.output.vt100 import Vt100_Output

        keys = KeyBindings()

        @keys.add("escape", filter=~is_searching)  # in a search, Esc only ends the search
        def _(event: KeyPressEvent) -> None:
            event.app.exit(exception=QuestionLeft())

        @keys.add("c-c")
        def _(event: KeyPressEvent) -> None:
            event.app.exit(exception=QuestionLeft(ctrl_c=True))

        @keys.add("c-z")
        def _(event: KeyPressEvent) -> None:
            run_in_terminal(self._stop)

        session: PromptSession[str] = PromptSession(
            key_bindings=keys,
            include_default_pygments_style=False,
            input=Vt100Input(stream),
            output=Vt100_Output(
                cast(TextIO, self.console.file),
                lambda: Size(rows=self.console.size.height, columns=self.console.size.width),
                term=os.environ.get("TERM"),
                enable_bell=False,
                enable_cpr=False,  # a late answer of the terminal would be read as typed text
            ),
        )
        session.app.ttimeoutlen = session.app.timeoutlen = ESCAPE_TIMEOUT
        return session

    def _stop(self) -> None:
        """Stop the process group for the shell, then redraw the subject of the question."""
        os.kill(0, signal.SIGTSTP)  # 0 is the process group, with all children
        self._show_again()


class PlainInput:
    """Reader of unedited lines from a terminal, a pipe, a file or another text stream."""

    def __init__(self, stream: TextIO | None = None, rest: bytes = b"") -> None:
        """Read ``stream``, or whatever standard input is at the time of reading.

        ``rest`` was read before, and comes first.
        """
        self._stream = stream
        self._rest = rest
        """Text that arrived with the line before; always empty on a terminal."""
        self.ended = False
        """Whether the end of input was read."""

    @property
    def rest(self) -> bytes:
        """Input that was read and not returned yet."""
        return self._rest

    def forget_typed(self) -> None:
        """Drop text typed on a terminal so far; text from a pipe is kept."""
        with suppress(termios.error, ValueError, OSError):
            # Fails for anything but a terminal.
            termios.tcflush(self._file.fileno(), termios.TCIFLUSH)
            self._rest = b""

    async def read(self) -> str | None:
        """Return the next line, the last one possibly without a newline; None at the end."""
        try:
            fd = self._file.fileno()
        except (OSError, ValueError):
            text = self._file.readline()
            self.ended = not text
            return text or None
        while b"\n" not in self._rest:
            piece = await read_piece(fd)
            if not piece:
                self.ended = True
                break
            self._rest += piece
        line, end, self._rest = self._rest.partition(b"\n")
        return (line + end).decode(errors="replace") or None

    @property
    def _file(self) -> TextIO:
        return self._stream or sys.stdin


class KernelInput:
    """Input from a notebook, whose kernel replaces ``builtins.input``."""

    @staticmethod
    def is_needed() -> bool:
        return not isinstance(builtins.input, BuiltinFunctionType)

    def fileno(self) -> int:
        raise OSError("input comes from the notebook kernel only")

    def readline(self) -> str:
        try:
            return builtins.input() + "\n"
        except (EOFError, RuntimeError):  # RuntimeError: the front end of ipykernel cannot ask
            return ""


def _is_terminal(stream: TextIO) -> bool:
    try:
        return os.isatty(stream.fileno())
    except (OSError, ValueError):
        return False


@contextmanager
def wakeup_kept() -> Iterator[None]:
    """Restore the wakeup descriptor of signals, which prompt_toolkit replaces for good."""
    if threading.current_thread() is not threading.main_thread():  # set_wakeup_fd would raise
        yield
        return
    # It can only be read by replacing it.
    signal.set_wakeup_fd(wakeup := signal.set_wakeup_fd(-1))
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
