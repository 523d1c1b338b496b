"""Transcripts as Markdown: messages are quoted, calls are in fences that they cannot close."""

from __future__ import annotations

import re
from collections.abc import Iterator

from forge_cli.core.tables import markdown_rows
from forge_cli.core.text import readable, visible
from forge_cli.ui.terminal.render import render_text
from forge_cli.ui.transcript.entries import Called, Noted, Said, Transcript, split_args
from forge_cli.ui.views import FindRenderer, View, no_renderers, view_of

_LANGUAGE = re.compile(r"[A-Za-z0-9_+#.-]{1,30}")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&!])")


def markdown(told: Transcript, find: FindRenderer = no_renderers) -> str:
    """Return a transcript as Markdown."""
    about = f"{told.worker} with {told.model}, {told.started}, in {told.workspace}"
    pieces = [f"# {_plain(told.session)}", _plain(about)]
    for entry in told.entries:
        match entry:
            case Said():
                pieces += _said(entry)
            case Called():
                pieces += _called(entry, find)
            case Noted():
                pieces.append(f"*{_plain(entry.text)}*")
    return "\n\n".join(pieces) + "\n"


def _said(entry: Said) -> Iterator[str]:
    # Markdown has 6 levels of headings.
    yield f"{'#' * min(entry.depth + 2, 6)} {_plain(entry.who)}"
    if entry.text.strip():
        words = readable(entry.text.strip("\n"))
        yield "\n".join(f"> {line}".rstrip() for line in words.split("\n"))
    for name in entry.files:
        yield f"with {_plain(name)}"


def _called(entry: Called, find: FindRenderer) -> Iterator[str]:
    if entry.verdict:
        verdict = f" ({_plain(entry.verdict)})"
    else:
        verdict = ""
    yield f"**{_plain(entry.tool)}**{verdict}"
    short, blocks = split_args(entry.args, entry.shown)
    if short or not blocks:
        yield fenced("\n".join(f"{name}: {value}" for name, value in short.items()), "yaml")
    for block in blocks:
        yield fenced(block.text.strip("\n"), block.language)
    view = None
    if entry.shown is not None:
        view = view_of(entry.shown, find, entry.distribution)
    text = render_text(view) if view else ""
    if entry.status:
        yield _plain(entry.ending(text))
    if view and view.form == "table":
        yield from _table(view)
    elif view and text:
        yield fenced(text, _language(view))


def _table(view: View) -> Iterator[str]:
    if view.head:
        yield _plain(view.head)
    yield "\n".join(markdown_rows(view.data.columns, view.data.rows))


def _language(view: View) -> str:
    """Return the language of a fence."""
    if view.form == "code" and _LANGUAGE.fullmatch(view.language):
        return view.language
    if view.form == "diff":
        return "diff"
    return "text"


def fenced(text: str, language: str) -> str:
    """Return a text in a fence that it cannot close."""
    # A fence has at least 3 backticks, and more than any run within it.
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{readable(text)}\n{fence}"


def _plain(text: str) -> str:
    """Return a text as one line without Markdown markup."""
    return _SPECIAL.sub(r"\\\1", visible(text))
