"""Markdown on a terminal: complete blocks are printed, the last one is redrawn while it grows.

Import it only when there is Markdown, as it loads the parser and rich's Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from io import StringIO
from typing import cast

from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec import Struct
from pygments.token import Comment, Generic, Keyword, Name, Number, Operator, String
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, Paragraph, TableElement
from rich.segment import Segment
from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax
from rich.table import Table
from rich.text import Text as Styled
from rich.theme import Theme

from forge_cli.core.text import readable
from forge_cli.ui.tasks import mark_tasks
from forge_cli.ui.terminal.console import COLUMNS, ROWS
from forge_cli.ui.wrap import NARROWEST, row_spans

MAX_OPEN_CODE = 100
"""Lines to draw of an incomplete code block."""
MAX_OPEN = 4_000
"""Characters to draw of an incomplete block; longer ones are not parsed at every new line."""
TAB = 8
MAX_HIGHLIGHTED = 100_000
"""Characters of code to highlight; longer code would take too long."""
THEME = Theme(
    {
        "markdown.code": "cyan",
        "markdown.block_quote": "dim",
        "markdown.hr": "dim",
        "markdown.item.bullet": "none",
        "markdown.item.number": "none",
        "markdown.link": "underline",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
        **{f"markdown.h{level}": "bold" for level in range(1, 7)},
    }
)
CODE = ANSISyntaxTheme(
    {
        Comment: Style(dim=True),
        Keyword: Style(color="magenta"),
        Operator.Word: Style(color="magenta"),
        Name.Builtin: Style(color="cyan"),
        Name.Class: Style(bold=True),
        Name.Decorator: Style(color="cyan"),
        Name.Function: Style(bold=True),
        Name.Tag: Style(color="magenta"),
        Number: Style(color="cyan"),
        String: Style(color="green"),
        Generic.Deleted: Style(color="red"),
        Generic.Heading: Style(bold=True),
        Generic.Inserted: Style(color="green"),
    }
)
"""Colours of code for dark and light terminals; bright colours and blue are hard to read."""
_ENDS_AT_ONCE = frozenset({"hr", "heading_open"})
_LISTS = ("ordered_list_open", "bullet_list_open")
_LIST_ENDS = ("ordered_list_close", "bullet_list_close")
_ENDS_AT_A_BLANK_LINE = frozenset({"paragraph_open", "table_open"})


class MarkdownStream:
    """A stream of Markdown: ``feed`` returns complete blocks, ``end`` the rest."""

    def __init__(self, width: Callable[[], int | None], *, styled: bool = True) -> None:
        """Call ``width`` before every drawing; use escape sequences only if ``styled``."""
        self._width = width
        self._styled = styled
        self._held = self._fence = ""
        self._next_look = 0
        """The length of the held text below which it is not parsed again."""
        self._begun = False
        self._drawn: tuple[str, int, list[str]] = "", 0, []

    def feed(self, delta: str) -> str:
        """Add text and return the blocks that are complete."""
        self._held += delta
        if "\n" not in delta or (self._fence and not _closes(self._fence, self._held)):
            return ""
        if len(self._held) < self._next_look and not self._fence:
            return ""
        lines = self._held.split("\n")
        done, self._fence = _complete(self._held, lines)
        self._held = "\n".join(lines[done:])
        # Parsing a long block at every line would take quadratic time.
        if len(self._held) > MAX_OPEN:
            self._next_look = len(self._held) * 5 // 4
        else:
            self._next_look = 0
        return self._print("\n".join(lines[:done]))

    def end(self) -> str:
        """Return the rest of the text; the next ``feed`` begins another text."""
        rest = self._print(self._held)
        self.drop()
        self._begun = False
        return rest

    def drop(self) -> None:
        """Drop the incomplete block."""
        self._held = self._fence = ""
        self._next_look = 0

    @property
    def is_open(self) -> bool:
        """Return True if there is an incomplete block."""
        return bool(self._held)

    @property
    def begun(self) -> bool:
        """Return True if a block of this text was printed."""
        return self._begun

    def open_lines(self) -> list[str]:
        """Return the rows of the incomplete block."""
        text = self._held
        width = self._columns
        if self._drawn[:2] != (text, width):
            self._drawn = text, width, self._draw(_newest(text) if self._fence else _end_of(text))
        return self._drawn[2]

    @property
    def _columns(self) -> int:
        return max((self._width() or COLUMNS) - 1, NARROWEST)

    def _print(self, text: str) -> str:
        lines = self._draw(text)
        self._begun = self._begun or bool(lines)
        return "".join(f"{line}\n" for line in lines)

    def _draw(self, text: str) -> list[str]:
        lines = draw_markdown(text, self._columns, styled=self._styled)
        if lines and self._begun:  # an empty line between two blocks
            return ["", *lines]
        return lines


def draw_markdown(text: str, width: int, *, styled: bool = True, joined: bool = False) -> list[str]:
    """Return the rows of a text, with escape sequences if ``styled``."""
    console = Console(
        file=StringIO(),
        width=width,
        height=ROWS,
        force_terminal=True,
        color_system="standard" if styled else None,
    )
    with console.capture() as drawn:
        console.print(DrawnMarkdown(text, joined=joined), soft_wrap=True, end="")
    rows = drawn.get().rstrip("\n")
    return rows.split("\n") if rows else []


class DrawnMarkdown(Struct, frozen=True):
    """A Markdown text as a renderable; ``joined`` joins the lines of a paragraph."""

    text: str
    joined: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        options = options.update(no_wrap=False, overflow="fold")
        first = True
        lines = self.text.split("\n")
        for block in _blocks(_parser().parse(self.text)):
            tokens = _prepared(block, joined=self.joined, marked=not console.color_system)
            rows = _rows(_ParsedMarkdown(list(tokens)), console, options)
            if not rows and block[0].map and block[0].type != "fence":
                # rich draws nothing, for example of a link without words: show it as it is.
                start, end = block[0].map
                rows = _rows(Styled(readable("\n".join(lines[start:end]))), console, options)
            if not rows:
                continue
            if not first:
                yield Segment.line()
            for row in rows:
                yield from (*row, Segment.line())
            first = False


def _rows(shown: RenderableType, console: Console, options: ConsoleOptions) -> list[list[Segment]]:
    """Return the rows of a block, without empty rows around them."""
    with console.use_theme(THEME):
        rows = [_trimmed(row) for row in console.render_lines(shown, options, pad=False)]
    while rows and not rows[-1]:
        rows.pop()
    while rows and not rows[0]:
        rows.pop(0)
    return rows


def draw_code(code: str, language: str, name: str = "") -> RenderableType:
    """Return code, highlighted unless very long; the file ``name`` can give the language."""
    if len(code) > MAX_HIGHLIGHTED:
        return Styled(code)
    if name and language == "text":
        # The blank as content makes it look at the name only; guessing from content is slow.
        language = Syntax.guess_lexer(name, " ")
    return Syntax(
        code, language, theme=CODE, background_color="default", word_wrap=True, tab_size=TAB
    )


@cache
def _parser() -> MarkdownIt:
    """Return a parser without HTML, images and link definitions, which rich would not show."""
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    return parser.disable(["image", "html_block", "html_inline", "reference"])


@cache
def _block_parser() -> MarkdownIt:
    """Return a parser for blocks only, which is faster."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    return parser.disable(["html_block", "reference", "inline"])


