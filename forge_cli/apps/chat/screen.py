"""The screen of a conversation: a line that is always alive at the bottom, and everything else written above it.

It imports prompt_toolkit, and is imported only when a conversation starts on a terminal that can show it.
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
from forge_cli.apps.chat.drawing import BATCH
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
MOST_ROWS = 10
"""Rows of the line that is being typed; more of it scrolls."""
KEPT_ROWS = 8
"""Rows of the terminal that an answer which still grows leaves to the line, its menu and the bar."""
DRAW_INTERVAL_FACTOR = 40
"""Text is drawn so seldom that this takes no more than one part in so many of the time, on slow machines as well."""
HINT = 1.5
"""Seconds that a hint stays."""
QUESTION_WAITS = "a question waits: Tab turns to it, or finish the line"
FRONT, BEHIND = ("escape", "[", "I"), ("escape", "[", "O")
"""Sequences that the terminal sends when it comes to the front, and when it leaves it."""
STYLE = {
    "prompt": "bold ansicyan",
    "bar": "ansibrightblack",
    "queued": "ansibrightblack",
    "hint": "ansiyellow",
}


class ChatScreen(TypedLine):
    """Owns the bottom of a terminal while ``run`` is awaited; ``above`` is where everybody else writes."""

    def __init__(
        self, talk: Talk, above: TextAbove, *, completion: InputCompletion, notice: Notice
    ) -> None:
        self.lines: Lines = lambda seconds: ()
        self.on_enter: Callable[[str], object] = lambda text: None
        self._talk, self._above, self._notice = talk, above, notice
        self._started = time.monotonic()
        self._flushed = float("-inf")
        self._began = self._cost = 0.0
        self._hidden = False
        self._waiting: asyncio.Event | None = None
        """Set when the person turns to a question that waits."""
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
            enable_cpr=False,
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
            height=Dimension(min=1, max=MOST_ROWS),
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
        style = Style([]) if os.environ.get("NO_COLOR") else Style(list(STYLE.items()))
        app: Application[None] = Application(
            layout=Layout(rows, typed),
            key_bindings=self._keys(),
            style=style,
            input=self._input,
            output=self._output,
            include_default_pygments_style=False,
            enable_page_navigation_bindings=False,
        )
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
            self._input.take_typed()
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
            self._app.exit()

    def close(self) -> None:
        """Nothing more is drawn; the terminal is as before, also where the process ends at once."""
        if self._app.is_running:
            self._output.closed = True
            self._input.restore()
            with suppress(OSError, ValueError):
                os.write(self._above.fileno(), f"{FOCUS_OFF}{GIVE_BACK}\x1b[J".encode())

    @asynccontextmanager
    async def hidden(self) -> AsyncIterator[None]:
        """Hide the line, with what was typed of it, while a question has the terminal."""
        app = self._app
        if not app.is_running:
            yield
            return
        self._press(
            self._input.read_keys() + self._input.flush_keys()
        )  # typed before anybody could see a question
        if self._buffer.text:
            await self._turned_to()
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
        """Wait until the person has finished the line that they are typing, or turns to the question."""
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
        self._later("hint", HINT, self._forget_hint)
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
        self._buffer.document = Document(
            whole, len(whole) - len(typed.text) + typed.cursor_position
        )
        self.redraw()

    def redraw(self) -> None:
        """Draw what has changed, and again as long as something runs."""
        self._app.invalidate()
        if self._talk.busy:
            self._later("tick", TICK, self.redraw)

    def _later(self, name: str, seconds: float, action: Callable[[], None]) -> None:
        if timer := self._timers.pop(name, None):
            timer.cancel()
        self._timers[name] = asyncio.get_running_loop().call_later(seconds, action)

    def _wake(self) -> None:
        """Text waits: write it soon, and not too often."""
        timer = self._timers.get("flush")
        if timer is None or timer.cancelled() or timer.when() <= asyncio.get_running_loop().time():
            pause = max(BATCH, DRAW_INTERVAL_FACTOR * self._cost)
            self._later("flush", max(0.0, self._flushed + pause - time.monotonic()), self._flush)

    def _flush(self) -> None:
        """Have the line drawn again, below what waits."""
        if not self._hidden and self._app.is_running:
            self._flushed = time.monotonic()
            self._app.invalidate()

    def _before_drawing(self) -> None:
        """Write what waits above the line; rows that are not needed any more are given back to it."""
        renderer, size = self._renderer, self._size()
        self._output.held, self._began = True, time.thread_time()
        text = self._above.take()
        if text or renderer.is_reflowed:
            renderer.erase()
        last = renderer.last_rendered_screen
        self._output.write_raw(text)
        self._rows, self._status = (
            self._live(),
            [("class:bar", status_line(self._talk.facts, size.columns))],
        )
        if last is not None:
            wanted = self._app.layout.container.preferred_height(size.columns, size.rows).preferred
            if last.height > wanted:
                renderer.erase()

    def _drawn(self) -> None:
        self._output.release()
        self._cost = time.thread_time() - self._began

    def _live(self) -> StyleAndTextTuples:
        """The last block of the answer as far as it is there, what runs, what waits, and hints."""
        height, columns = self._size()
        rows = [self._above.partial] if self._above.partial else []
        rows += [fit(line, columns - 1) for line in self.lines(time.monotonic() - self._started)]
        rows = rows[-max(1, height - KEPT_ROWS) :]
        shown: StyleAndTextTuples = [*to_formatted_text(ANSI("\n".join(rows)))] if rows else []
        more = [
            ("class:queued", f"queued: {_one_line(message.text, columns)}")
            for message in self._talk.queue
        ]
        more += [
            ("class:queued", f"attached: {visible(file.about())}") for file in self._talk.attached
        ]
        more += [("class:hint", QUESTION_WAITS)] if self._waiting else []
        more += [("class:hint", self._hint)] if self._hint else []
        for style, text in more:
            shown += [("", "\n")] * bool(shown) + [(style, fit(text, columns - 1))]
        return shown or [("", " ")]

    def _is_only_one(self) -> bool:
        """Is the only completion in its place already, so that Tab can only continue behind it?"""
        state = self._buffer.complete_state
        return (
            state is not None
            and state.current_completion is not None
            and len(state.completions) == 1
        )

    def _keys(self) -> KeyBindings:
        keys, plain = KeyBindings(), ~is_searching

        @keys.add("enter", filter=plain)
        def _(event: KeyPressEvent) -> None:
            state = self._buffer.complete_state
            if state and state.current_completion:
                self._buffer.complete_state = None
                return
            text = self._buffer.text.encode(
                errors="replace"
            ).decode()  # it may hold halves of characters
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
            # A question takes Ctrl+C as a key, so a second one behind it is no signal, but a key left for this line.
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

        @keys.add(*FRONT)
        def _(event: KeyPressEvent) -> None:
            self._notice.in_front = True

        @keys.add(*BEHIND)
        def _(event: KeyPressEvent) -> None:
            self._notice.in_front = False

        return keys

    def _stop(self) -> None:
        """Stop as a shell wants it; everything is drawn again afterwards."""
        self._write(FOCUS_OFF)
        os.kill(0, signal.SIGTSTP)
        self._write(FOCUS_ON)


def _one_line(text: str, columns: int) -> str:
    return readable(" ⏎ ".join(text.split("\n"))[: columns * 2], keep="")
