"""A conversation as a page for a browser: one file that loads nothing and runs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from forge_cli.core.text import counted, readable, visible
from forge_cli.ui.terminal.render import render_text
from forge_cli.ui.transcript.arguments import split_args
from forge_cli.ui.transcript.entries import Called, Noted, Said, Transcript, TranscriptEntry
from forge_cli.ui.views import FindRenderer, View, no_renderers, view_of

LONG = 30
"""Lines of a result; a longer one is folded away."""

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
.words { white-space: pre-wrap; }
.user .words { background: var(--back); border-radius: 6px; padding: .6rem .8rem; }
.call { border-left: 3px solid var(--line); padding-left: .8rem; margin: .8rem 0; }
.quiet { color: var(--quiet); font-size: .85rem; }
.success, .plus { color: var(--go); }
.failure, .minus { color: var(--stop); }
summary { cursor: pointer; color: var(--quiet); font-size: .85rem; }
"""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


def page(told: Transcript, find: FindRenderer = no_renderers) -> str:
    head = f"<h1>{_line(told.session)}</h1>"
    about = f"{told.worker} with {told.model}, {told.started}, in {told.workspace}"
    body = [f'<header>{head}<p class="quiet">{_line(about)}</p></header>']
    body += [_indented(entry, find) for entry in told.entries]
    return PAGE.format(title=_line(f"{told.worker}: {told.session}"), style=STYLE, body="\n".join(body))


def _indented(entry: TranscriptEntry, find: FindRenderer) -> str:
    inside = "".join(_entry(entry, find))
    return f'<div style="margin-left: {2 * entry.depth}rem">{inside}</div>' if entry.depth else inside


def _entry(entry: TranscriptEntry, find: FindRenderer) -> Iterator[str]:
    match entry:
        case Said():
            yield f'<section class="{"user" if entry.who == "user" else "other"}"><h2>{_line(entry.who)}</h2>'
            if entry.text.strip():
                yield f'<div class="words">{_text(entry.text.strip(chr(10)))}</div>'
            yield from (f'<p class="quiet">with {_line(name)}</p>' for name in entry.files)
            yield "</section>"
        case Called():
            yield '<section class="call">'
            yield from _called(entry, find)
            yield "</section>"
        case Noted():
            yield f'<p class="quiet">{_line(entry.text)}</p>'


def _called(entry: Called, find: FindRenderer) -> Iterator[str]:
    short, blocks = split_args(entry.args, entry.shown)
    named = "".join(f" <code>{_line(name)}={_line(value)}</code>" for name, value in short.items())
    yield f"<p><code><b>{_line(entry.tool)}</b></code>{named}</p>"
    for block in blocks:
        yield f'<p class="quiet">{_line(block.name)}</p>' if len(blocks) > 1 or block.language == "text" else ""
        yield _pre(block.text.strip("\n"), View("diff" if block.language == "diff" else "text", block.text))
    if entry.verdict:
        yield f'<p class="quiet">{_line(entry.verdict)}</p>'
    view = view_of(entry.shown, find, entry.distribution) if entry.shown is not None else None
    text = render_text(view) if view else ""
    if entry.status:
        look = "success" if entry.status == "success" else "failure"
        yield f'<p class="{look}">{_line(entry.ending(text))}</p>'
    if text:
        yield _pre(text, view)


def _pre(text: str, view: View | None = None) -> str:
    """A block of text, folded away and bounded as its view says."""
    view, lines = view or View("text", text), text.split("\n")
    shown = "\n".join(map(_coloured, lines)) if view.form == "diff" else _text(text)
    height = f' style="max-height: {view.max_height}lh; overflow: auto"' if view.max_height else ""
    block = f"<pre{height}>{shown}</pre>"
    folded = len(lines) > LONG if view.collapsed is None else view.collapsed
    return f"<details><summary>{counted(len(lines), 'line')}</summary>{block}</details>" if folded else block


def _coloured(line: str) -> str:
    look = {"+": "plus", "-": "minus"}.get(line[:1])
    return f'<span class="{look}">{_text(line)}</span>' if look else _text(line)


def _line(text: str) -> str:
    return escape(visible(text))


def _text(text: str) -> str:
    return escape(readable(text))
