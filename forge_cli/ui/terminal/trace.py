"""The trace: what happens while a worker works, told on standard error, as much of it as one wants to know."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console

from forge_cli.core.events import (
    ApprovalDecided,
    ContextUsage,
    Event,
    ManualToolsAvailable,
    NetworkAccess,
    Origin,
    SessionEnd,
    SessionStart,
    StatusEvent,
    ToolResult,
    ToolStarted,
    TurnEndEvent,
    TurnStart,
    WorkerUpdate,
)
from forge_cli.core.messages import Usage
from forge_cli.core.notify import COMMANDS, UNCONFINED_RULES
from forge_cli.core.phrases import INTERRUPTED_CALL
from forge_cli.core.results import ResultValue, from_wire
from forge_cli.core.text import MORE, counted, cut, visible
from forge_cli.core.wire import jsonable
from forge_cli.files.settings import TraceLevel
from forge_cli.sandbox.secrets import Redactor
from forge_cli.ui.terminal.console import new_console
from forge_cli.ui.terminal.render import Indented, plain, render
from forge_cli.ui.views import FindRenderer, no_renderers

SHOWN = 200
"""Characters of an argument; the record has all of them."""

LEVELS: tuple[TraceLevel, ...] = ("quiet", "summary", "normal", "debug")


def trace_formatter(
    level: TraceLevel = "normal", console: Console | None = None, find: FindRenderer = no_renderers
) -> Callable[[Event], None]:
    """A handler for ``on_event`` that writes the trace to standard error, without secrets."""
    if level not in LEVELS:
        raise ValueError(f"trace must be one of {', '.join(LEVELS)}, not {level!r}")
    return _Trace(LEVELS.index(level), console or new_console(), find)


class _Trace:
    def __init__(self, level: int, console: Console, find: FindRenderer) -> None:
        self._level = level
        self._console = console
        self._find = find
        self._redactor = Redactor(os.environ)
        self._from: Origin | None = None

    def __call__(self, event: Event) -> None:
        self._from = event.origin
        match event:
            case StatusEvent(level="error"):
                self._line(0, f"error: {event.message}", "red")
            case StatusEvent(level="warning"):
                self._line(0 if event.message == UNCONFINED_RULES else 1, f"warning: {event.message}", "yellow")
            case StatusEvent(tool_call_id=None):
                self._line(2 if event.message.startswith(COMMANDS) else 1, event.message, "dim")
            case StatusEvent():
                self._line(2, f"  {_percent(event.progress)}{event.message}", "dim")
            case ToolStarted():
                args = format_args(self._redactor.redact(jsonable(event.args)))
                inner = "  " if event.parent_call_id else ""
                self._line(2, inner + " ".join([">", event.tool_name, *args]), "cyan")
            case ToolResult():
                self._result(event)
            case ManualToolsAvailable():
                names = ", ".join(str(tool["name"]) for tool in event.tools)
                self._line(3, f"tools for people: {names}", "dim")
            case SessionStart():
                settings = f"model {event.model}, workspace {event.workspace}, approval mode {event.approval_mode}"
                self._line(3, settings, "dim")
            case TurnStart():
                tools = ", ".join(event.tools) or "none"
                took = "" if event.refresh_ms is None else f" (found in {event.refresh_ms:g} ms)"
                self._line(3, f"turn {event.turn}: request {event.request_digest[:12]}, tools{took}: {tools}", "dim")
            case TurnEndEvent():
                self._line(3, f"turn {event.turn} ended ({event.stop}): {_tokens(vars(event.usage))}", "dim")
            case ContextUsage():
                share = f" of {event.window} ({event.used / event.window:.0%})" if event.window else ""
                self._line(3, f"the history holds {event.used} tokens{share}", "dim")
            case ApprovalDecided():
                place = f" ({event.where})" if event.where else ""
                answer = "yes" if event.approved else "no"
                self._line(3, f"  {event.verdict} -> {answer} by {event.by}: {event.reason}{place}", "dim")
            case NetworkAccess():
                self._line(2, f"  {event.sentence()}", "dim")
            case WorkerUpdate(status="started" | "resumed"):
                self._line(2, f"{event.status} by {event.parent}", "cyan")
            case WorkerUpdate():
                used = f": {counted(event.turns or 0, 'turn')}, {_tokens(vars(event.usage or Usage()))}"
                why = f": {event.error}" if event.error else used
                self._line(2, f"{event.status}{why}", "green" if event.status == "completed" else "red")
            case SessionEnd():
                self._line(1, _summary(event.result), "dim")
            case _:
                return

    def _line(self, level: int, text: str, style: str) -> None:
        if self._level >= level:
            who = f"{self._indent}{self._from.worker}: " if self._from else ""
            self._console.print(plain(visible(who + self._redactor.redact_text(text)), style=style))

    @property
    def _indent(self) -> str:
        """What a child worker does is indented further than what its parent does."""
        return "  " * self._from.depth if self._from else ""

    def _result(self, event: ToolResult) -> None:
        if self._level < 2:
            return
        took = f" in {event.duration_ms} ms" if self._level > 2 else ""
        why = (
            "" if event.error in (None, INTERRUPTED_CALL) else f": {cut(self._redactor.redact_text(event.error), 2000)}"
        )
        self._line(2, f"  {event.status}{took}{why}", "green" if event.status == "success" else "red")
        if event.value.text() != event.error:
            shown = render(self._redacted(event.value), self._find, event.distribution)
            self._console.print(Indented(shown, 4 + len(self._indent)), end="")

    def _redacted(self, value: ResultValue) -> ResultValue:
        told = value.wire()
        redacted = self._redactor.redact(told)
        return value if redacted == told else from_wire(redacted)


def _percent(progress: float | None) -> str:
    return "" if progress is None else f"{progress:.0%} "


def format_args(args: Mapping[str, Any]) -> list[str]:
    texts = {name: json.dumps(jsonable(value), ensure_ascii=False) for name, value in args.items()}
    return [f"{name}={cut(text, SHOWN, 'end', mark=MORE)}" for name, text in texts.items()]


def _summary(result: Mapping[str, Any]) -> str:
    denied = len(result.get("denials", ()))
    refused = f" ({denied} refused)" if denied else ""
    return (
        f"{result['status']}: {counted(result['turns'], 'turn')}, {counted(result['tool_calls'], 'call')}{refused}, "
        f"{_tokens(result.get('usage', {}))}, {result['duration_ms'] / 1000:.1f} s"
    )


def _tokens(usage: Mapping[str, int]) -> str:
    """What was sent and received; what the cache of the provider knew or now keeps counts beside it."""
    read, written = usage.get("cache_read_tokens", 0), usage.get("cache_write_tokens", 0)
    cached = f" (and {read} from its cache, {written} into it)" if read or written else ""
    return f"{usage.get('input_tokens', 0)} tokens in{cached}, {usage.get('output_tokens', 0)} out"