def _complete(text: str, lines: Sequence[str]) -> tuple[int, str]:
    """Return the number of lines in complete blocks, and the marker of an open fence after them."""
    blocks = []
    for token in _block_parser().parse(text):
        if token.level == 0 and token.map and token.nesting >= 0:
            blocks.append(token)
    if not blocks:
        return 0, ""
    last = blocks[-1]
    ended = len(lines) - 1
    start, end = last.map or (0, 0)
    if last.type == "fence":
        body = "\n".join(lines[start + 1 : end])
        is_open = not _closes(last.markup, f"{body}\n") or end > ended
        if is_open:
            return (start, last.markup)
        return (end, "")
    at_once = last.type in _ENDS_AT_ONCE and end <= ended
    after_blank = last.type in _ENDS_AT_A_BLANK_LINE and end < ended
    is_complete = at_once or after_blank  # a list, for example, can go on after a blank line
    return end if is_complete else start, ""


def _closes(fence: str, text: str) -> bool:
    """Return True if the last whole line of a text closes the fence."""
    pattern = rf"(?:^|\n) {{0,3}}{re.escape(fence)}{re.escape(fence[0])}* *\n[^\n]*$"
    return re.search(pattern, text[-1000:]) is not None  # a search of the whole text would be slow


def _newest(text: str) -> str:
    """Return the newest lines of an incomplete code block."""
    fence, *code = text.split("\n")
    return "\n".join([fence, *code[-MAX_OPEN_CODE:]])


def _end_of(text: str) -> str:
    """Return the newest words of an incomplete paragraph."""
    if len(text) <= MAX_OPEN:
        return text
    end = text[-MAX_OPEN:]
    cut = min((at for at in (end.find(" "), end.find("\n")) if at >= 0), default=-1)
    return end[cut + 1 :]


def _blocks(tokens: Iterable[Token]) -> Iterator[list[Token]]:
    block: list[Token] = []
    for token in tokens:
        block.append(token)
        if token.level == 0 and token.nesting <= 0:
            yield block
            block = []


