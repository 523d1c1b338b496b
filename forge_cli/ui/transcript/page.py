"""A conversation as a page for a browser: one file that loads nothing and runs nothing."""

from __future__ import annotations

from pathlib import Path

from forge_cli.ui.html.entries import draw_call_body, draw_entry
from forge_cli.ui.html.markdown import element, one_line, style_sheet
from forge_cli.ui.transcript.entries import Called, Noted, Said, Transcript, TranscriptEntry
from forge_cli.ui.views import FindRenderer, no_renderers

FRAME = Path(__file__).with_name("page.html")


def page(told: Transcript, find: FindRenderer = no_renderers) -> str:
    about = f"{told.worker} with {told.model}, {told.started}, in {told.workspace}"
    head = element("h1", one_line(told.session)) + element("p", one_line(about), "quiet")
    body = [element("header", head), *(_indented(entry, find) for entry in told.entries)]
    style = FRAME.with_suffix(".css").read_text("utf-8") + style_sheet()
    title = one_line(f"{told.worker}: {told.session}")
    return FRAME.read_text("utf-8").format(title=title, style=style, body="\n".join(body))


def _indented(entry: TranscriptEntry, find: FindRenderer) -> str:
    drawn = _draw(entry, find)
    for _ in range(entry.depth):
        drawn = element("div", drawn, "inside")
    return drawn


def _draw(entry: TranscriptEntry, find: FindRenderer) -> str:
    match entry:
        case Said():
            return element("section", draw_entry(entry, find), "user" if entry.who == "user" else "other")
        case Called():
            name = element("p", element("code", element("b", one_line(entry.tool))))
            return element("section", name + draw_call_body(entry, find), "call")
        case Noted():
            return draw_entry(entry, find)
