"""Calls on a terminal: one line each, which names the call, and becomes its result."""

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
from forge_cli.core.results import Diff, FileContent, FileList, ResultValue
from forge_cli.core.text import MORE, counted, cut, visible
from forge_cli.core.wire import jsonable
from forge_cli.files.difference import unified_diff
from forge_cli.ui.terminal.live import cyan, dim, duration, spin
from forge_cli.ui.views import View, is_command
from forge_cli.ui.wrap import cell_width, fit_path

SHOWN = 200
"""Characters of an argument; the record has all of them."""
INLINE = 60
"""Characters of a result that has room behind its call."""
LEAST = 24
"""Cells that the args of a call have at least on a line with other things."""
OUTPUT_LINES = 3
"""Lines that a running command shows of its output."""
BODY_LINES, TAIL_LINES, DRAWING_LINES, DEBUG_LINES = 8, 5, 20, 20
"""Lines of a result below its call: of a text, of what a command said last, of what is drawn, and of everything."""
SLOW = 1000
"""Milliseconds from which on it is said how long a call took."""
NO_OUTPUT = "(no output)"
"""A text for the output of a command that has printed nothing."""
SEPARATOR = " · "
PATH = "path"
MAIN = (PATH, "command", "pattern", "url", "query", "name", "tool_name")
"""Args that need no name."""

CallKey = tuple[str | None, str]

_MARKS: dict[OutcomeStatus, tuple[str, str]] = {
    "success": ("✓", "green"),
    "denied": ("⊘", "yellow"),
    "blocked": ("⊘", "red"),
}
_FAILED = ("✗", "red")


def call_key(event: Event, call: str) -> CallKey:
    """An id that tells a call from those of other workers, whose models may give the same ids."""
    return event.origin.delegation if event.origin else None, call


@dataclass
class OpenCall:
    """A call that was taken up and has not been shown with its result."""

    name: str
    args: str
    who: str = ""
    """Indentation and the name of its worker, where that is not the root."""
    path: str = ""
    """The path among the args, which keeps its end where the line is cut."""
    main: str = ""
    """The args that need no name, where the others can be seen in the result."""
    since: float = field(default_factory=time.monotonic)
    announced: bool = False
    """Does a line of its own say already that it was taken up?"""
    is_unseen: bool = False
    """True if nobody was shown what the call would do, or allowed the same before."""
    by_mode: str = ""
    """The mode that approved it without asking, such as ``-y``."""
    progress: str = ""
    output: tuple[str, ...] = ()
    result: ToolResult | None = None

    def live_lines(self, seconds: float, width: int, keys: str = "") -> list[str]:
        """The call while it runs, with what it said last; or with its result, while it waits for those before it.

        A long call is cut so that ``width`` has room for how long it takes, and for the ``keys`` that are told.
        """
        title = " ".join(filter(None, (self.name, self.args)))
        if self.result:
            return [f"{self.who}{mark_of(self.result.status)[0]} {title}"]
        took = time.monotonic() - self.since
        slow = f" · {duration(took)}" if took * 1000 >= SLOW else ""
        more = f" · {self.progress}" if self.progress else ""
        below = [
            dim(f"{' ' * indentation(self.who)}  │ {line}") for line in self.output[-OUTPUT_LINES:]
        ]
        facts = f"{more}{slow}{keys if slow else ''}"
        title = fit_path(title, self.path, max(width - cell_width(f"{self.who}  {facts}"), LEAST))
        return [f"{self.who}{cyan(spin(seconds))} {title}{dim(facts)}", *below]


class ShownResult(Struct, frozen=True):
    """A result that was shown in a few lines, and can be shown whole."""

    number: int
    title: str
    value: ResultValue
    distribution: str | None


def indentation(who: str) -> int:
    """How far to the right the calls of a worker stand."""
    return len(who) - len(who.lstrip())


def mark_of(status: OutcomeStatus) -> tuple[str, str]:
    """The sign of a result, and its style."""
    return _MARKS.get(status, _FAILED)


def format_args(args: Mapping[str, Any]) -> list[str]:
    """Every arg with its name, as JSON."""
    texts = {name: json.dumps(jsonable(value), ensure_ascii=False) for name, value in args.items()}
    return [f"{name}={cut(text, SHOWN, 'end', mark=MORE)}" for name, text in texts.items()]


