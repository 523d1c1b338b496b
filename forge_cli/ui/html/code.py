"""Text of others and code as HTML: escaped, coloured by the classes of pygments, with the style sheet for those."""

from __future__ import annotations

import re
from functools import cache
from html import escape

from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import find_lexer_class_for_filename, get_lexer_by_name
from pygments.util import ClassNotFound

from forge_cli.core.text import readable, visible

HIGHLIGHTED = 30_000
"""Characters of code that are coloured; what is longer would hold up everybody else."""
LIGHT, DARK = "xcode", "github-dark"
"""The styles of pygments for the two colour schemes."""
CONTRAST = 5.0
"""How much a colour has to differ from what is behind it, so that it can be read."""
_BACKGROUNDS = {LIGHT: "#f2f2f2", DARK: "#1e1e1e"}
_COLOUR = re.compile(r"color: #([0-9A-Fa-f]{6}|[0-9A-Fa-f]{3})\b")
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
    light, dark = _rules(LIGHT), _rules(DARK)
    inner = "".join(f"  {line}\n" for line in dark.splitlines())
    head = "/* Colours of code, made by forge_cli.ui.html.code. */\n"
    return f"{head}{light}@media (prefers-color-scheme: dark) {{\n{inner}}}\n"


def _rules(style: str) -> str:
    """The rules of a style of pygments, without comments, backgrounds and numbers of lines."""
    behind = _BACKGROUNDS[style]
    rules = []
    for line in HtmlFormatter(style=style).get_token_style_defs(".code"):  # type: ignore[no-untyped-call]
        bare = re.sub(r"\s*/\*.*?\*/", "", line)
        bare = re.sub(r"background-color: [^;}]+;?\s*|border: [^;}]+;?\s*", "", bare)
        if "{ }" not in bare and "{}" not in bare:
            rules.append(_COLOUR.sub(lambda found: f"color: {_legible(found[1], behind)}", bare))
    return "".join(f"{rule}\n" for rule in rules if re.search(r"\{\s*\S", rule) and not rule.rstrip().endswith("{ }"))


def _legible(colour: str, behind: str) -> str:
    """The colour, moved towards black or white until it can be read."""
    wide = "".join(2 * digit for digit in colour) if len(colour) == 3 else colour
    parts, end = [int(wide[at : at + 2], 16) for at in (0, 2, 4)], 0 if _luminance(_parts(behind)) > 0.5 else 255
    while _contrast(parts, _parts(behind)) < CONTRAST:
        parts = [part + round((end - part) * 0.1) + (0 if part == end else (1 if end > part else -1)) for part in parts]
        parts = [min(255, max(0, part)) for part in parts]
    return "#" + "".join(f"{part:02x}" for part in parts)


def _parts(colour: str) -> list[int]:
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


def _contrast(one: list[int], other: list[int]) -> float:
    """As the Web Content Accessibility Guidelines reckon it."""
    lower, higher = sorted((_luminance(one), _luminance(other)))
    return (higher + 0.05) / (lower + 0.05)


def _luminance(parts: list[int]) -> float:
    linear = [part / 255 / 12.92 if part <= 10 else ((part / 255 + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
