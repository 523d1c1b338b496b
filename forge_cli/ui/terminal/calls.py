"""Calls on a terminal: one line for each call with its arguments and its result."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from forge_cli.core.calls import OutcomeStatus
from forge_cli.core.events import Event, ToolResult
from forge_cli.core.phrases import INTERRUPTED_CALL, UNCERTAIN_CALL
from forge_cli.core.results import Diff, FileContent, FileList, ResultValue, Table
from forge_cli.core.text import MORE, counted, cut, visible
from forge_cli.core.wire import jsonable
from forge_cli.files.difference import unified_diff
from forge_cli.ui.terminal.live import cyan, dim, duration, spin
from forge_cli.ui.views import View, is_command
from forge_cli.ui.wrap import cell_width, fit_path

MAX_ARG = 200
"""Characters of an argument to show; the log has all of it."""
MAX_INLINE = 60
"""Characters of a result that is shown on the line of its call."""
MIN_ARGS = 24
"""Minimum cells for the arguments on the line of a call."""
OUTPUT_LINES = 3
"""Output lines to show of a running command."""
BODY_LINES = 8
"""Lines of a text result to show below its call."""
TAIL_LINES = 5
"""Lines to show from the end of a command's output."""
DRAWING_LINES = 20
"""Lines of a table, tree, diff or checklist to show below its call."""
DEBUG_LINES = 20
"""Lines of any result to show at the trace level ``debug``."""
SLOW = 1000
"""Milliseconds after which the duration of a call is shown."""
NO_OUTPUT = "(no output)"
"""The output of a command that has printed nothing."""
SEPARATOR = " · "
PATH = "path"
MAIN = (PATH, "command", "pattern", "url", "query", "name", "tool_name")
"""Arguments that are shown without their names."""

CallKey = tuple[str | None, str]

_MARKS: dict[OutcomeStatus, tuple[str, str]] = {
    "success": ("✓", "green"),
    "denied": ("⊘", "yellow"),
    "blocked": ("⊘", "red"),
}
_FAILED = ("✗", "red")


def call_key(event: Event, call: str) -> CallKey:
    """Return a unique key of a call; models of several workers may give the same ids."""
    return event.origin.delegation if event.origin else None, call


@dataclass
class OpenCall:
    """A call whose result has not been shown yet."""

    name: str
    args: str
    who: str = ""
    """Indentation and the name of a child worker; empty for the root."""
    path: str = ""
    """The path argument, whose end is kept if the line is cut."""
    main: str = ""
    """The main arguments only, for calls whose result shows the others."""
    since: float = field(default_factory=time.monotonic)
    announced: bool = False
    """Whether a line has already announced the call."""
    is_unseen: bool = False
    """Whether no person saw the effects of the call beforehand, or granted such calls."""
    by_mode: str = ""
    """The mode that approved it without asking, such as ``-y``."""
    progress: str = ""
    output: tuple[str, ...] = ()
    result: ToolResult | None = None

    def live_lines(self, seconds: float, width: int, keys: str = "") -> list[str]:
        """Return the lines of a call that runs, or that waits for the results of earlier calls.

        The arguments are cut so that the duration and the hint about ``keys`` fit into ``width``.
        """
        title = " ".join(filter(None, (self.name, self.args)))
        if self.result:
            return [f"{self.who}{mark_of(self.result.status)[0]} {title}"]
        took = time.monotonic() - self.since
        facts = f" · {self.progress}" if self.progress else ""
        if took * 1000 >= SLOW:
            facts += f" · {duration(took)}{keys}"
        room = max(width - cell_width(f"{self.who}  {facts}"), MIN_ARGS)
        title = fit_path(title, self.path, room)
        lines = [f"{self.who}{cyan(spin(seconds))} {title}{dim(facts)}"]
        margin = " " * indentation(self.who)
        for line in self.output[-OUTPUT_LINES:]:
            lines.append(dim(f"{margin}  │ {line}"))
        return lines


class ShownResult(Struct, frozen=True):
    """A result that was shortened and can be shown whole."""

    number: int
    title: str
    value: ResultValue
    distribution: str | None


def indentation(who: str) -> int:
    """Return the indentation of the calls of a worker."""
    return len(who) - len(who.lstrip())


def mark_of(status: OutcomeStatus) -> tuple[str, str]:
    """Return the symbol of a result and its style."""
    return _MARKS.get(status, _FAILED)


def format_args(args: Mapping[str, Any]) -> list[str]:
    """Return each argument as ``name=JSON``."""
    shown = []
    for name, value in args.items():
        text = json.dumps(jsonable(value), ensure_ascii=False)
        shown.append(f"{name}={cut(text, MAX_ARG, 'end', mark=MORE)}")
    return shown


