"""Text of others and code as HTML: escaped, coloured by the classes of pygments."""

from __future__ import annotations

import re
from functools import cache
from html import escape
from pathlib import Path

from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import find_lexer_class_for_filename, get_lexer_by_name
from pygments.util import ClassNotFound

from forge_cli.core.text import readable, visible

HIGHLIGHTED = 30_000
"""Characters of code that are coloured; what is longer would hold up everybody else."""
STYLE_SHEET = Path(__file__).with_name("pygments.css")
_FORMATTER: HtmlFormatter[str] = HtmlFormatter(nowrap=True)


def one_line(text: str) -> str:
    """One line of text, whatever is in it."""
    return escape(visible(text))


def many_lines(text: str, *, exact: bool = False) -> str:
    """Text of several lines; ``exact`` is for what somebody decides upon."""
    return escape(visible(text, keep="\n\t") if exact else readable(text))


def element(tag: str, inside: str, *classes: str) -> str:
    """An element around HTML that is drawn already."""
    named = " ".join(filter(None, classes))
    return f'<{tag} class="{named}">{inside}</{tag}>' if named else f"<{tag}>{inside}</{tag}>"


def draw_code(text: str, language: str = "text", name: str = "", *, exact: bool = False) -> str:
    """A block of code; where no language is named, the end of the file's name may tell it."""
    inside = many_lines(text, exact=exact)
    if len(text) <= HIGHLIGHTED and (lexer := _lexer(language, name)):
        shown = visible(text, keep="\n\t") if exact else readable(text)
        inside = highlight(shown, lexer, _FORMATTER).removesuffix("\n")
    return element("pre", element("code", inside), "code")


def _lexer(language: str, name: str) -> Lexer | None:
    if language not in ("", "text"):
        return _named_lexer(language.lower())
    ending = re.search(r"[^/]*\Z", name)
    return _file_lexer(ending[0].rpartition(".")[1] + ending[0].rpartition(".")[2]) if ending and ending[0] else None


@cache
def _named_lexer(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


@cache
def _file_lexer(ending: str) -> Lexer | None:
    found = find_lexer_class_for_filename(f"x{ending}" if ending.startswith(".") else ending)
    return found(stripnl=False, ensurenl=False) if found and found.name != "Text only" else None


def style_sheet() -> str:
    """The colours of code for a light and a dark scheme, each legible on what is behind it."""
    return STYLE_SHEET.read_text("utf-8")
