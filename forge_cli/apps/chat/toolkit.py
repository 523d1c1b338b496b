"""Input, output, renderer and completion of a conversation for prompt_toolkit."""

from __future__ import annotations

import os
import select
import termios
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from prompt_toolkit.application import Application
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.data_structures import Point
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.layout import (
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    Layout,
    Window,
)
from prompt_toolkit.layout.processors import TabsProcessor
from prompt_toolkit.layout.screen import Char
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import Renderer

from forge_cli.core.text import visible
from forge_cli.ui.completion import InputCompletion

TABS = TabsProcessor(char1=" ", char2=" ")
"""Shows tabs as blanks."""
_LFLAG = 3
_CC = 6
"""Indices of termios attributes."""


class SignallingInput(Vt100Input):
    """Single keys, with Ctrl+C as a signal, which arrives even if the event loop is blocked."""

    def __init__(self, stdin: TextIO) -> None:
        super().__init__(stdin)
        self.before: list[Any] = termios.tcgetattr(stdin.fileno())
        self.stays_raw = False
        """Whether the mode stays raw during a question, which reads keys itself."""
        self._raw = False

    @contextmanager
    def raw_mode(self) -> Iterator[None]:
        with super().raw_mode():
            ours = termios.tcgetattr(self.fileno())
            ours[_LFLAG] |= termios.ISIG
            # Ctrl+Z is a key, so that the screen can be restored before the process stops.
            ours[_CC][termios.VSUSP] = b"\0"
            termios.tcsetattr(self.fileno(), termios.TCSANOW, ours)
            self._raw = True
            try:
                yield
            finally:
                self._raw = False

    @contextmanager
    def cooked_mode(self) -> Iterator[None]:
        if self.stays_raw:
            yield
            return
        ours = termios.tcgetattr(self.fileno())
        self.restore()
        try:
            yield
        finally:
            if self._raw:  # the application may have ended meanwhile
                termios.tcsetattr(self.fileno(), termios.TCSANOW, ours)

    def take_typed(self) -> None:
        """Take the keys that were typed before this mode began, with newlines as Enter."""
        typed = b""
        while select.select([self.fileno()], [], [], 0)[0]:
            piece = os.read(self.fileno(), 4096)
            if not piece:
                break
            typed += piece
        self.vt100_parser.feed(typed.decode(errors="replace").replace("\n", "\r"))
        store_typeahead(self, self.flush_keys())  # the application reads these first

    def restore(self) -> None:
        """Restore the mode that the terminal had at first."""
        with suppress(termios.error, OSError, ValueError):
            termios.tcsetattr(self.fileno(), termios.TCSANOW, self.before)


class HeldOutput(Vt100_Output):
    """An output that writes each drawing as a whole, and nothing after it is closed."""

    held = False
    closed = False

    def flush(self) -> None:
        if not self.held and not self.closed:
            super().flush()

    def release(self) -> None:
        """Write the held output."""
        self.held = False
        self.flush()


class ReflowedRenderer(Renderer):
    """A renderer that erases all of its rows after a narrower terminal has wrapped them."""

    _columns = 0
    _cursor = Point(0, 0)

    @property
    def is_reflowed(self) -> bool:
        """Return True if the width of the terminal has changed since the last drawing."""
        return (
            self.last_rendered_screen is not None
            and self._columns != self.output.get_size().columns
        )

    def render(self, app: Application[Any], layout: Layout, is_done: bool = False) -> None:
        super().render(app, layout, is_done)
        self._columns = self.output.get_size().columns
        if screen := self.last_rendered_screen:
            self._cursor = screen.get_cursor_position(layout.current_window)

    def erase(self, leave_alternate_screen: bool = True) -> None:
        screen = self.last_rendered_screen
        columns = self.output.get_size().columns
        # xterm and screen cut rows off instead of wrapping them.
        wraps = not {"XTERM_VERSION", "STY"} & os.environ.keys()
        if screen and self.is_reflowed and wraps:
            added = self._cursor.x // columns  # the row of the cursor itself may be wrapped, too
            for row in range(self._cursor.y):
                added += max(0, _width(screen.data_buffer[row]) - 1) // columns
            self.output.cursor_up(added)
        super().erase(leave_alternate_screen)


def _width(row: Mapping[int, Char]) -> int:
    """Return the cells of a row without blanks at its end."""
    used = [column + char.width for column, char in row.items() if char.char.strip()]
    return max(used, default=0)


def rows_of(
    content: Callable[[], StyleAndTextTuples], *, wrap: bool = False
) -> ConditionalContainer:
    """Return a container that is hidden while it has no content."""
    window = Window(
        FormattedTextControl(content),
        wrap_lines=wrap,
        dont_extend_height=True,
        height=Dimension(min=1),
    )
    return ConditionalContainer(window, Condition(lambda: bool(content())))


class InputCompleter(Completer):
    """A completer that offers completions on Tab, or when they are likely to be wanted."""

    def __init__(self, completion: InputCompletion) -> None:
        self._completion = completion

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        text = document.text_before_cursor
        if complete_event.completion_requested or self._completion.is_wanted(text):
            for found in self._completion.candidates(text):
                yield Completion(
                    found.text,
                    -found.length,
                    display=visible(found.text),
                    display_meta=found.summary,
                )