def _prepared(tokens: Iterable[Token], *, joined: bool, marked: bool) -> Iterator[Token]:
    """Yield tokens for rich: links with their address, kept line ends, entities without escapes.

    ``marked`` keeps the markers of bold, struck and quoted words, for terminals without styles.
    """
    found = list(tokens)
    mark_tasks(found)
    for token in _with_empty_items(found):
        if token.children is not None:
            token.children = [*_inline(token.children, joined=joined, marked=marked)]
        yield token


def _with_empty_items(tokens: list[Token]) -> Iterator[Token]:
    """Add content to empty list items, which rich leaves out: an answer may be just ``42.``."""
    end = 0
    for place, token in enumerate(tokens):
        if place < end:
            continue
        if token.type in _LISTS and (items := _empty_list(tokens, place)):
            # Two tokens for each item, and the two of the list.
            end = place + 2 * len(items) + 2
            yield from _paragraph([f"{item.info}{item.markup}" for item in items])
            continue
        yield token
        if token.type == "list_item_open" and tokens[place + 1].type == "list_item_close":
            yield from _paragraph([""])


def _empty_list(tokens: Sequence[Token], place: int) -> list[Token]:
    """Return the items of the list at ``place`` if all of them are empty, else none."""
    items: list[Token] = []
    for opened, closed in zip(tokens[place + 1 :: 2], tokens[place + 2 :: 2], strict=False):
        if (opened.type, closed.type) != ("list_item_open", "list_item_close"):
            if opened.type in _LIST_ENDS:
                return items
            return []
        items.append(opened)
    return items


def _paragraph(lines: Iterable[str]) -> tuple[Token, Token, Token]:
    words: list[Token] = []
    for line in lines:
        words += [Token("hardbreak", "br", 0)] * bool(words)
        words.append(Token("text", "", 0, content=line))
    inline = Token("inline", "", 0, children=words)
    return Token("paragraph_open", "p", 1), inline, Token("paragraph_close", "p", -1)


def _inline(tokens: Iterable[Token], *, joined: bool, marked: bool) -> Iterator[Token]:
    link = ""
    words = ""
    for token in tokens:
        token.content = readable(token.content)
        words += token.content
        match token.type:
            case "softbreak" if not joined:
                yield Token("hardbreak", "br", 0)
            case "link_open":
                link = readable(str(token.attrs.get("href", "")), keep="")
                words = ""
                yield Token("words_open", "link", 1)
            case "link_close":
                yield Token("words_close", "link", -1)
                if link.removeprefix("mailto:") != words:  # a bare address is not repeated
                    yield Token("text", "", 0, content=f" ({link})")
            case "code_inline" if marked:
                yield Token("text", "", 0, content=f"{token.markup}{token.content}{token.markup}")
            case "strong_open" | "strong_close" | "em_open" | "em_close" | "s_open" | "s_close" if (
                marked
            ):
                yield Token("text", "", 0, content=token.markup)
            case _:
                yield token


def _trimmed(row: list[Segment]) -> list[Segment]:
    """Return a row without blanks at its end, which would be copied with the text."""
    while row and not row[-1].text.rstrip():
        row = row[:-1]
    if not row:
        return []
    return [*row[:-1], Segment(row[-1].text.rstrip(), row[-1].style)]


class _Words(Paragraph):
    """A paragraph wrapped between words, and within Chinese and Japanese text."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self.text.split("\n", allow_blank=True):
            line.expand_tabs(TAB)  # a tab has no width of its own in row_spans
            for start, end in row_spans(line.plain, options.max_width):
                yield line[start:end]


class _LeftHeading(Heading):
    """A heading at the left edge; without colours it keeps its markers."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if console.color_system:
            marks = ""
        else:
            marks = "#" * int(self.tag[1:]) + " "
        whole = Styled.assemble(marks, self.text)
        for start, end in row_spans(whole.plain, options.max_width):
            yield whole[start:end]


class _Code(CodeBlock):
    """Highlighted code; without colours it keeps its fences."""

    info = ""
    """The text after the first fence, such as the language."""

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> _Code:
        made = cast(_Code, super().create(markdown, token))
        made.info = readable(token.info, keep="")
        return made

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = draw_code(str(self.text).rstrip(), self.lexer_name)
        if console.color_system:
            yield code
        else:
            yield from (Styled(f"```{self.info}"), code, Styled("```"))


class _Table(TableElement):
    """A table that folds long words instead of cutting them."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            for column in cast(Table, table).columns:
                column.overflow = "fold"
            yield table


class _ParsedMarkdown(Markdown):
    elements = Markdown.elements | {
        "paragraph_open": _Words,
        "heading_open": _LeftHeading,
        "fence": _Code,
        "code_block": _Code,
        "table_open": _Table,
    }
    inlines = Markdown.inlines | {"link"}

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__("")  # rich would parse a text with its own rules
        self.parsed = tokens
