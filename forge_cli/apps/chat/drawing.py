"""The terminal UI of a conversation, which also shows messages and calls of the person."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TextIO

import anyio
from msgspec.structs import replace
from rich.console import RenderableType
from rich.text import Text as Styled

from forge_cli.core.actions import Interrupt
from forge_cli.core.bus import EventBus
from forge_cli.core.errors import UsageError
from forge_cli.core.events import ApprovalRequired, Event, SessionEnd, Streaming, ToolResult
from forge_cli.core.results import Custom
from forge_cli.core.text import readable, visible
from forge_cli.files.settings import TraceLevel
from forge_cli.schema.tool import Tool
from forge_cli.ui.queue import MANUAL
from forge_cli.ui.terminal.calls import (
    MIN_ARGS,
    SLOW,
    ShownResult,
    call_duration,
    call_key,
    describe_error,
    mark_of,
)
from forge_cli.ui.terminal.forms import fill_form
from forge_cli.ui.terminal.keys import QuestionLeft
from forge_cli.ui.terminal.live import LiveArea, cyan, dim, duration, spin
from forge_cli.ui.terminal.render import Indented, plain, render, render_text, render_view
from forge_cli.ui.terminal.terminal import STOPPING, TerminalUI
from forge_cli.ui.views import FindRenderer, no_renderers, view_of
from forge_cli.ui.wrap import cell_width, fit, fit_path

MAX_RESULTS = 100
"""Results that can be shown whole afterwards."""
MAX_LISTED = 20
"""Results to list."""
BATCH_INTERVAL = 0.07
"""Seconds between two drawings of streamed text."""


class ChatUI(TerminalUI):
    """A terminal UI for several messages, with batched drawing."""

    def __init__(
        self,
        bus: EventBus,
        *,
        output: TextIO,
        terminal: TextIO,
        trace: TraceLevel,
        interactive: bool,
        stream_text: bool,
        find: FindRenderer = no_renderers,
        live: LiveArea | None = None,
        echo: bool = False,
        since: Callable[[], float | None] = lambda: None,
        on_question: Callable[[], object] = lambda: None,
        on_stop: Callable[[QuestionLeft], object] = lambda left: None,
    ) -> None:
        """Write answers to ``output`` and everything else to ``terminal``.

        ``echo`` shows messages that are not on the terminal yet. ``since`` returns when the current
        message was sent. ``on_question`` is called for each question, ``on_stop`` if one is left by
        Esc or Ctrl+C.
        """
        super().__init__(
            bus,
            output=output,
            trace=trace,
            trace_output=terminal,
            stream_text=stream_text,
            interactive=interactive,
            find=find,
            live=live,
        )
        self._trace.results = deque(maxlen=MAX_RESULTS)
        self._echo = echo
        self._since = since
        self._on_question = on_question
        self._on_stop = on_stop
        self._deltas: list[Streaming] = []
        self._timer: asyncio.TimerHandle | None = None
        self._drawn = float("-inf")
        self._own: anyio.CancelScope | None = None

    @property
    def trace(self) -> TraceLevel:
        return self._trace.level

    @trace.setter
    def trace(self, level: TraceLevel) -> None:
        self._trace.level = level

    def show(self, shown: RenderableType) -> None:
        """Show output of forge; strings are shown without markup."""
        self._show_deltas()
        self._close_line()
        with self._lines.aside():
            if isinstance(shown, str | Styled):
                shown = Indented(plain(shown) if isinstance(shown, str) else shown, 0, hang=2)
            ended = isinstance(shown, Indented)  # it ends its own lines
            self._console.print(shown, end="" if ended else "\n")

    def unfold(self, number: int | None) -> None:
        """Show a result whole; without a number, list the results."""
        kept = self._trace.results or ()
        if number is None:
            titles = [fit(f"{each.number}. {each.title}", self._console.width - 1) for each in kept]
            self.show("\n".join(titles[-MAX_LISTED:]) or "there is no result yet")
        elif found := [each for each in kept if each.number == number]:
            self._show_whole(found[0])
        else:
            known = "none yet"
            if kept:
                known = f"from {kept[0].number} to {kept[-1].number}"
            raise UsageError(f"no result has the number {number}", hint=f"results: {known}")

    def unfold_last(self) -> bool:
        """Show the last result whole; return False if there is none."""
        if self._trace.results:
            self._show_whole(self._trace.results[-1])
        return bool(self._trace.results)

    def _show_whole(self, result: ShownResult) -> None:
        self.show(Styled(f"{result.number}. {result.title}", "bold"))
        self.show(Indented(render(result.value, self._find, result.distribution, lines=None), 2))

    def show_message(self, text: str) -> None:
        """Show a message of the person, unless the terminal has it already."""
        if self._echo:
            head, *more = readable(text).split("\n")
            said = Styled.assemble(("\n> ", "bold cyan"), (head, "bold"))
            for line in more:
                said.append(f"\n  {line}")
            self.show(Indented(said, 0, hang=2))

    def show_answer(self, text: str) -> None:
        """Show an answer of the resumed session."""
        from forge_cli.ui.terminal.markdown import DrawnMarkdown

        drawn = DrawnMarkdown(readable(text))
        self._console.print(drawn if self._console.is_terminal else plain(text), end="")

    async def ask(self, prompt: str) -> str | None:
        """Return a typed line; None at the end of input, or if the person leaves the question."""
        with self._own_question():
            return await self.read_line(prompt)
        return None  # the scope was cancelled, or the question left

    async def read_line(self, prompt: str) -> str | None:
        """Return a typed line; None at the end of input."""
        if not self._interactive:
            return None
        async with self.asking():
            line = await self._lines.read(visible(prompt))
        if line is None:
            return None
        return line.rstrip("\n")

    async def fill(self, tool: Tool, given: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Ask for the missing arguments of a tool; None if the person leaves the form."""
        if not self._interactive:
            raise UsageError("-i asks questions, but there is no terminal for them")
        with self._own_question():
            async with self.asking():
                return await fill_form(tool, given, self._lines)
        return None

    @contextmanager
    def _own_question(self) -> Iterator[None]:
        """Register a question that a command of the person asks."""
        try:
            with anyio.CancelScope() as self._own, suppress(QuestionLeft):
                yield
        finally:
            self._own = None

    def leave_own_question(self) -> bool:
        """Cancel the question of a command; return False if there is none."""
        if self._own is None:
            return False
        if not self._lines.take_away():
            self._console.print()  # the cursor is within the line
        self._own.cancel()
        return True

    def leave_questions(self) -> None:
        """Cancel all open questions."""
        self.leave_own_question()
        for question in self._prompts.values():
            question.cancel()

    def _stop_turn(self, left: QuestionLeft) -> None:
        self._on_stop(left)

    def _live_lines(self, seconds: float) -> list[str]:
        """Return the running calls and the activity of the worker."""
        since = self._since()
        calls = tuple(self._trace.open_calls.values())
        keys = " · Esc interrupts"
        if self._status.activity == STOPPING:
            keys = ""
        width = self._console.width - 1
        shown: list[str] = []
        if self._trace.shows_calls:
            for call in calls:
                shown += call.live_lines(seconds, width, keys if call is calls[-1] else "")
        text = self._open_text()
        if since is None or shown:
            return [*text, *shown]
        took = duration(time.monotonic() - since)
        if calls:
            activity = f"running {calls[-1].name}"
        else:
            activity = self._status.doing
        line = f"{cyan(spin(seconds))} {dim(f'{activity} · {took}{keys}')}"
        return [*text, line, *self._status.problem]

    def _show(self, event: Event) -> None:
        is_text = isinstance(event, Streaming) and event.origin is None and not event.done
        if isinstance(event, Streaming) and is_text and self._stream_text:
            self._deltas.append(event)
            if self._timer is None:
                loop = asyncio.get_running_loop()
                pause = max(0.0, self._drawn + BATCH_INTERVAL - time.monotonic())
                self._timer = loop.call_later(pause, self._show_deltas)
            return
        self._show_deltas()  # the text before this event
        if isinstance(event, SessionEnd):
            self._trace.tell_background()
        else:
            super()._show(event)

    def _show_deltas(self) -> None:
        """Draw all text since the last drawing together."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._deltas:
            text = "".join(event.delta for event in self._deltas)
            request = self._deltas[0].request_id
            self._deltas.clear()
            self._drawn = time.monotonic()
            super()._show(Streaming(request, text, done=False))

    def _draw(self, event: Event) -> None:
        match event:
            case ApprovalRequired():
                self._on_question()
                super()._draw(event)
            case ToolResult() if event.tool_call_id.startswith(MANUAL) and not event.parent_call_id:
                self._draw_own(event)
            case _:
                super()._draw(event)

    def _draw_own(self, event: ToolResult) -> None:
        """Show the result of a call by the person, always whole."""
        key = call_key(event, event.tool_call_id)
        call = self._trace.open_calls.pop(key, None)
        self._trace.show_ended()  # results that waited for this call
        if not self._console.is_terminal:
            text = event.error or render_text(view_of(event.value, self._find, event.distribution))
            if event.status == "success":
                stream = self._output
            else:
                stream = self._console.file
            stream.write(f"{text}\n")
            stream.flush()
            return
        self._close_line()
        mark, style = mark_of(event.status)
        facts = ""
        if event.error:
            facts += f" · {visible(describe_error(event, event.error))}"
        if event.duration_ms >= SLOW:
            facts += f" · {call_duration(event.duration_ms)}"
        head = f" {visible(event.tool_name)} "
        room = max(self._console.width - 1 - cell_width(f"{mark}{head}{facts}"), MIN_ARGS)
        args = fit_path(call.args, call.path, room) if call else ""
        look = style if event.error else "dim"
        self._console.print(Styled.assemble((mark, style), head, (args, "dim"), (facts, look)))
        view = view_of(event.value, self._find, event.distribution)
        if event.error and isinstance(event.value, Custom) and isinstance(view.data, str):
            # The line of the call has the summary already.
            view = replace(view, data=view.data.removesuffix(event.value.summary or ""))
        if view.data and event.value.text() != event.error:
            self._console.print(Indented(render_view(view, lines=None), 2), end="")

    def _leaves_a_line_open(self, event: Event) -> bool:
        if isinstance(event, Interrupt):
            return bool(self._prompts)
        return super()._leaves_a_line_open(event)
