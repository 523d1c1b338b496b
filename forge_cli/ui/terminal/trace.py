"""The trace: progress of a worker on standard error, at four levels of detail."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import asdict, replace
from rich.console import Console
from rich.text import Text as Styled

from forge_cli.core import events
from forge_cli.core.approval import MODE_TITLES
from forge_cli.core.messages import Usage
from forge_cli.core.notify import RunningCommand
from forge_cli.core.results import (
    Custom,
    Diff,
    FileContent,
    FileList,
    ResultValue,
    Table,
    from_wire,
)
from forge_cli.core.text import counted, cut, dollars, visible
from forge_cli.core.trial import CommandTried
from forge_cli.core.wire import camel_keys, jsonable
from forge_cli.files.settings import TraceLevel
from forge_cli.sandbox.secrets import own_redactor
from forge_cli.ui.terminal.calls import (
    BODY_LINES,
    DEBUG_LINES,
    DRAWING_LINES,
    NO_OUTPUT,
    OUTPUT_LINES,
    SEPARATOR,
    SLOW,
    TAIL_LINES,
    CallKey,
    OpenCall,
    ShownResult,
    call_duration,
    call_key,
    describe_error,
    describe_value,
    fit_line,
    format_args,
    indentation,
    main_args,
    mark_of,
    path_in,
    short_args,
    tail,
)
from forge_cli.ui.terminal.console import new_console
from forge_cli.ui.terminal.live import compact, duration
from forge_cli.ui.terminal.render import Indented, plain, render_view
from forge_cli.ui.views import (
    FindRenderer,
    View,
    as_printed,
    is_command,
    is_hidden,
    no_renderers,
    short_place,
    view_of,
)
from forge_cli.ui.wrap import cell_width

_MAX_COMMAND = 100
"""Characters of a background command that ends with the session."""
_DROP_ORDER = ("window", "turns", "calls", "tokens", "time", "cost")
"""Parts of the summary, in the order in which they are left out if it is too wide."""
LEVELS: tuple[TraceLevel, ...] = ("quiet", "summary", "normal", "debug")


def trace_formatter(
    level: TraceLevel = "normal", console: Console | None = None, find: FindRenderer = no_renderers
) -> Callable[[events.Event], None]:
    """Return a handler for ``on_event`` that writes the trace, without secrets."""
    if level not in LEVELS:
        raise ValueError(f"trace must be one of {', '.join(LEVELS)}, not {level!r}")
    return Trace(level, console or new_console(), find)


class Trace:
    """Writer of the trace; with ``live``, the line of a call is printed with its result."""

    def __init__(
        self,
        level: TraceLevel,
        console: Console,
        find: FindRenderer,
        *,
        live: bool = False,
        before_line: Callable[[], None] = lambda: None,
    ) -> None:
        self._level = LEVELS.index(level)
        self._console = console
        self._find = find
        self._live = live
        self._before_line = before_line
        self._redactor = own_redactor()
        self._from: events.Origin | None = None
        self._used: tuple[int, int | None] = 0, None
        self._gap = False
        self._running: tuple[RunningCommand, ...] = ()
        self.open_calls: dict[CallKey, OpenCall] = {}
        """Running calls, in order; the live lines show them, too."""
        self.results: deque[ShownResult] | None = None
        """The last results, for ``/show``; None if the UI has no such command."""
        self.seen_diffs: set[CallKey] = set()
        """Calls whose changes were shown at their approval prompt."""

    @property
    def level(self) -> TraceLevel:
        return LEVELS[self._level]

    @level.setter
    def level(self, level: TraceLevel) -> None:
        self._level = LEVELS.index(level)

    @property
    def shows_calls(self) -> bool:
        return self._level >= LEVELS.index("normal")

    @property
    def _debug(self) -> bool:
        return self._level >= LEVELS.index("debug")

    def __call__(self, event: events.Event) -> None:
        self._from = event.origin
        match event:
            case events.StatusEvent(level="error"):
                self._line(0, f"error: {event.message}", "red")
            case events.StatusEvent(level="warning"):
                self._line(0 if event.urgent else 1, f"warning: {event.message}", "yellow")
            case events.StatusEvent(running=tuple() as running):
                if event.origin is None:
                    self._running = running
            case events.StatusEvent(level="debug"):
                self._line(3, event.message, "dim")
            case events.StatusEvent(tool_call_id=None):
                self._line(2 if event.about == "confinement" else 1, event.message, "dim")
            case events.StatusEvent(tool_call_id=str() as call_id):
                self._progress(event, call_key(event, call_id))
            case events.MessageEvent(message=message) if message.role == "user":
                for file in message.attachments:
                    self._line(1, f"attached: {file.about()}", "dim")
            case events.ToolStarted():
                self._start_call(event)
            case events.ToolOutput():
                if call := self.open_calls.get(call_key(event, event.tool_call_id)):
                    lines = self._redactor.redact_text(event.text).splitlines()
                    shown = [visible(as_printed(line)) for line in lines if line.strip()]
                    call.output = tuple(shown[-OUTPUT_LINES:])
            case events.ToolResult():
                self._end_call(event)
            case events.ManualToolsAvailable():
                names = ", ".join(str(tool["name"]) for tool in event.tools)
                self._line(3, f"tools for people: {names}", "dim")
            case events.SessionStart():
                settings = f"model {event.model}, workspace {event.workspace}"
                settings += f", approval mode {event.approval_mode}"
                if event.read_only:
                    settings += ", read-only"
                self._line(3, settings, "dim")
            case events.SessionUpdate():
                now = {
                    "title": event.title,
                    "model": event.model,
                    "approval mode": event.approval_mode,
                }
                changes = [f"{name} {value}" for name, value in now.items() if value]
                if changes:
                    self._line(3, f"from now on: {', '.join(changes)}", "dim")
            case events.ModeChanged():
                self._line(3, f"from now on: mode {MODE_TITLES[event.mode]}", "dim")
            case events.TurnStart():
                self._gap = event.turn > 1 and event.origin is None
                tools = ", ".join(event.tools) or "none"
                if event.refresh_ms is None:
                    took = ""
                else:
                    took = f" (found in {event.refresh_ms:g} ms)"
                self._line(
                    3,
                    f"turn {event.turn}: request {event.request_digest[:12]}, tools{took}: {tools}",
                    "dim",
                )
            case events.TurnEndEvent():
                used = format_tokens(camel_keys(asdict(event.usage)))
                tokens = f": {used}" if used else ""
                self._line(3, f"turn {event.turn} ended ({event.stop}){tokens}", "dim")
            case events.ContextUsage():
                if event.origin is None:
                    self._used = event.used, event.window
                share = ""
                if event.window:
                    share = f" of {event.window} ({event.used / event.window:.0%})"
                self._line(3, f"the history has {event.used} tokens{share}", "dim")
            case events.ApprovalDecided():
                self._decided(event)
            case CommandTried():
                call = self.open_calls.get(call_key(event, event.tool_call_id))
                is_unseen = event.applied and call and call.is_unseen
                # If it asked, the prompt has shown the changes of the trial.
                level = 3
                if event.outcome == "noEffect" or is_unseen:
                    level = 2
                self._line(level, f"  {event.sentence()}", "dim")
            case events.NetworkAccess():
                if event.tool_call_id:
                    self._announce(call_key(event, event.tool_call_id))
                self._line(2, f"  {event.sentence()}", "dim")
            case events.WorkerUpdate(status="started" | "resumed"):
                self._announce((event.within, event.tool_call_id))
                self._line(2, f"{event.status} by {event.parent}", "cyan")
            case events.WorkerUpdate():
                if event.error:
                    ended = f"{event.status}: {event.error}"
                else:
                    used = format_tokens(camel_keys(asdict(event.usage or Usage())))
                    facts = (event.status, counted(event.turns or 0, "turn"), used)
                    ended = SEPARATOR.join(filter(None, facts))
                self._line(2, ended, "green" if event.status == "completed" else "red")
            case events.SessionEnd():
                self._end(event)
            case _:
                return

    def begin_text(self) -> None:
        """Print an empty line between two turns, before the text of the model."""
        if self._gap:
            self._gap = False
            if self._console.is_terminal and self._level:
                self._console.print()

    def _line(self, level: int, text: str, style: str) -> None:
        if self._level >= level:
            who = ""
            if self._from:
                who = f"{self._indent}{self._from.worker}: "
            first, *more = (who + self._redactor.redact_text(text)).split("\n")
            margin = len(self._indent) + 2
            lines = [visible(first)]
            for line in more:
                lines.append(" " * margin + visible(line.strip()))
            self._print(Indented(plain("\n".join(lines), style=style), 0, hang=margin), end="")

    def _print(self, shown: Styled | Indented, end: str = "\n") -> None:
        self._before_line()
        self.begin_text()
        self._console.print(shown, end=end)

    @property
    def _indent(self) -> str:
        """The indentation of a child worker, one level deeper than its parent."""
        if self._from:
            return "  " * self._from.depth
        return ""

    def _start_call(self, event: events.ToolStarted) -> None:
        if event.parent_call_id:
            self._announce(call_key(event, event.parent_call_id))
        inner = "  " if event.parent_call_id else ""
        args = self._redactor.redact(jsonable(event.args))
        if self._debug:
            shown = visible(" ".join(format_args(args)))
        else:
            shown = short_args(args)
        key = call_key(event, event.tool_call_id)
        self.open_calls[key] = OpenCall(
            visible(event.tool_name), shown, self._who(inner), path_in(args), main_args(args)
        )
        if self._debug:
            self._announce(key)

    def _who(self, inner: str = "") -> str:
        if self._from:
            return f"{self._indent}{visible(self._from.worker)}: {inner}"
        return inner

    def _announce(self, key: CallKey) -> None:
        """Print the line of a call before the lines that belong to it."""
        call = self.open_calls.get(key)
        if call and not call.announced:
            if self.shows_calls:
                title = f"{call.name} {call.args}".rstrip()
                self._print(plain(f"{call.who}> {title}", style="cyan"))
            call.announced = True
            call.args = ""

    def _progress(self, event: events.StatusEvent, key: CallKey) -> None:
        text = event.message
        if event.progress is not None:
            text = f"{event.progress:.0%} {text}"
        call = self.open_calls.get(key)
        if call and self._live:
            call.progress = visible(self._redactor.redact_text(text))
        else:
            self._announce(key)
            self._line(2, f"  {text}", "dim")

    def _decided(self, event: events.ApprovalDecided) -> None:
        call = self.open_calls.get(call_key(event, event.tool_call_id))
        if call and event.request_id:
            call.since = time.monotonic()  # the time at the question does not count
        if call and event.approved and event.request_id is None and event.by != "memory":
            call.is_unseen = True
        if call and event.by == "mode" and event.approved:
            call.by_mode = event.via or "-y"
        place = ""
        if event.where:
            place = f" ({short_place(event.where)})"
        answer = "yes" if event.approved else "no"
        via = f" ({event.via})" if event.via else ""
        decided = f"{event.verdict} -> {answer} by {event.by}{via}"
        self._line(3, f"  {decided}: {event.reason}{place}", "dim")

    def _end_call(self, event: events.ToolResult) -> None:
        """Show a result; parallel calls are shown in the order in which they started."""
        key = call_key(event, event.tool_call_id)
        call = self.open_calls.setdefault(key, OpenCall(visible(event.tool_name), "", self._who()))
        call.result = event
        self.show_ended()

    def show_ended(self) -> None:
        """Show finished calls, up to the first that still runs."""
        for key, call in list(self.open_calls.items()):
            if call.result:
                del self.open_calls[key]
                self._show_result(call, call.result, shown_before=key in self.seen_diffs)
            elif self._live and not call.announced:
                return

    def _show_result(self, call: OpenCall, event: events.ToolResult, *, shown_before: bool) -> None:
        value = self._redacted(event.value)
        if self.results is not None:
            if self.results:
                number = self.results[-1].number + 1
            else:
                number = 1
            self.results.append(
                ShownResult(number, f"{call.name} {call.args}".strip(), value, event.distribution)
            )
        if not self.shows_calls:
            return
        view = view_of(value, self._find, event.distribution)
        seen = shown_before and (isinstance(value, Diff) or view.form == "diff")
        if event.error:
            error = cut(self._redactor.redact_text(event.error), 2000)  # the log has all of it
        else:
            error = ""
        files = ""
        if seen and not isinstance(value, Diff):
            files = view.text.partition("\n")[0]
        if error:
            reason, *more = describe_error(event, error).split("\n")
        else:
            reason = describe_value(value, view) or files
            more = []
        # A refused call did nothing, so its time means little.
        is_slow = event.duration_ms >= SLOW and event.status not in ("denied", "blocked")
        took = ""
        if is_slow or self._debug:
            took = call_duration(event.duration_ms)
        mode = f"approved by {call.by_mode}" if call.by_mode else ""
        facts = list(filter(None, (visible(reason), took, mode)))
        mark, style = mark_of(event.status)
        if self._console.is_terminal:
            width = self._console.width - 1
        else:
            width = None
        if isinstance(value, Diff) and call.main and call.args:
            call.args = call.main
        args, inline, below = fit_line(call, facts, width)
        told = style if error else "dim"
        head = Styled.assemble(
            call.who, (mark, style), f" {call.name}{' ' * bool(args)}", (args, "dim")
        )
        self._print(head.append("".join(f"{SEPARATOR}{fact}" for fact in inline), told))
        margin = indentation(call.who) + 4
        if below:
            more = [SEPARATOR.join(below), *more]
        if more:
            self._print(
                Indented(plain("\n".join(more), DEBUG_LINES, style=told), margin, bar=True), end=""
            )
        if event.value.text() != event.error and not seen:
            self._show_value(value, view, inline=not error and bool(reason), margin=margin)

    def _show_value(self, value: ResultValue, view: View, *, inline: bool, margin: int) -> None:
        """Show the result of a call below its line, unless the line has it already."""
        is_drawn = isinstance(value, Table) or (isinstance(value, FileList) and view.form != "text")
        folded = not is_drawn and (inline or isinstance(value, FileContent | FileList))
        if is_hidden(value) or (folded and not self._debug and not isinstance(value, Diff)):
            return
        is_drawing = view.form in ("diff", "table", "tree", "checklist")
        lines = DRAWING_LINES if is_drawing else BODY_LINES
        if self._debug:
            lines = DEBUG_LINES
        is_cut = _rows(view) > lines
        if is_command(value) and isinstance(view.data, str):
            state = (value.summary if isinstance(value, Custom) else None) or ""
            last = DEBUG_LINES if self._debug else TAIL_LINES
            is_cut = _rows(view) > last + 1  # tail() does not replace a single line
            view = replace(view, data=tail(view.data.removesuffix(state), last))
        if view.data and view.data != NO_OUTPUT:
            self._print(Indented(render_view(view, lines=lines), margin, bar=True), end="")
            if is_cut and self.results:
                key = "Ctrl+O or " if self._live else ""
                hint = f"{key}/show {self.results[-1].number} shows all of it"
                self._print(Indented(plain(hint, style="dim"), margin, bar=True), end="")

    def _redacted(self, value: ResultValue) -> ResultValue:
        told = value.wire()
        redacted = self._redactor.redact(told)
        if redacted == told:
            return value
        return from_wire(redacted)

    def tell_background(self) -> None:
        """List the background commands that end with the session."""
        if self._running:
            names = [cut(visible(each.command), _MAX_COMMAND, "end") for each in self._running]
            count = counted(len(names), "background command")
            self._line(1, f"ended {count}: {'; '.join(names)}", "dim")
            self._running = ()

    def _end(self, event: events.SessionEnd) -> None:
        result = event.result
        if (
            result["status"] == "completed"
            and result.get("response") == ""
            and result.get("output") is None
        ):
            self._line(1, "warning: the answer of the model is empty", "yellow")
        self.tell_background()
        if self._console.is_terminal:
            width = self._console.width - 1
        else:
            width = None
        self._gap = self._gap or result["turns"] > 0
        self._line(1, summarize(result, *self._used, width=width), "dim")


def _rows(view: View) -> int:
    """Return the number of lines of a result."""
    if view.form == "table":
        return len(view.data.rows)
    return view.text.strip("\n").count("\n") + 1


def summarize(
    result: Mapping[str, Any], used: int, window: int | None, *, width: int | None = None
) -> str:
    """Return a line such as ``completed · 3 turns · 5 calls · 2.5k in, 112 out · $0.91 · 14 s``.

    If it is wider than ``width``, parts are left out in the order of ``_DROP_ORDER``.
    """
    denied = len(result.get("denials", ()))
    cost = result.get("cost")
    share = ""
    if window and used:
        share = f"{used * 100 / window:.0f} % of the window"
    parts = {
        "status": str(result["status"]),
        "turns": counted(result["turns"], "turn"),
        "calls": counted(result["toolCalls"], "call") + (f" ({denied} refused)" if denied else ""),
        "tokens": format_tokens(result.get("usage", {})),
        "cost": "" if cost is None else dollars(cost),
        "window": share,
        "time": duration(result["durationMs"] / 1000),
    }
    line = SEPARATOR.join(filter(None, parts.values()))
    for name in _DROP_ORDER:
        if width is None or cell_width(line) <= width:
            break
        del parts[name]
        line = SEPARATOR.join(filter(None, parts.values()))
    return line


def format_tokens(usage: Mapping[str, int]) -> str:
    """Return the tokens sent, which include cached ones, and received; empty if there are none."""
    cached = usage.get("cacheReadTokens", 0)
    sent = usage.get("inputTokens", 0) + cached + usage.get("cacheWriteTokens", 0)
    received = usage.get("outputTokens", 0)
    if not sent and not received:
        return ""
    of_it = f" ({compact(cached)} cached)" if cached else ""
    return f"{compact(sent)} in{of_it}, {compact(received)} out"
