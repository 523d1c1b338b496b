"""The terminal: streams the answer to standard output, traces to standard error, and asks when a call needs consent."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self, TextIO

import anyio
from anyio.abc import TaskGroup

from forge_cli.core.approval import ApprovalRequest
from forge_cli.core.bus import EventBus
from forge_cli.core.events import (
    ApprovalDecided,
    ApprovalRequired,
    Event,
    InputPrompt,
    Interrupt,
    SessionEnd,
    StatusEvent,
    Streaming,
    ToolResult,
    UserInput,
)
from forge_cli.core.results import Diff, Text
from forge_cli.core.text import readable, visible
from forge_cli.files.settings import TraceLevel
from forge_cli.ui.terminal.console import new_console
from forge_cli.ui.terminal.line import LineEditor
from forge_cli.ui.terminal.markdown import MarkdownStream
from forge_cli.ui.terminal.prompts import ask_on_terminal
from forge_cli.ui.terminal.trace import trace_formatter
from forge_cli.ui.terminal.wrap import terminal_width
from forge_cli.ui.views import FindRenderer, is_hidden, no_renderers

Call = tuple[str | None, str]


def _call(event: Event, call: str) -> Call:
    """What tells a call from those of other workers, whose models may give the same ids."""
    return event.origin.delegation if event.origin else None, call


class TerminalUI:
    """Subscribes to a bus for as long as it is entered (``async with``); it only knows events."""

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
    ) -> None:
        """``output`` gets the answer as it comes, ``trace_output`` trace and prompts; ``input`` is what prompts read.

        They are standard output, standard error and standard input; with an ``output`` of its own, the trace and the
        prompts go there, too. ``interactive`` promises an answer to every prompt: without it, that holds where there
        is an ``input``, or a terminal on both ends. Without a ``session`` a yes is for once.
        """
        if interactive is None:
            interactive = input is not None or (sys.stdin.isatty() and sys.stderr.isatty())
        self._bus = bus
        self._output = output or sys.stdout
        self._console = new_console(trace_output or output)
        self._lines = LineEditor(self._console, input)
        self._inputs: list[str] = []
        self._session = session
        self._trace = trace_formatter(trace, self._console, find)
        self._stream_text = stream_text
        self._interactive = interactive
        self._find = find
        self._prompts: dict[Call, anyio.CancelScope] = {}
        self._seen_diffs: set[Call] = set()
        self._tasks: TaskGroup
        self._stack = AsyncExitStack()
        self._open_line = False
        self._streamed = ""
        styled = new_console(self._output).color_system is not None
        self._markdown = MarkdownStream(partial(terminal_width, self._output), styled=styled)

    async def __aenter__(self) -> Self:
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        self._stack.callback(self._tasks.cancel_scope.cancel)
        self._stack.callback(self._bus.subscribe(self._show, answers=self._interactive))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)

    def _show(self, event: Event) -> None:
        prompt = None
        if isinstance(event, ToolResult | ApprovalDecided):
            prompt = self._prompts.get(_call(event, event.tool_call_id))
        if prompt or isinstance(event, Interrupt):
            self._lines.leave()
        with self._lines.aside():
            self._draw(event)
        if prompt:
            prompt.cancel()

    def _draw(self, event: Event) -> None:
        if self._interactive and self._leaves_a_line_open(event):
            self._console.print()
        match event:
            case Streaming() if self._stream_text:
                if event.origin is None:
                    self._stream(event)
            case StatusEvent(level="warning" | "error") | SessionEnd() | Interrupt():
                self._write(self._markdown.end())
                self._trace(event)
            case ApprovalRequired() if self._interactive:
                self._tasks.start_soon(self._ask, event.request, _call(event, event.request.tool_call_id))
            case InputPrompt() if self._interactive:
                self._tasks.start_soon(self._ask_input, event)
            case ToolResult(value=Diff() as diff) if self._has_shown(event) and not is_hidden(diff):
                self._trace(replace(event, value=Text(diff.text())))
            case _:
                self._trace(event)

    def _has_shown(self, event: ToolResult) -> bool:
        """Was what a call has done shown before it was done?"""
        return _call(event, event.tool_call_id) in self._seen_diffs

    def _leaves_a_line_open(self, event: Event) -> bool:
        """After ``^C`` or an abandoned prompt the cursor stands somewhere in a line."""
        match event:
            case Interrupt():
                return True
            case ApprovalDecided(tool_call_id=call):
                return _call(event, call) in self._prompts
            case ToolResult(status=status, tool_call_id=call) if status != "interrupted":
                return _call(event, call) in self._prompts
            case _:
                return False

    def _stream(self, event: Streaming) -> None:
        text = readable(event.delta, after=self._streamed)
        self._streamed = (self._streamed + event.delta)[-4:]
        if self._output.isatty():
            text = self._markdown.feed(text) + (self._markdown.end() if event.done else "")
        self._write(text)
        if event.done and self._open_line:
            self._write("\n")

    def _write(self, text: str) -> None:
        if text:
            self._open_line = not text.endswith("\n")
            self._output.write(text)
            self._output.flush()

    async def _ask(self, request: ApprovalRequest, call: Call) -> None:
        """Prompt until there is an answer, or until the call has ended without one."""
        with anyio.CancelScope() as scope:
            self._prompts[call] = scope
            if isinstance(request.preview, Diff):
                self._seen_diffs.add(call)
            try:
                asked = request if self._session else replace(request, once=True)
                decision = await ask_on_terminal(asked, self._lines, self._find)
            finally:
                del self._prompts[call]
            self._bus.answer(request.request_id, decision)

    async def _ask_input(self, event: InputPrompt) -> None:
        line = await self._lines.read(visible(event.prompt), self._inputs)
        self._bus.emit(UserInput(event.request_id, (line or "").rstrip("\n")))