def short_args(args: Mapping[str, Any]) -> str:
    """Return the arguments on one line: the main one without its name, others shortened."""
    alone = len(args) == 1
    beside_main = any(name in MAIN for name in args)
    shown = []
    for name, value in args.items():
        if value is not None:
            shown.append(_short(name, value, alone, beside_main))
    return visible(" ".join(filter(None, shown)))


def path_in(args: Mapping[str, Any]) -> str:
    """Return the path argument as ``short_args`` shows it; empty if there is none."""
    path = args.get(PATH)
    if isinstance(path, str):
        return short_args({PATH: path})
    return ""


def main_args(args: Mapping[str, Any]) -> str:
    """Return the main arguments on one line."""
    return short_args({name: value for name, value in args.items() if name in MAIN})


def _short(name: str, value: Any, alone: bool, beside_main: bool) -> str:
    if isinstance(value, str) and name == PATH and len(value) > MAX_ARG:
        return f"...{value[-MAX_ARG:]}"  # the end of a path says more than its beginning
    if isinstance(value, str) and (name in MAIN or (alone and "\n" not in value)):
        return cut(" ⏎ ".join(value.strip().splitlines()), MAX_ARG, "end")
    if isinstance(value, str) and "\n" in value.strip():
        if beside_main:
            return ""
        return f"{name}=({counted(len(value.splitlines()), 'line')})"
    if isinstance(value, list | dict) and len(json.dumps(jsonable(value))) > MAX_INLINE:
        return f"{name}=({counted(len(value), 'item')})"
    [shown] = format_args({name: value})
    return shown


def fit_line(
    call: OpenCall, facts: Sequence[str], width: int | None
) -> tuple[str, list[str], list[str]]:
    """Fit the arguments and facts of a call into ``width``; return them and the facts left over."""
    if width is None:
        return call.args, list(facts), []
    room = width - cell_width(f"{call.who}✓ {call.name} ")
    inline: list[str] = []
    for fact in facts:
        wanted = room - cell_width(fact) - len(SEPARATOR)
        # The arguments matter more than the facts, which then get a line of their own.
        if wanted < min(cell_width(call.args), MIN_ARGS):
            break
        inline.append(fact)
        room = wanted
    return fit_path(call.args, call.path, room), inline, list(facts[len(inline) :])


def call_duration(milliseconds: int) -> str:
    """Format the duration of a call."""
    if milliseconds >= SLOW:
        return duration(milliseconds / 1000)
    return f"{milliseconds} ms"


def describe_error(event: ToolResult, error: str) -> str:
    """Return the error of a call without words that its line already has."""
    text = error.removeprefix(f"{event.tool_name} was not called; ")
    text = text.removeprefix(f"{event.tool_name} is ")
    text = text.replace("exit code: ", "exit code ")
    if event.status == "interrupted" and error == UNCERTAIN_CALL:
        return "interrupted; it may have run"
    if event.status == "interrupted" and INTERRUPTED_CALL in error:
        return "interrupted"
    if event.status in ("error", "timeout", "not_found") or text.startswith(event.status):
        return text
    return f"{event.status}: {text}"


def describe_value(value: ResultValue, view: View) -> str:
    """Return the result of a call in a few words; empty if the result itself has to be shown."""
    match value:
        case FileContent(content=content):
            return counted(len(content.splitlines()), "line")
        case FileList(count=count):
            if count == 0:
                return "empty"
            return counted(count, "entry").replace("entrys", "entries")
        case Table():
            return _count_rows(value)
        case Diff():
            return count_changes(value)
        case _ if view.form == "json":
            short = json.dumps(view.data, ensure_ascii=False)
            if len(short) <= MAX_INLINE:
                return visible(short)
            return ""
        case _ if view.head or view.note or (is_command(value) and view.text == NO_OUTPUT):
            return ""
        case _ if view.form == "text" and len(view.text) <= MAX_INLINE:
            text = view.text.strip()
            if "\n" in text:
                return ""
            return visible(text)
        case _:
            return ""


def _count_rows(table: Table) -> str:
    if table.count is not None:
        return counted(table.count, "row")
    shown = counted(len(table.rows), "row")
    return f"the first {shown}" if table.more else shown


def tail(text: str, lines: int) -> str:
    """Return the last lines of a text, after the number of lines left out."""
    shown = text.strip("\n").split("\n")
    left_out = len(shown) - lines
    if left_out > 1:  # the note would take the place of a single line
        shown = [f"... {counted(left_out, 'line')} before", *shown[left_out:]]
    return "\n".join(shown)


def count_changes(diff: Diff) -> str:
    """Return ``+1 -1``, or the size of a new file."""
    if diff.original is None and not diff.is_new:
        return f"{diff.bytes_written:,} bytes"
    # The first two lines name the files.
    lines = unified_diff(diff.original or "", diff.modified, "a", "b")[2:]
    added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    if diff.is_new:
        return f"new, {counted(added, 'line')}"
    if lines:
        return f"+{added} -{removed}"
    return "no change"
