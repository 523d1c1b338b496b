"""Draws a conversation: as a task is, but in batches, and with what a person did in it."""

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
    LEAST,
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

KEPT = 100
"""Results that can be shown whole afterwards."""
LISTED = 20
BATCH = 0.07
"""Seconds between two drawings of what streams in."""


class ChatUI(TerminalUI):
    """A terminal that several messages are worked on at; ``output`` is where answers go."""

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
        """``echo`` shows what was said, where it is not on the terminal yet.

        ``since`` tells when the message at hand was sent; ``on_question`` is called when somebody is asked, ``on_stop``
        when they leave the question by Esc or Ctrl+C.
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
        self._trace.results = deque(maxlen=KEPT)
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
        """Show something of ours; a string as it is."""
        self._show_deltas()
        self._close_line()
        with self._lines.aside():
            if isinstance(shown, str | Styled):
                shown = Indented(plain(shown) if isinstance(shown, str) else shown, 0, hang=2)
            ended = isinstance(shown, Indented)  # it ends its own lines
            self._console.print(shown, end="" if ended else "\n")

    def unfold(self, number: int | None) -> None:
        """Show the result of that number whole; without one, list those that can be."""
        kept = self._trace.results or ()
        if number is None:
            titles = [fit(f"{each.number}. {each.title}", self._console.width - 1) for each in kept]
            self.show("\n".join(titles[-LISTED:]) or "there is no result yet")
        elif found := [each for each in kept if each.number == number]:
            self._show_whole(found[0])
        else:
            known = f"from {kept[0].number} to {kept[-1].number}" if kept else "none yet"
            raise UsageError("there is no such result", hint=f"the numbers of results: {known}")

    def unfold_last(self) -> bool:
        if self._trace.results:
            self._show_whole(self._trace.results[-1])
        return bool(self._trace.results)

    def _show_whole(self, result: ShownResult) -> None:
        self.show(Styled(f"{result.number}. {result.title}", "bold"))
        self.show(Indented(render(result.value, self._find, result.distribution, lines=None), 2))

    def show_message(self, text: str) -> None:
        if self._echo:
            head, *more = readable(text).split("\n")
            said = Styled.assemble(
                ("\n> ", "bold cyan"), (head, "bold"), *(f"\n  {line}" for line in more)
            )
            self.show(Indented(said, 0, hang=2))

    def show_answer(self, text: str) -> None:
        """Show what the worker said in an earlier conversation."""
        from forge_cli.ui.terminal.markdown import DrawnMarkdown

        drawn = DrawnMarkdown(readable(text))
        self._console.print(drawn if self._console.is_terminal else plain(text), end="")

    async def ask(self, prompt: str) -> str | None:
        """A line that the person types; None where there is none, or they leave the question."""
        with self._own_question():
            return await self.read_line(prompt)
        return None

    async def read_line(self, prompt: str) -> str | None:
        if not self._interactive:
            return None
        async with self.asking():
            line = await self._lines.read(visible(prompt))
        return None if line is None else line.rstrip("\n")

    async def fill(self, tool: Tool, given: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if not self._interactive:
            raise UsageError("-i asks questions, and there is no terminal to ask them on")
        with self._own_question():
            async with self.asking():
                return await fill_form(tool, given, self._lines)
        return None

    @contextmanager
    def _own_question(self) -> Iterator[None]:
        """A command of the person asks them something, until this is left."""
        try:
            with anyio.CancelScope() as self._own, suppress(QuestionLeft):
                yield
        finally:
            self._own = None

    def leave_own_question(self) -> bool:
        """Leave what a command of the person asks them; False where nothing is asked."""
        if self._own is None:
            return False
        if not self._lines.take_away():
            self._console.print()  # the cursor stands in the line
        self._own.cancel()
        return True

    def leave_questions(self) -> None:
        """Nothing is answered any more."""
        self.leave_own_question()
        for question in self._prompts.values():
            question.cancel()

    def _stop_turn(self, left: QuestionLeft) -> None:
        self._on_stop(left)

    def _live_lines(self, seconds: float) -> list[str]:
        """The calls that run, and what the worker is doing."""
        since = self._since()
        calls = tuple(self._trace.open_calls.values())
        keys = "" if self._status.activity == STOPPING else " · Esc interrupts"
        width = self._console.width - 1
        shown: list[str] = []
        for call in calls if self._trace.shows_calls else ():
            shown += call.live_lines(seconds, width, keys if call is calls[-1] else "")
        text = self._open_text()
        if since is None or shown:
            return [*text, *shown]
        took = duration(time.monotonic() - since)
        activity = f"running {calls[-1].name}" if calls else self._status.doing
        line = f"{cyan(spin(seconds))} {dim(f'{activity} · {took}{keys}')}"
        return [*text, line, *self._status.problem]

    def _show(self, event: Event) -> None:
        if (
            isinstance(event, Streaming)
            and event.origin is None
            and not event.done
            and self._stream_text
        ):
            self._deltas.append(event)
            if self._timer is None:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(
                    max(0.0, self._drawn + BATCH - time.monotonic()), self._show_deltas
                )
            return
        self._show_deltas()
        if isinstance(event, SessionEnd):
            self._trace.tell_background()
        else:
            super()._show(event)

    def _show_deltas(self) -> None:
        """Draw the text since the last time in one go."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._deltas:
            text, request = (
                "".join(event.delta for event in self._deltas),
                self._deltas[0].request_id,
            )
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
        """The result of a call that the person made: whole, since it was asked for."""
        key = call_key(event, event.tool_call_id)
        call = self._trace.open_calls.pop(key, None)
        self._trace.show_ended()
        if not self._console.is_terminal:
            text = event.error or render_text(view_of(event.value, self._find, event.distribution))
            stream = self._output if event.status == "success" else self._console.file
            stream.write(f"{text}\n")
            stream.flush()
            return
        self._close_line()
        mark, style = mark_of(event.status)
        facts = [
            *([describe_error(event, event.error)] if event.error else []),
            *([call_duration(event.duration_ms)] * (event.duration_ms >= 1000)),
        ]
        told = "".join(f" · {visible(fact)}" for fact in facts)
        head = f" {visible(event.tool_name)} "
        room = max(self._console.width - 1 - cell_width(f"{mark}{head}{told}"), LEAST)
        args = fit_path(call.args, call.path, room) if call else ""
        self._console.print(
            Styled.assemble(
                (mark, style), head, (args, "dim"), (told, style if event.error else "dim")
            )
        )
        view = view_of(event.value, self._find, event.distribution)
        if event.error and isinstance(event.value, Custom) and isinstance(view.data, str):
            view = replace(
                view, data=view.data.removesuffix(event.value.summary or "")
            )  # its line says that already
        if view.data and event.value.text() != event.error:
            self._console.print(Indented(render_view(view, lines=None), 2), end="")

    def _leaves_a_line_open(self, event: Event) -> bool:
        return (
            bool(self._prompts)
            if isinstance(event, Interrupt)
            else super()._leaves_a_line_open(event)
        )
