"""Markdown of a model as HTML, also while it grows, without its own HTML and images; and code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from copy import deepcopy
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import find_lexer_class_for_filename, get_lexer_by_name
from pygments.util import ClassNotFound

from forge_cli.core.text import readable, visible
from forge_cli.ui.tasks import mark_tasks

MAX_MARKDOWN = 200_000
"""Characters of Markdown to render; longer text is shown as it is."""
# No other schemes: javascript: and data: links could run scripts on the page.
_LINK = re.compile(r"(https?://|mailto:)[^\s]+", re.IGNORECASE)
_END = "\\s<>\"'`|\\\\。、，；：！？）」』】"
_BARE = re.compile(rf"https?://[^{_END}]*[^{_END}.,;:!?)\]}}*_~]", re.IGNORECASE)
"""An address within a sentence, without the punctuation after it."""
_ALIGNED = re.compile(r"text-align:\s*(left|center|right)")
_HEADING_OFFSET = 2
"""Levels of headings on the page above the headings of an answer."""
Tokens = Sequence[Token]


def draw_markdown(text: str) -> str:
    """Return the Markdown of a model as HTML."""
    if len(text) > MAX_MARKDOWN:
        return element("div", many_lines(text), "words", "plain")
    return element("div", markdown_parser().render(readable(text)), "words")


def _is_link(url: str) -> bool:
    return _LINK.fullmatch(url) is not None


@cache
def markdown_parser() -> MarkdownIt:
    """Return the parser and renderer of answers."""
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "typographer": False})
    # An image could tell a foreign server that the answer is read, and leak data in its address.
    parser.enable(["table", "strikethrough"]).disable(["image", "html_block", "html_inline"])
    parser.validateLink = _is_link  # type: ignore[method-assign]
    for name in ("fence", "code_block"):
        parser.add_render_rule(name, _draw_fence)
    for name in ("heading_open", "heading_close"):
        parser.add_render_rule(name, _draw_heading)
    for name in ("th_open", "td_open"):
        parser.add_render_rule(name, _draw_cell)
    parser.core.ruler.push("bare links", _link_addresses)
    parser.core.ruler.push("tasks", lambda state: mark_tasks(state.tokens))
    parser.add_render_rule("link_open", _draw_link)
    parser.add_render_rule("table_open", lambda *_: '<div class="table"><table>\n')
    parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
    return parser


def _link_addresses(state: StateCore) -> None:
    for block in state.tokens:
        if block.type == "inline" and "://" in block.content:
            block.children = list(_with_links(block.children or []))


def _with_links(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yield tokens with a link around each bare address."""
    inside = 0
    for token in tokens:
        if token.type in ("link_open", "link_close"):
            inside += token.nesting  # 1 opens a link, -1 closes it
        if token.type != "text" or inside:
            yield token
            continue
        end = 0
        for found in _BARE.finditer(token.content):
            yield Token("text", "", 0, content=token.content[end : found.start()])
            yield Token("link_open", "a", 1, attrs={"href": found[0]})
            yield Token("text", "", 0, content=found[0])
            yield Token("link_close", "a", -1)
            end = found.end()
        yield Token("text", "", 0, content=token.content[end:])


def _draw_fence(
    self: RendererHTML, tokens: Tokens, at: int, options: Any, env: MutableMapping[str, Any]
) -> str:
    token = tokens[at]
    language = "text"
    if token.info.split():
        language = token.info.split()[0]
    return draw_code(token.content.removesuffix("\n"), language) + "\n"


def _draw_heading(
    self: RendererHTML, tokens: Tokens, at: int, options: Any, env: MutableMapping[str, Any]
) -> str:
    """Return a heading one level below its parent, even if the model skips levels."""
    above: list[str] = env.setdefault("headings", [])
    if tokens[at].nesting == 1:
        above[:] = [*(tag for tag in above if tag < tokens[at].tag), tokens[at].tag]
    tag = f"h{min(len(above) + _HEADING_OFFSET, 6)}"
    if tokens[at].nesting == 1:
        return f"<{tag}>"
    return f"</{tag}>\n"


def _draw_cell(
    self: RendererHTML, tokens: Tokens, at: int, options: Any, env: MutableMapping[str, Any]
) -> str:
    """Return a cell with its alignment as a class: the page forbids inline styles."""
    token = tokens[at]
    aligned = _ALIGNED.search(str(token.attrGet("style") or ""))
    if aligned:
        return f'<{token.tag} class="{aligned[1]}">'
    return f"<{token.tag}>"


def _draw_link(
    self: RendererHTML, tokens: Tokens, at: int, options: Any, env: MutableMapping[str, Any]
) -> str:
    token = tokens[at]
    token.attrs = {
        "href": token.attrGet("href") or "",
        "rel": "noopener noreferrer",
        "target": "_blank",
    }
    return self.renderToken(tokens, at, options, env)


MAX_HIGHLIGHTED = 30_000
"""Characters of code to highlight; longer code would block the event loop."""
STYLE_SHEET = Path(__file__).with_name("pygments.css")
_FORMATTER: HtmlFormatter[str] = HtmlFormatter(nowrap=True)


