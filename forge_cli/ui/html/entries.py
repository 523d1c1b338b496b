"""Transcript entries as HTML: single entries, or a page without scripts and external files."""

from __future__ import annotations

from pathlib import Path

from forge_cli.core.results import Diff
from forge_cli.core.text import readable
from forge_cli.ui.html.markdown import (
    draw_code,
    draw_markdown,
    element,
    many_lines,
    one_line,
    style_sheet,
)
from forge_cli.ui.html.results import draw_diff, draw_result, fold_away
from forge_cli.ui.terminal.calls import count_changes, main_args, short_args
from forge_cli.ui.transcript import entries
from forge_cli.ui.views import FindRenderer, View, no_renderers

MAX_ARGS = 160
"""Characters of the arguments on the line of a call."""
MARKS = {"success": "✓", "denied": "⊘", "blocked": "⊘"}


def draw_entry(
    entry: entries.TranscriptEntry, find: FindRenderer = no_renderers, *, live: bool = False
) -> str:
    """Return the content of an entry; in a ``live`` session, a call without a result still runs."""
    match entry:
        case entries.Said():
            return draw_said(entry)
        case entries.Called():
            return draw_call(entry, find, live=live)
        case entries.Noted():
            level = f"{entry.level}: " if entry.level else ""
            words = many_lines(entry.text.removeprefix(level))
            if level:  # for screen readers; a colour and an icon show it
                words = element("span", level, "unseen") + words
            return element("p", words, "note", entry.level)


def draw_said(entry: entries.Said) -> str:
    """Return a message: text of a person as it was typed, text of a worker as Markdown."""
    files = "".join(element("p", f"with {one_line(name)}", "quiet", "file") for name in entry.files)
    head = element("h2", one_line(entry.who), "who")
    if not entry.text.strip():
        return head + files
    words = entry.text.strip("\n")
    if entry.who in ("user", "summary"):
        words, commands = entries.words_and_commands(words)
        shown = element("div", many_lines(words), "words", "plain")
        if commands:
            inside = "<summary>with the commands that you ran</summary>"
            shown += element("details", inside + draw_code(commands, "text"), "fold")
    else:
        shown = draw_markdown(words)
    if entry.cut_off:
        files += element("p", "The answer is incomplete: it was cut off here.", "quiet", "cut")
    return head + shown + files


def _unfinished(entry: entries.Called, *, live: bool) -> str:
    """Return the state of a call without a result."""
    if not live:
        return "unfinished"
    if entry.waits:
        return "waiting"
    if entry.started:
        return "running"
    return "next"


def draw_call(
    entry: entries.Called, find: FindRenderer = no_renderers, *, live: bool = False
) -> str:
    """Return a call as a line that opens to its arguments, verdict and result.

    Calls by a person and edits are open.
    """
    status = entry.status or _unfinished(entry, live=live)
    mark = "…"
    if entry.status:
        mark = MARKS.get(entry.status, "✗")
    edited = isinstance(entry.shown, Diff) and entry.status == "success"
    args_line = main_args if edited else short_args
    shown = ""
    if isinstance(entry.args, dict):  # in a log that was changed by hand they can be anything
        shown = readable(args_line(entry.args), keep="")
    title = element("b", one_line(entry.tool), "tool")
    if len(shown) > MAX_ARGS:
        shown = f"{shown[:MAX_ARGS]}…"
    args = ""
    if shown:
        args = element("span", one_line(shown), "args")
    state = element("span", one_line(status), "state")
    sign = f'<span class="mark" aria-hidden="true">{mark}</span>'
    changes = ""
    if isinstance(entry.shown, Diff) and edited:
        changes = element("span", one_line(count_changes(entry.shown)), "changes")
    inside = f"<summary>{sign} {title} {args} {changes} {state}</summary>"
    inside += draw_call_body(entry, find)
    opened = ""
    if entry.by_person or edited:
        opened = " open"
    return f'<details class="call {one_line(status)}"{opened}>{inside}</details>'


def draw_call_body(entry: entries.Called, find: FindRenderer = no_renderers) -> str:
    """Return the arguments, the verdict and the result of a call."""
    short, blocks = entries.split_args(entry.args, entry.shown)
    rows = "".join(
        f"<dt>{one_line(name)}</dt><dd><code>{one_line(value)}</code></dd>"
        for name, value in short.items()
    )
    pieces = [element("dl", rows, "args") if rows else "", *map(draw_block, blocks)]
    if entry.verdict:
        pieces.append(element("p", one_line(entry.verdict), "verdict"))
    drawn = text = ""
    if entry.shown is not None:
        drawn = draw_result(entry.shown, find, entry.distribution)
        text = entry.shown.text()
    if entry.status:
        look = "success" if entry.status == "success" else "failure"
        pieces.append(element("p", one_line(entry.ending(text)), "ending", look))
    return "".join(pieces) + drawn


def draw_block(block: entries.ArgumentBlock) -> str:
    """Return a long argument with its name."""
    name = element("p", one_line(block.name), "quiet", "label")
    text = block.text.strip("\n")
    if block.language == "diff":
        drawn = draw_diff(text)
    else:
        drawn = draw_code(text, block.language)
    return name + fold_away(drawn, text.count("\n") + 1, View("text", text))


FRAME = Path(__file__).with_name("page.html")


def page(told: entries.Transcript, find: FindRenderer = no_renderers) -> str:
    """Return a whole transcript as an HTML page."""
    about = f"{told.worker} with {told.model}, {told.started}, in {told.workspace}"
    head = element("h1", one_line(told.session)) + element("p", one_line(about), "quiet")
    body = [element("header", head), *(_indented(entry, find) for entry in told.entries)]
    style = FRAME.with_suffix(".css").read_text("utf-8") + style_sheet()
    title = one_line(f"{told.worker}: {told.session}")
    return FRAME.read_text("utf-8").format(title=title, style=style, body="\n".join(body))


def _indented(entry: entries.TranscriptEntry, find: FindRenderer) -> str:
    drawn = _draw(entry, find)
    for _ in range(entry.depth):
        drawn = element("div", drawn, "inside")
    return drawn


def _draw(entry: entries.TranscriptEntry, find: FindRenderer) -> str:
    match entry:
        case entries.Said():
            who = "user" if entry.who == "user" else "other"
            return element("section", draw_entry(entry, find), who)
        case entries.Called():
            name = element("p", element("code", element("b", one_line(entry.tool))))
            return element("section", name + draw_call_body(entry, find), "call")
        case entries.Noted():
            return draw_entry(entry, find)
