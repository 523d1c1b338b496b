"""The terminal UI: the answer on standard output, the trace and questions on standard error."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from forge_cli.core import events
from forge_cli.core.actions import Interrupt, ManualToolInvoke, UserInput
from forge_cli.core.approval import ApprovalRequest
from forge_cli.core.bus import EventBus
from forge_cli.core.interrupt import HUNG_UP
from forge_cli.core.notify import RetryNotice
from forge_cli.core.results import Diff
from forge_cli.core.text import counted, readable, visible
from forge_cli.files.settings import TraceLevel
from forge_cli.ui.terminal.calls import CallKey, call_key
from forge_cli.ui.terminal.console import new_console
from forge_cli.ui.terminal.input import LineReader
from forge_cli.ui.terminal.keys import QuestionLeft
from forge_cli.ui.terminal.live import LiveArea, Status
from forge_cli.ui.terminal.prompts import ask_on_terminal
from forge_cli.ui.terminal.render import plain
from forge_cli.ui.terminal.trace import Trace
from forge_cli.ui.views import FindRenderer, no_renderers, view_of
from forge_cli.ui.wrap import terminal_width

if TYPE_CHECKING:
    from forge_cli.ui.terminal.markdown import MarkdownStream

STOPPING = "stopping"
WAIT_NOTICE_AFTER = 5.0
"""Seconds after which a terminal without a status line reports once that it waits for the model."""
STATUS_AFTER = 0.7
"""Seconds without new text after which the status line is shown again below it."""


class TerminalUI:
    """A terminal UI that shows the events of a bus while it is entered (``async with``)."""

    def __init__(
        self,
        bus: EventBus,
        *,
        output: TextIO | None = None,
        input: TextIO | None = None,
        trace: TraceLevel = "normal",
        trace_output: TextIO | None = None,
        stream_text: bool = True,
        interactive: bool | None = None,
        session: bool = True,
        find: FindRenderer = no_renderers,
        live: LiveArea | None = None,
    ) -> None:
        """Write the answer to ``output``, trace and prompts to ``trace_output``; read ``input``.

        The defaults are the standard streams; with an ``output``, trace and prompts go there, too.
        ``interactive`` promises an answer to every prompt; by default it is True with an ``input``,
        or with a terminal on both ends. Without a ``session`` a yes counts once. ``live`` draws the
        status below the last line of the terminal.
        """
        if interactive is None:
            interactive = input is not None or (sys.stdin.isatty() and sys.stderr.isatty())
        self._bus = bus
        self._output = output or sys.stdout
        self._console = new_console(trace_output or output)
        self._lines = LineReader(self._console, input)
        self._session = session
        self._live = live
        self._trace = Trace(
            trace, self._console, find, live=live is not None, before_line=self._close_line
        )
        self._status = Status()
        self._prints_wait_notice = live is None and self._console.is_terminal and trace != "quiet"
        self._wait_timer: asyncio.TimerHandle | None = None
        self._stream_text = stream_text
        self._interactive = interactive
        self._find = find
        self._prompts: dict[CallKey | str, anyio.CancelScope] = {}
        """Open questions, by the call that needs consent or by the request for a line."""
        self._asked: CallKey | str | None = None
        """The question that is shown."""
        self._one_question = anyio.Lock()
        self._tasks: TaskGroup
        self._stack = AsyncExitStack()
        self._open_line = False
        self._streamed = ""
        self._markdown: MarkdownStream | None = None
        """Draws the answer on a terminal, once there is some."""
        self._last_text = float("-inf")
        self._text_is_done = False
        """Whether the answer has ended; after a length limit, the next turn may continue it."""
        self._after_text: list[events.Event] = []
        """Warnings to print after the answer."""

    async def __aenter__(self) -> Self:
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        # Called in reverse: the live lines end first, open questions last.
        self._stack.callback(self._tasks.cancel_scope.cancel)
        self._stack.callback(self._bus.subscribe(self._show, answers=self._interactive))
        self._stack.callback(self._stop_waiting)
        self._stack.callback(self._finish_text)
        if self._live:
            self._live.lines = self._live_lines
            self._stack.callback(self._live.close)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)

    def opening(self, model: str | None) -> None:
        """Show that a worker with this model is being opened, which may take a while."""
        self._status.model = visible(model or "")
        self._status.activity = "connecting"
        self._wait_for(model or "the model")

    @asynccontextmanager
    async def asking(self, question: CallKey | str | None = None) -> AsyncIterator[None]:
        """Reserve the terminal for one question."""
        async with self._one_question:
            self._close_line()
            async with self._live.hidden() if self._live else nullcontext():
                self._asked = question
                try:
                    yield
                finally:
                    self._asked = None

    def _show(self, event: events.Event) -> None:
        over = [key for key in self._prompts if self._ends(event, key)]
        taken_away = self._asked in over and self._lines.take_away()  # before the event is drawn
        with self._lines.aside():
            if self._interactive and not taken_away and self._leaves_a_line_open(event):
                self._console.print()
            self._draw(event)
        for key in over:
            self._prompts.pop(key).cancel()

    def _ends(self, event: events.Event, question: CallKey | str) -> bool:
        """Return True if the event settles the question."""
        match event:
            case Interrupt():
                return True
            case events.ApprovalDecided():
                return question == call_key(event, event.tool_call_id)
            case events.ToolResult() if isinstance(question, str):
                return not self._bus.is_open(question)
            case events.ToolResult():
                return question == call_key(event, event.tool_call_id)
            case UserInput():
                return question == event.request_id
            case _:
                return False

    def _draw(self, event: events.Event) -> None:
        self._note(event)
        if self._text_is_done and not _may_go_on(event):
            self._finish_text()
        match event:
            case events.Streaming() if self._stream_text:
                if event.origin is None:
                    self._stream(event)
            case events.StatusEvent(about="retry") if self._live:
                if self._trace.level == "debug":
                    self._trace(event)
            case events.StatusEvent(about="prompt") if self._trace.level != "debug":
                pass
            case events.StatusEvent(about="void") if event.origin or not self._stream_text:
                pass  # no text of that answer was shown
            case events.StatusEvent(about="void") if self._markdown:
                self._markdown.drop()
                if self._markdown.begun or not self._live:
                    self._trace(event)
                self._end_text()
            case events.StatusEvent(level="warning", about=None) if (
                self._is_within_text and self._stream_text
            ):
                self._after_text.append(event)
            case events.StatusEvent(level="warning" | "error") | events.SessionEnd():
                self._finish_text()
                self._trace(event)
            case events.ApprovalRequired() if self._interactive:
                self._tasks.start_soon(
                    self._ask, event.request, call_key(event, event.request.tool_call_id)
                )
            case events.ApprovalDecided(via=str() as via) if (
                call_key(event, event.tool_call_id) in self._prompts
            ):
                # The answer of another program, to the question on the screen.
                answer = "yes" if event.approved else "no"
                self._console.print(plain(visible(f"answered by {via}: {answer}"), style="bold"))
                self._trace(event)
            case events.InputPrompt() if self._interactive:
                self._tasks.start_soon(self._ask_input, event)
            case _:
                self._trace(event)

    def _note(self, event: events.Event) -> None:
        """Update the status line from an event."""
        status = self._status
        who = ""
        if event.origin:
            who = f"{visible(event.origin.worker)}: "
        match event:
            case events.SessionStart():
                status.model = visible(event.model)
            case events.StatusEvent(retry=RetryNotice() as retry):
                status.wait(replace(retry, problem=visible(retry.problem)))
            case events.StatusEvent(about="prompt", message=message):
                status.activity = f"{who}{visible(message)}"
            case events.TurnStart():
                status.wait(None)
                status.activity = f"{who}thinking"
                self._wait_for(status.model)
            case events.Streaming(done=False):
                status.wait(None)
                status.activity = f"{who}writing"
                self._stop_waiting()
            case events.TurnEndEvent():
                status.wait(None)
                used = event.usage
                status.tokens_in += used.sent_tokens
                status.tokens_out += used.output_tokens
                self._stop_waiting()
            case Interrupt():
                status.wait(None)
                status.activity = STOPPING
            case ManualToolInvoke() if status.activity == STOPPING:  # a call after an interrupt
                status.activity = "working"
            case events.SessionEnd() if self._live:
                self._live.close()
            case _:
                pass

    def _live_lines(self, seconds: float) -> list[str]:
        """Return the running calls, one line each, and the status line."""
        calls = tuple(self._trace.open_calls.values())
        width = self._console.width - 1
        shown: list[str] = []
        if self._trace.shows_calls:
            for call in calls:
                shown += call.live_lines(seconds, width)
        running = [call for call in calls if not call.result]
        match running if self._status.activity != STOPPING else []:
            case []:
                activity = self._status.doing
            case [call]:
                activity = f"running {call.name}"
                if call.output and not shown:
                    activity += f": {call.output[-1]}"
            case several:
                activity = f"running {counted(len(several), 'call')}"
        text = self._open_text()
        if text and time.monotonic() - self._last_text < STATUS_AFTER:
            return text  # a status line below growing text would jump
        return [
            *text,
            *shown,
            self._status.line(seconds, activity, spinning=not shown),
            *self._status.problem,
        ]

    def _open_text(self) -> list[str]:
        """Return the last block of the answer, which is still incomplete."""
        if self._markdown:
            return self._markdown.open_lines()
        return []

    def _wait_for(self, model: str) -> None:
        """Schedule a notice that the model is awaited, if no status line can be drawn."""
        self._stop_waiting()
        if self._prints_wait_notice:
            loop = asyncio.get_running_loop()
            self._wait_timer = loop.call_later(WAIT_NOTICE_AFTER, self._print_wait_notice, model)

    def _print_wait_notice(self, model: str) -> None:
        self._close_line()
        self._console.print(plain(visible(f"waiting for {model}"), style="dim"))

    def _stop_waiting(self) -> None:
        if self._wait_timer:
            self._wait_timer.cancel()
            self._wait_timer = None

    def _leaves_a_line_open(self, event: events.Event) -> bool:
        """Return True if the cursor is within a line: after ``^C`` or an abandoned prompt."""
        match event:
            case Interrupt():
                return True
            case events.ApprovalDecided(tool_call_id=call):
                return call_key(event, call) in self._prompts
            case events.ToolResult(status=status, tool_call_id=call) if status != "interrupted":
                return call_key(event, call) in self._prompts
            case _:
                return False

    def _stream(self, event: events.Streaming) -> None:
        self._text_is_done = event.done
        # Characters that join across two deltas are judged together.
        text = readable(event.delta, after=self._streamed)
        self._streamed = (self._streamed + event.delta)[-4:]  # enough for joined characters
        if self._output.isatty():
            self._last_text = time.monotonic()
            self._markdown = self._markdown or self._new_markdown()
            text = self._markdown.feed(text)
        self._write(text)

    @property
    def _is_within_text(self) -> bool:
        return self._open_line or bool(self._markdown and self._markdown.is_open)

    def _finish_text(self) -> None:
        """End the answer and its last line, then print the warnings that it held back."""
        if self._text_is_done or self._after_text:
            self._text_is_done = False
            self._end_text()
            self._write("\n" if self._open_line else "")
        else:
            self._end_text()
        waiting, self._after_text = self._after_text, []
        for event in waiting:
            self._trace(event)

    def _new_markdown(self) -> MarkdownStream:
        # Imported when there is an answer to draw, because it is slow.
        from forge_cli.ui.terminal.markdown import MarkdownStream

        styled = new_console(self._output).color_system is not None
        return MarkdownStream(partial(terminal_width, self._output), styled=styled)

    def _end_text(self) -> None:
        """Print the last block of the answer, which is complete now."""
        self._write(self._markdown.end() if self._markdown else "")

    def _write(self, text: str) -> None:
        if text:
            self._trace.begin_text()
            self._open_line = not text.endswith("\n")
            self._output.write(text)
            self._output.flush()

    def _close_line(self) -> None:
        """End an open line of text before other output on the same terminal."""
        if self._console.is_terminal:
            self._end_text()
            self._write("\n" if self._open_line else "")

    async def _ask(self, request: ApprovalRequest, call: CallKey) -> None:
        """Ask until there is an answer, or until the call has ended without one."""
        preview = request.preview
        if isinstance(preview, Diff) or (preview and view_of(preview).form == "diff"):
            self._trace.seen_diffs.add(call)
        asked = request
        if not self._session:
            asked = replace(request, once=True, offers=None, policy_files=None)
        with self._question(call) as question:
            async with self.asking(call):
                decision = await ask_on_terminal(asked, self._lines, self._find)
            if not question.cancel_called:
                self._bus.answer(request.request_id, decision)

    async def _ask_input(self, event: events.InputPrompt) -> None:
        with self._question(event.request_id):
            async with self.asking(event.request_id):
                line = await self._lines.read(visible(event.prompt))
            del self._prompts[event.request_id]  # this answer must not cancel its own question
            if self._bus.is_open(event.request_id):
                self._bus.emit(UserInput(event.request_id, (line or "").rstrip("\n")))

    @contextmanager
    def _question(self, key: CallKey | str) -> Iterator[anyio.CancelScope]:
        """Register an open question; leaving it, or a closed terminal, stops the turn."""
        with anyio.CancelScope() as scope:
            self._prompts[key] = scope
            try:
                yield scope
            except QuestionLeft as left:
                self._stop_turn(left)
            finally:
                self._prompts.pop(key, None)

    def _stop_turn(self, left: QuestionLeft) -> None:
        if left.ctrl_c:  # a key at the question, which the runtime expects as a signal
            signal.raise_signal(signal.SIGINT)
        else:
            self._bus.emit(Interrupt(HUNG_UP if left.hung_up else "interrupted"))


def _may_go_on(event: events.Event) -> bool:
    """Return True if the answer before the event may continue after it."""
    if event.origin is not None:
        return False
    match event:
        case (
            events.Streaming(done=False)
            | events.MessageEvent()
            | events.TurnStart()
            | events.ContextUsage()
        ):
            return True
        case events.TurnEndEvent(stop=stop):
            return stop == "max_tokens"
        case events.StatusEvent(level=level):
            return level != "error"
        case _:
            return False
