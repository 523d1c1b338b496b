"""A conversation as a page for a browser: one file that loads nothing and runs nothing."""

from __future__ import annotations

from forge_cli.ui.html.entries import draw_call_body, draw_entry
from forge_cli.ui.html.markdown import element, one_line, style_sheet
from forge_cli.ui.transcript.entries import Called, Noted, Said, Transcript, TranscriptEntry
from forge_cli.ui.views import FindRenderer, no_renderers

STYLE = """
:root { color-scheme: light dark; --line: #8884; --quiet: #777; --back: #8881; --go: #188038; --stop: #c5221f; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem; }
header { border-bottom: 1px solid var(--line); margin-bottom: 1.5rem; }
h1 { font-size: 1.2rem; margin: 0; }
h2 { font-size: 1rem; margin: 1.5rem 0 .25rem; }
p { margin: .25rem 0; }
pre, code { font: 13px/1.45 ui-monospace, monospace; }
pre { background: var(--back); padding: .6rem .8rem; border-radius: 6px; white-space: pre-wrap; margin: .4rem 0; }
pre, .words, code { overflow-wrap: anywhere; }
pre.short { max-height: 12lh; overflow: auto; }
.plain { white-space: pre-wrap; }
.user .words { background: var(--back); border-radius: 6px; padding: .6rem .8rem; }
.call { border-left: 3px solid var(--line); padding-left: .8rem; margin: .8rem 0; }
.inside { margin-left: 2rem; }
.quiet, .note, .verdict, .gutter, .about { color: var(--quiet); font-size: .85rem; }
.success, .plus { color: var(--go); }
.failure, .minus { color: var(--stop); }
dl.args { display: grid; grid-template-columns: max-content 1fr; gap: 0 .6rem; margin: .2rem 0; }
dd { margin: 0; }
table { border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: .1rem .8rem .1rem 0; }
.right { text-align: right; }
.center { text-align: center; }
img { max-width: 100%; }
summary { cursor: pointer; color: var(--quiet); font-size: .85rem; }
"""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


def page(told: Transcript, find: FindRenderer = no_renderers) -> str:
    about = f"{told.worker} with {told.model}, {told.started}, in {told.workspace}"
    head = element("h1", one_line(told.session)) + element("p", one_line(about), "quiet")
    body = [element("header", head), *(_indented(entry, find) for entry in told.entries)]
    style = STYLE + style_sheet()
    return PAGE.format(title=one_line(f"{told.worker}: {told.session}"), style=style, body="\n".join(body))


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