def one_line(text: str) -> str:
    """Return untrusted text as one escaped line."""
    return escape(visible(text))


def many_lines(text: str, *, exact: bool = False) -> str:
    """Return untrusted text as escaped lines; use ``exact`` for previews to decide on."""
    return escape(visible(text, keep="\n\t") if exact else readable(text))


def element(tag: str, inside: str, *classes: str) -> str:
    """Return an element around HTML."""
    named = " ".join(filter(None, classes))
    if named:
        return f'<{tag} class="{named}">{inside}</{tag}>'
    return f"<{tag}>{inside}</{tag}>"


def draw_code(text: str, language: str = "text", name: str = "", *, exact: bool = False) -> str:
    """Return a block of code; without a language, the file ``name`` can give it."""
    inside = many_lines(text, exact=exact)
    if len(text) <= MAX_HIGHLIGHTED and (lexer := _lexer(language, name)):
        if exact:
            shown = visible(text, keep="\n\t")
        else:
            shown = readable(text)
        inside = highlight(shown, lexer, _FORMATTER).removesuffix("\n")
    return element("pre", element("code", inside), "code")


def _lexer(language: str, name: str) -> Lexer | None:
    if language not in ("", "text"):
        return _named_lexer(language.lower())
    file = name.rpartition("/")[2]
    _, dot, suffix = file.rpartition(".")
    if file:
        # The suffix, not the whole name, so that few lexers are cached.
        return _file_lexer(dot + suffix)
    return None


@cache
def _named_lexer(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


@cache
def _file_lexer(ending: str) -> Lexer | None:
    found = find_lexer_class_for_filename(f"x{ending}" if ending.startswith(".") else ending)
    if found and found.name != "Text only":
        return found(stripnl=False, ensurenl=False)
    return None


def style_sheet() -> str:
    """Return the colours of code for a light and a dark scheme."""
    return STYLE_SHEET.read_text("utf-8")


_MARKS = re.compile(r"[-=*_#>|`~+:\s]*|\s*\d+[.)]?\s*")
"""An incomplete line that may become a rule, a heading, an item, a fence or a row."""
_OPEN_LINK = re.compile(r"\[([^\[\]]*)(\](\([^()\s]*)?)?\Z")
_CODE = re.compile(r"`[^`]*`")
_VERBATIM = ("fence", "code_block")


class GrowingMarkdown:
    """The HTML of an answer that is still being written."""

    def __init__(self) -> None:
        self.done = ""
        """The HTML of complete blocks."""
        self._rest = ""
        self._env: MutableMapping[str, Any] = {}

    def add(self, text: str) -> None:
        """Add text of the answer."""
        self._rest += text

    def draw(self) -> tuple[str, str]:
        """Return the HTML of newly completed blocks, and of the incomplete block after them."""
        self._rest = readable(self._rest)
        shown = _without_marks(self._rest)
        lines = shown.split("\n")
        blocks = self._blocks(shown)
        # Only the last block can still change.
        certain = ""
        if blocks and (start := _first_line(blocks[-1])):
            certain = markdown_parser().render("\n".join(lines[:start]), self._env)
            self._rest = "\n".join(self._rest.split("\n")[start:])
            self.done += certain
            lines = lines[start:]
        return certain, self._draw_last("\n".join(lines), blocks[-1] if blocks else None)

    def _blocks(self, text: str) -> list[Token]:
        """Return the first token of each top-level block."""
        # A copy, because the parser adds link definitions that may be incomplete.
        tokens = markdown_parser().parse(text, deepcopy(self._env))
        return [token for token in tokens if token.level == 0 and token.map]

    def _draw_last(self, text: str, block: Token | None) -> str:
        if block is None:
            return ""
        if block.type == "paragraph_open":
            text = _without_rows(text)
        if block.type not in _VERBATIM:
            head, line_break, line = text.rpartition("\n")
            text = head + line_break + _closed(line)
        return str(markdown_parser().render(text, deepcopy(self._env)))


def _first_line(block: Token) -> int:
    return block.map[0] if block.map else 0


def _without_marks(text: str) -> str:
    """Return a text without its last line if that may still change its meaning."""
    head, line_break, line = text.rpartition("\n")
    if _MARKS.fullmatch(line):
        return head + line_break
    return text


def _without_rows(text: str) -> str:
    """Return a paragraph up to a row that may be the head of a table."""
    shown = []
    for line in text.split("\n"):
        if line.lstrip().startswith("|"):
            break
        shown.append(line)
    return "\n".join(shown)


def _closed(line: str) -> str:
    """Return a line with its open code, bold words or link closed."""
    if line.count("`") % 2:
        if line.endswith("`"):
            return line[:-1]
        return f"{line}`"
    line = _OPEN_LINK.sub(r"\1", line)
    if _CODE.sub("", line).count("**") % 2:
        bold = line.rstrip("*")
    else:
        bold = line
    if _CODE.sub("", bold).count("**") % 2:
        return f"{bold.rstrip()}**"
    return bold
