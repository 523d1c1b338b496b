"""The screen of a conversation: an input line at the bottom, with all other output above it.

Import it only when a conversation starts on a capable terminal, as it loads prompt_toolkit.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from prompt_toolkit.application import Application, in_terminal, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, is_searching
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    HSplit,
    Layout,
    SearchBufferControl,
    VerticalAlign,
    Window,
)
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.styles import Style, default_ui_style, merge_styles

from forge_cli.apps.chat.around import (
    FOCUS_OFF,
    FOCUS_ON,
    Notice,
    TextAbove,
    TypedLine,
    status_line,
)
from forge_cli.apps.chat.drawing import BATCH_INTERVAL
from forge_cli.apps.chat.talk import Talk
from forge_cli.apps.chat.toolkit import (
    TABS,
    HeldOutput,
    InputCompleter,
    ReflowedRenderer,
    SignallingInput,
    rows_of,
)
from forge_cli.core.hangup import is_hung_up
from forge_cli.core.interrupt import HUNG_UP
from forge_cli.core.text import readable, visible
from forge_cli.ui.completion import InputCompletion
from forge_cli.ui.terminal.console import COLUMNS, ROWS
from forge_cli.ui.terminal.input import GIVE_BACK, wakeup_kept
from forge_cli.ui.terminal.keys import ESCAPE_TIMEOUT
from forge_cli.ui.terminal.live import TICK, Lines
from forge_cli.ui.terminal.raw_mode import terminal_taken
from forge_cli.ui.wrap import fit

PROMPT = "> "
MARGIN = "  "
MAX_ROWS = 10
"""Rows of the input line; longer text scrolls."""
RESERVED_ROWS = 8
"""Rows of the terminal for the input line, its menu and the bar while an answer grows."""
DRAW_INTERVAL_FACTOR = 40
"""The pause between two drawings as a multiple of their CPU time, also on slow machines."""
HINT_TIME = 1.5
"""Seconds for which a hint is shown."""
QUESTION_WAITS = "a question is waiting: press Tab, or finish the line"
FOCUSED = ("escape", "[", "I")
UNFOCUSED = ("escape", "[", "O")
"""Sequences that the terminal sends when it gets and loses the focus."""
STYLE = {
    "prompt": "bold ansicyan",
    "bar": "ansibrightblack",
    "queued": "ansibrightblack",
    "hint": "ansiyellow",
}


class ChatScreen(TypedLine):
    """The input line, its menu and the status bar at the bottom of a terminal.

    All other output goes to ``above``.
    """

    def __init__(
        self, talk: Talk, above: TextAbove, *, completion: InputCompletion, notice: Notice
    ) -> None:
        self.lines: Lines = lambda seconds: ()
        self.on_enter: Callable[[str], object] = lambda text: None
        self._talk = talk
        self._above = above
        self._notice = notice
        self._started = time.monotonic()
        self._flushed = float("-inf")
        self._began = self._cost = 0.0
        self._hidden = False
        self._waiting: asyncio.Event | None = None
        """Set when the person turns to the waiting question."""
        self._hint = ""
        self._rows: StyleAndTextTuples = []
        self._status: StyleAndTextTuples = []
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._input = SignallingInput(sys.stdin)
        self._output = HeldOutput(
            above.stream,
            self._size,
            term=os.environ.get("TERM"),
            enable_bell=False,
            enable_cpr=False,  # a late answer of the terminal would be read as typed text
        )
        self._search = SearchBufferControl()
        self._buffer = Buffer(
            completer=InputCompleter(completion),
            complete_while_typing=Condition(
                lambda: completion.is_wanted(self._buffer.document.text_before_cursor)
            ),
            history=InMemoryHistory(talk.history.entries),
            multiline=True,
        )
        self._buffer.on_text_changed += lambda buffer: None if buffer.text else self._turn()
        self._app = self._new_app()

    def _new_app(self) -> Application[None]:
        typed = Window(
            BufferControl(
                self._buffer, [TABS], search_buffer_control=self._search, preview_search=True
            ),
            get_line_prefix=lambda line, wrapped: (
                [("class:prompt", PROMPT)] if line == wrapped == 0 else MARGIN
            ),
            wrap_lines=True,
            height=Dimension(min=1, max=MAX_ROWS),
            dont_extend_height=True,
        )
        rows = HSplit(
            [
                rows_of(lambda: self._rows, wrap=True),
                typed,
                ConditionalContainer(
                    Window(
                        self._search,
                        height=1,
                        get_line_prefix=lambda *_: [("class:hint", "search: ")],
                    ),
                    is_searching,
                ),
                CompletionsMenu(max_height=6),
                rows_of(lambda: self._status),
            ],
            align=VerticalAlign.TOP,
        )
        if os.environ.get("NO_COLOR"):
            style = Style([])
        else:
            style = Style(list(STYLE.items()))
        app: Application[None] = Application(
            layout=Layout(rows, typed),
            key_bindings=self._keys(),
            style=style,
            input=self._input,
            output=self._output,
            include_default_pygments_style=False,
            enable_page_navigation_bindings=False,  # they bind Ctrl+V, which pastes an image
        )
        # Application has no parameter for a renderer.
        app.renderer = self._renderer = ReflowedRenderer(
            merge_styles([default_ui_style(), style]), self._output
        )
        app.ttimeoutlen = app.timeoutlen = ESCAPE_TIMEOUT
        app.before_render += lambda _: self._before_drawing()
        app.after_render += lambda _: self._drawn()
        return app

    def _size(self) -> Size:
        try:
            columns, rows = os.get_terminal_size(self._above.fileno())
        except (OSError, ValueError):
            columns, rows = 0, 0
        return Size(rows=rows or ROWS, columns=columns or COLUMNS)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        self._above.on_text = lambda: loop.call_soon_threadsafe(self._wake)
        self._above.hold()
        try:
            self._input.take_typed()  # keys pressed while the worker was loaded
            self._output.write_raw(FOCUS_ON)
            with terminal_taken(self.close), wakeup_kept():
                await self._app.run_async(
                    pre_run=self._wake, set_exception_handler=False, handle_sigint=False
                )
        except (EOFError, OSError) as error:
            if not is_hung_up(self._input.fileno()):
                if isinstance(error, OSError):
                    raise
                self._talk.leave()
            else:
                self._talk.stop(HUNG_UP)
        finally:
            for timer in self._timers.values():
                timer.cancel()
            self._above.on_text = lambda: None
            with suppress(OSError):  # a terminal that was closed
                self._write(FOCUS_OFF)
            self._above.release()

    def end(self) -> None:
        if self._app.is_running and self._app.future and not self._app.future.done():
            self._app.erase_when_done = True
            self._app.exit()  # a second time would raise, hence the conditions

    def close(self) -> None:
        """Stop drawing and restore the terminal, even if the process ends without cleanup."""
        if self._app.is_running:
            self._output.closed = True
            self._input.restore()
            with suppress(OSError, ValueError):
                # Not through the streams, which another thread may have locked.
                os.write(self._above.fileno(), f"{FOCUS_OFF}{GIVE_BACK}\x1b[J".encode())

    @asynccontextmanager
    async def hidden(self) -> AsyncIterator[None]:
        """Hide the input line while a question has the terminal."""
        app = self._app
        if not app.is_running:
            yield
            return
        # Keys typed before the question was visible belong to the line.
        self._press(self._input.read_keys() + self._input.flush_keys())
        if self._buffer.text:
            await self._turned_to()  # half a line must not become the answer
        self._output.release()
        self._hidden = self._input.stays_raw = True
        try:
            async with in_terminal():
                self._write(FOCUS_OFF)
                self._above.release()
                try:
                    yield
                finally:
                    self._above.hold()
                    self._write(FOCUS_ON)
        finally:
            self._hidden = self._input.stays_raw = False
            self._press(get_typeahead(self._input))  # typed behind the answer

    async def _turned_to(self) -> None:
        """Wait until the person finishes the line or turns to the question."""
        self._waiting = asyncio.Event()
        self.redraw()
        try:
            await self._waiting.wait()
        finally:
            self._waiting = None

    def _turn(self) -> None:
        if self._waiting:
            self._waiting.set()

    def _press(self, keys: list[KeyPress]) -> None:
        self._app.key_processor.feed_multiple(keys)
        self._app.key_processor.process_keys()

    def _write(self, sequence: str) -> None:
        self._output.write_raw(sequence)
        self._output.flush()

    def hint(self, text: str) -> None:
        self._hint = text
        self._later("hint", HINT_TIME, self._forget_hint)
        self.redraw()

    def _forget_hint(self) -> None:
        self._hint = ""
        self.redraw()

    def clear_input(self) -> bool:
        had = bool(self._buffer.text)
        self._buffer.reset()
        self.redraw()
        return had

    def edit(self, text: str) -> None:
        typed = self._buffer.document
        whole = f"{text}\n{typed.text}" if typed.text else text
        cursor = len(whole) - len(typed.text) + typed.cursor_position
        self._buffer.document = Document(whole, cursor)
        self.redraw()

    def redraw(self) -> None:
        """Draw changes, and again as long as work is running."""
        self._app.invalidate()
        if self._talk.busy:
            self._later("tick", TICK, self.redraw)

    def _later(self, name: str, seconds: float, action: Callable[[], None]) -> None:
        if timer := self._timers.pop(name, None):
            timer.cancel()
        self._timers[name] = asyncio.get_running_loop().call_later(seconds, action)

    def _wake(self) -> None:
        """Schedule the writing of waiting text, unless it is scheduled already."""
        timer = self._timers.get("flush")
        if timer is None or timer.cancelled() or timer.when() <= asyncio.get_running_loop().time():
            pause = max(BATCH_INTERVAL, DRAW_INTERVAL_FACTOR * self._cost)
            self._later("flush", max(0.0, self._flushed + pause - time.monotonic()), self._flush)

    def _flush(self) -> None:
        """Redraw the input line below the waiting text."""
        if not self._hidden and self._app.is_running:
            self._flushed = time.monotonic()
            self._app.invalidate()

    def _before_drawing(self) -> None:
        """Write waiting text above the input line, and release unused rows."""
        renderer = self._renderer
        size = self._size()
        self._output.held = True  # until the drawing is complete, so that nothing flickers
        self._began = time.thread_time()
        text = self._above.take()
        if text or renderer.is_reflowed:
            renderer.erase()
        last = renderer.last_rendered_screen
        self._output.write_raw(text)
        self._rows = self._live()
        self._status = [("class:bar", status_line(self._talk.facts, size.columns))]
        if last is not None:
            wanted = self._app.layout.container.preferred_height(size.columns, size.rows).preferred
            if last.height > wanted:  # the renderer would keep the height
                renderer.erase()

    def _drawn(self) -> None:
        self._output.release()
        self._cost = time.thread_time() - self._began

    def _live(self) -> StyleAndTextTuples:
        """Return the rows above the input line: live lines, queued messages, attachments, hints."""
        height, columns = self._size()
        rows = [self._above.partial] if self._above.partial else []
        for line in self.lines(time.monotonic() - self._started):
            rows.append(fit(line, columns - 1))
        rows = rows[-max(1, height - RESERVED_ROWS) :]
        shown: StyleAndTextTuples = [*to_formatted_text(ANSI("\n".join(rows)))] if rows else []
        more = []
        for message in self._talk.queue:
            more.append(("class:queued", f"queued: {_one_line(message.text, columns)}"))
        for file in self._talk.attached:
            more.append(("class:queued", f"attached: {visible(file.about())}"))
        if self._waiting:
            more.append(("class:hint", QUESTION_WAITS))
        if self._hint:
            more.append(("class:hint", self._hint))
        for style, text in more:
            if shown:
                shown.append(("", "\n"))
            shown.append((style, fit(text, columns - 1)))
        return shown or [("", " ")]

    def _is_only_one(self) -> bool:
        """Return True if the sole completion is already inserted."""
        state = self._buffer.complete_state
        return (
            state is not None
            and state.current_completion is not None
            and len(state.completions) == 1
        )

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        plain = ~is_searching

        @keys.add("enter", filter=plain)
        def _(event: KeyPressEvent) -> None:
            state = self._buffer.complete_state
            if state and state.current_completion:
                self._buffer.complete_state = None
                return
            # The terminal can send halves of characters.
            text = self._buffer.text.encode(errors="replace").decode()
            if text.strip():
                self._buffer.append_to_history()
            self._buffer.reset()
            self.on_enter(text)

        @keys.add("tab", filter=plain & Condition(lambda: self._waiting is not None))
        def _(event: KeyPressEvent) -> None:
            self._turn()

        @keys.add("tab", filter=plain & Condition(lambda: self._is_only_one()))
        def _(event: KeyPressEvent) -> None:
            self._buffer.complete_state = None
            self._buffer.start_completion()

        @keys.add("escape", "enter", filter=plain)
        @keys.add("c-j", filter=plain)
        def _(event: KeyPressEvent) -> None:
            self._buffer.newline(copy_margin=False)

        @keys.add(
            "up", filter=plain & Condition(lambda: bool(self._talk.queue) and not self._buffer.text)
        )
        def _(event: KeyPressEvent) -> None:
            self._talk.edit_queued()

        @keys.add("escape", filter=plain)
        def _(event: KeyPressEvent) -> None:
            if self._buffer.complete_state:
                self._buffer.cancel_completion()
            elif self._talk.busy:
                self._talk.press_stop(escape=True)
            elif not self._buffer.text and self._talk.press_escape():
                self.on_enter("/rewind")

        @keys.add("c-c")
        def _(event: KeyPressEvent) -> None:
            # A question reads Ctrl+C as a key, and leaves a second one to this line, also as a key.
            self._talk.press_stop()

        @keys.add("s-tab", filter=plain)
        def _(event: KeyPressEvent) -> None:
            if self._buffer.complete_state:
                self._buffer.complete_previous()
            else:
                self._talk.next_mode()

        @keys.add("c-d", filter=plain & Condition(lambda: not self._buffer.text))
        def _(event: KeyPressEvent) -> None:
            self._talk.leave()

        @keys.add("c-o", filter=plain)
        def _(event: KeyPressEvent) -> None:
            self._talk.unfold_last()

        @keys.add("c-v", filter=plain)
        def _(event: KeyPressEvent) -> None:
            self._talk.paste_image()

        @keys.add("c-z")
        def _(event: KeyPressEvent) -> None:
            run_in_terminal(self._stop)

        @keys.add(*FOCUSED)
        def _(event: KeyPressEvent) -> None:
            self._notice.in_front = True

        @keys.add(*UNFOCUSED)
        def _(event: KeyPressEvent) -> None:
            self._notice.in_front = False

        return keys

    def _stop(self) -> None:
        """Stop the process group for the shell; prompt_toolkit redraws everything afterwards."""
        self._write(FOCUS_OFF)
        os.kill(0, signal.SIGTSTP)
        self._write(FOCUS_ON)


def _one_line(text: str, columns: int) -> str:
    # Cut before it is made readable: a pasted text can be very long.
    return readable(" ⏎ ".join(text.split("\n"))[: columns * 2], keep="")
