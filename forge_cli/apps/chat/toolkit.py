"""prompt_toolkit as a conversation needs it: its input, output and completion."""

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
_LFLAG, _CC = 3, 6


class SignallingInput(Vt100Input):
    """Keys one by one, but Ctrl+C stays a signal: it must arrive where something holds the event loop, too."""

    def __init__(self, stdin: TextIO) -> None:
        super().__init__(stdin)
        self.before: list[Any] = termios.tcgetattr(stdin.fileno())
        self.stays_raw = False
        """Keys come one by one also while a question has the terminal: it reads them itself."""
        self._raw = False

    @contextmanager
    def raw_mode(self) -> Iterator[None]:
        with super().raw_mode():
            ours = termios.tcgetattr(self.fileno())
            ours[_LFLAG] |= termios.ISIG
            ours[_CC][termios.VSUSP] = (
                b"\0"  # Ctrl+Z is a key, so that the screen is put in order first
            )
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
        """Keys that were typed while the terminal still gave lines: their ends are those of Enter."""
        typed = b""
        while select.select([self.fileno()], [], [], 0)[0] and (
            piece := os.read(self.fileno(), 4096)
        ):
            typed += piece
        self.vt100_parser.feed(typed.decode(errors="replace").replace("\n", "\r"))
        store_typeahead(self, self.flush_keys())

    def restore(self) -> None:
        with suppress(termios.error, OSError, ValueError):
            termios.tcsetattr(self.fileno(), termios.TCSANOW, self.before)


class HeldOutput(Vt100_Output):
    """Writes in one go what is drawn while it is held, and nothing more once it is closed."""

    held = closed = False

    def flush(self) -> None:
        if not self.held and not self.closed:
            super().flush()

    def release(self) -> None:
        self.held = False
        self.flush()


class ReflowedRenderer(Renderer):
    """Erases all of its rows where a terminal that became narrower has broken them into more."""

    _columns, _cursor = 0, Point(0, 0)

    @property
    def is_reflowed(self) -> bool:
        """Has the terminal another width since it was drawn?"""
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
        screen, columns = self.last_rendered_screen, self.output.get_size().columns
        if (
            screen and self.is_reflowed and not {"XTERM_VERSION", "STY"} & os.environ.keys()
        ):  # those cut rows off
            broken = sum(
                max(0, _width(screen.data_buffer[row]) - 1) // columns
                for row in range(self._cursor.y)
            )
            self.output.cursor_up(broken + self._cursor.x // columns)
        super().erase(leave_alternate_screen)


def _width(row: Mapping[int, Char]) -> int:
    return max(
        (column + char.width for column, char in row.items() if char.char.strip()), default=0
    )


def rows_of(
    content: Callable[[], StyleAndTextTuples], *, wrap: bool = False
) -> ConditionalContainer:
    """Rows that are there only when they have content."""
    window = Window(
        FormattedTextControl(content),
        wrap_lines=wrap,
        dont_extend_height=True,
        height=Dimension(min=1),
    )
    return ConditionalContainer(window, Condition(lambda: bool(content())))


class InputCompleter(Completer):
    """Completes what is typed, where that is asked for or likely to be wanted."""

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
