"""Entries of a transcript as HTML, each by itself or all on a page for a browser that loads and runs nothing."""

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

SHORT = 160
"""Characters of the args of a call on its line."""
MARKS = {"success": "✓", "denied": "⊘", "blocked": "⊘"}


def draw_entry(
    entry: entries.TranscriptEntry, find: FindRenderer = no_renderers, *, live: bool = False
) -> str:
    """The inside of an entry; in a session at work (``live``) a call without a result is still running."""
    match entry:
        case entries.Said():
            return draw_said(entry)
        case entries.Called():
            return draw_call(entry, find, live=live)
        case entries.Noted():
            level = f"{entry.level}: " if entry.level else ""
            spoken = (
                element("span", level, "unseen") if level else ""
            )  # a colour and an icon show it
            return element(
                "p", spoken + many_lines(entry.text.removeprefix(level)), "note", entry.level
            )


def draw_said(entry: entries.Said) -> str:
    """Words of the person as they were typed, words of a worker as the Markdown that they are."""
    files = "".join(element("p", f"with {one_line(name)}", "quiet", "file") for name in entry.files)
    head = element("h2", one_line(entry.who), "who")
    if not entry.text.strip():
        return head + files
    words = entry.text.strip("\n")
    if entry.who in ("user", "summary"):
        words, commands = entries.words_and_commands(words)
        shown = element("div", many_lines(words), "words", "plain")
        if commands:
            shown += f'<details class="fold"><summary>and what you ran</summary>{draw_code(commands, "text")}</details>'
    else:
        shown = draw_markdown(words)
    cut = (
        element("p", "It ended here: the answer is not complete.", "quiet", "cut")
        if entry.cut_off
        else ""
    )
    return head + shown + files + cut


def _unfinished(entry: entries.Called, *, live: bool) -> str:
    """The state of a call that has no result."""
    if not live:
        return "unfinished"
    if entry.waits:
        return "waiting"
    return "running" if entry.started else "next"


def draw_call(
    entry: entries.Called, find: FindRenderer = no_renderers, *, live: bool = False
) -> str:
    """A call as one line, which opens to its args, its verdict and its result; it is open where a person called."""
    status = entry.status or _unfinished(entry, live=live)
    mark = MARKS.get(entry.status, "✗") if entry.status else "…"
    edited = isinstance(entry.shown, Diff) and entry.status == "success"
    args_line = main_args if edited else short_args
    shown = readable(args_line(entry.args) if isinstance(entry.args, dict) else "", keep="")
    title = element("b", one_line(entry.tool), "tool")
    if len(shown) > SHORT:
        shown = f"{shown[:SHORT]}…"
    args = element("span", one_line(shown), "args") if shown else ""
    state = element("span", one_line(status), "state")
    sign = f'<span class="mark" aria-hidden="true">{mark}</span>'
    changes = ""
    if isinstance(entry.shown, Diff) and edited:
        changes = element("span", one_line(count_changes(entry.shown)), "changes")
    line = f"<summary>{sign} {title} {args} {changes} {state}</summary>"
    opened = " open" if entry.by_person or edited else ""
    return f'<details class="call {one_line(status)}"{opened}>{line}{draw_call_body(entry, find)}</details>'


def draw_call_body(entry: entries.Called, find: FindRenderer = no_renderers) -> str:
    """Args, verdict and result."""
    short, blocks = entries.split_args(entry.args, entry.shown)
    rows = "".join(
        f"<dt>{one_line(name)}</dt><dd><code>{one_line(value)}</code></dd>"
        for name, value in short.items()
    )
    pieces = [element("dl", rows, "args") if rows else "", *map(draw_block, blocks)]
    if entry.verdict:
        pieces.append(element("p", one_line(entry.verdict), "verdict"))
    drawn = draw_result(entry.shown, find, entry.distribution) if entry.shown is not None else ""
    if entry.status:
        text = entry.shown.text() if entry.shown is not None else ""
        look = "success" if entry.status == "success" else "failure"
        pieces.append(element("p", one_line(entry.ending(text)), "ending", look))
    return "".join(pieces) + drawn


def draw_block(block: entries.ArgumentBlock) -> str:
    """A long arg with its name."""
    name = element("p", one_line(block.name), "quiet", "label")
    text = block.text.strip("\n")
    drawn = draw_diff(text) if block.language == "diff" else draw_code(text, block.language)
    return name + fold_away(drawn, text.count("\n") + 1, View("text", text))


FRAME = Path(__file__).with_name("page.html")


def page(told: entries.Transcript, find: FindRenderer = no_renderers) -> str:
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
            return element(
                "section", draw_entry(entry, find), "user" if entry.who == "user" else "other"
            )
        case entries.Called():
            name = element("p", element("code", element("b", one_line(entry.tool))))
            return element("section", name + draw_call_body(entry, find), "call")
        case entries.Noted():
            return draw_entry(entry, find)