def short_args(args: Mapping[str, Any]) -> str:
    """The args on one line: the main one as it is, others by name; beside a main one a long text has no room."""
    alone = len(args) == 1
    beside_main = any(name in MAIN for name in args)
    shown = (
        _short(name, value, alone, beside_main) for name, value in args.items() if value is not None
    )
    return visible(" ".join(filter(None, shown)))


def path_in(args: Mapping[str, Any]) -> str:
    """The path among the args as a line shows it; empty where there is none."""
    path = args.get(PATH)
    return short_args({PATH: path}) if isinstance(path, str) else ""


def main_args(args: Mapping[str, Any]) -> str:
    return short_args({name: value for name, value in args.items() if name in MAIN})


def _short(name: str, value: Any, alone: bool, beside_main: bool) -> str:
    if isinstance(value, str) and name == PATH and len(value) > SHOWN:
        return f"...{value[-SHOWN:]}"
    if isinstance(value, str) and (name in MAIN or (alone and "\n" not in value)):
        return cut(" ⏎ ".join(value.strip().splitlines()), SHOWN, "end")
    if isinstance(value, str) and "\n" in value.strip():
        return "" if beside_main else f"{name}=({counted(len(value.splitlines()), 'line')})"
    if isinstance(value, list | dict) and len(json.dumps(jsonable(value))) > INLINE:
        return f"{name}=({counted(len(value), 'item')})"
    [shown] = format_args({name: value})
    return shown


def fit_line(
    call: OpenCall, facts: Sequence[str], width: int | None
) -> tuple[str, list[str], list[str]]:
    """The line of a call: as much of its args as has room, and which facts; the others come below it."""
    if width is None:
        return call.args, list(facts), []
    room = width - cell_width(f"{call.who}✓ {call.name} ")
    inline: list[str] = []
    for fact in facts:
        wanted = room - cell_width(fact) - len(SEPARATOR)
        if wanted < min(cell_width(call.args), LEAST):
            break
        inline.append(fact)
        room = wanted
    return fit_path(call.args, call.path, room), inline, list(facts[len(inline) :])


def call_duration(milliseconds: int) -> str:
    return duration(milliseconds / 1000) if milliseconds >= SLOW else f"{milliseconds} ms"


def describe_error(event: ToolResult, error: str) -> str:
    """Why a call came to nothing, without the words that its line says already."""
    text = error.removeprefix(f"{event.tool_name} was not called; ").removeprefix(
        f"{event.tool_name} is "
    )
    text = text.replace("exit code: ", "exit code ")
    if event.status == "interrupted" and error == UNCERTAIN_CALL:
        return "interrupted; it may have run"
    if event.status == "interrupted" and INTERRUPTED_CALL in error:
        return "interrupted"
    if event.status in ("error", "timeout", "not_found") or text.startswith(event.status):
        return text
    return f"{event.status}: {text}"


def describe_value(value: ResultValue, view: View) -> str:
    """The result of a call in a few words; empty where only the result itself can say that."""
    match value:
        case FileContent(content=content):
            return counted(len(content.splitlines()), "line")
        case FileList(count=count):
            return "empty" if count == 0 else counted(count, "entry").replace("entrys", "entries")
        case Diff():
            return count_changes(value)
        case _ if view.form == "json":
            short = json.dumps(view.data, ensure_ascii=False)
            return visible(short) if len(short) <= INLINE else ""
        case _ if view.head or view.note or (is_command(value) and view.text == NO_OUTPUT):
            return ""
        case _ if (
            view.form == "text" and "\n" not in view.text.strip() and len(view.text) <= INLINE
        ):
            return visible(view.text.strip())
        case _:
            return ""


def tail(text: str, lines: int) -> str:
    """The last lines; what stands before them is counted."""
    shown = text.strip("\n").split("\n")
    left_out = len(shown) - lines
    return "\n".join(
        [f"... {counted(left_out, 'line')} before", *shown[left_out:]] if left_out > 1 else shown
    )


def count_changes(diff: Diff) -> str:
    """``+1 -1``, or how long a new file is."""
    if diff.original is None and not diff.is_new:
        return f"{diff.bytes_written:,} bytes"
    lines = unified_diff(diff.original or "", diff.modified, "a", "b")[2:]
    added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    if diff.is_new:
        return f"new, {counted(added, 'line')}"
    return f"+{added} -{removed}" if lines else "no change"
