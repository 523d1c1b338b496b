"""Markdown on a terminal, by rich: finished blocks are printed for good, the last one is drawn while it grows.

It imports rich's Markdown, and is loaded when there is some.
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

NEWEST = 100
"""Lines of code that are drawn of a block that still grows; all of them are, once it has ended."""
MAX_OPEN = 4_000
"""Characters of a block that are drawn while it still grows, and up to which every new line is looked at."""
TAB = 8
HIGHLIGHTED = 100_000
"""Characters of code that are coloured; what is longer would take too long."""
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
"""Colours of code that can be read on a dark terminal and on a light one; bright ones cannot, nor can blue."""
_ENDS_AT_ONCE = frozenset({"hr", "heading_open"})
_LISTS, _LIST_ENDS = (
    ("ordered_list_open", "bullet_list_open"),
    ("ordered_list_close", "bullet_list_close"),
)
_ENDS_AT_A_BLANK_LINE = frozenset({"paragraph_open", "table_open"})


class MarkdownStream:
    """Takes the words of an answer: ``feed`` gives the blocks that are complete, ``end`` the rest."""

    def __init__(self, width: Callable[[], int | None], *, styled: bool = True) -> None:
        """``width`` is asked whenever something is drawn; without ``styled`` there are no escape sequences."""
        self._width = width
        self._styled = styled
        self._held = self._fence = ""
        self._next_look = 0
        """The length of the held text up to which it is not parsed again: that takes as long as the text."""
        self._begun = False
        self._drawn: tuple[str, int, list[str]] = "", 0, []

    def feed(self, delta: str) -> str:
        """The blocks that nothing can change any more."""
        self._held += delta
        if "\n" not in delta or (self._fence and not _closes(self._fence, self._held)):
            return ""
        if len(self._held) < self._next_look and not self._fence:
            return ""
        lines = self._held.split("\n")
        done, self._fence = _complete(self._held, lines)
        self._held = "\n".join(lines[done:])
        self._next_look = len(self._held) * 5 // 4 if len(self._held) > MAX_OPEN else 0
        return self._print("\n".join(lines[:done]))

    def end(self) -> str:
        """The rest, as nothing more will come; the next text is one of its own."""
        rest = self._print(self._held)
        self.drop()
        self._begun = False
        return rest

    def drop(self) -> None:
        """Forget the block that still grows."""
        self._held = self._fence = ""
        self._next_look = 0

    @property
    def is_open(self) -> bool:
        """Whether a block still grows."""
        return bool(self._held)

    @property
    def begun(self) -> bool:
        """Is something of this text printed?"""
        return self._begun

    def open_lines(self) -> list[str]:
        """The block that still grows, as it would be drawn now."""
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
        return ["", *lines] if lines and self._begun else lines


def draw_markdown(text: str, width: int, *, styled: bool = True, joined: bool = False) -> list[str]:
    """The rows of a text, with escape sequences where it is ``styled``."""
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
    """A text, its blocks apart by an empty row each; with ``joined``, the lines of a paragraph are one."""

    text: str
    joined: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        options = options.update(no_wrap=False, overflow="fold")
        first = True
        lines = self.text.split("\n")
        for block in _blocks(_parser().parse(self.text)):
            marked = not console.color_system
            rows = _rows(
                _ParsedMarkdown([*_prepared(block, joined=self.joined, marked=marked)]),
                console,
                options,
            )
            if (
                not rows and block[0].map and block[0].type != "fence"
            ):  # such as a link without words: it is text, and an answer may be no more
                start, end = block[0].map
                rows = _rows(Styled(readable("\n".join(lines[start:end]))), console, options)
            if not rows:
                continue
            for row in rows if first else [[], *rows]:
                yield from (*row, Segment.line())
            first = False


def _rows(shown: RenderableType, console: Console, options: ConsoleOptions) -> list[list[Segment]]:
    """The rows of a block, without empty ones around them."""
    with console.use_theme(THEME):
        rows = [_trimmed(row) for row in console.render_lines(shown, options, pad=False)]
    while rows and not rows[-1]:
        rows.pop()
    while rows and not rows[0]:
        rows.pop(0)
    return rows


def draw_code(code: str, language: str, name: str = "") -> RenderableType:
    """Code with its colours, where there is not very much of it; ``name`` is that of its file."""
    if len(code) > HIGHLIGHTED:
        return Styled(code)
    if name and language == "text":
        language = Syntax.guess_lexer(
            name, " "
        )  # with a blank as its content only the name is looked at
    return Syntax(
        code, language, theme=CODE, background_color="default", word_wrap=True, tab_size=TAB
    )


@cache
def _parser() -> MarkdownIt:
    """Reads what is shown: no markup of HTML, images and definitions of links, which rich would swallow."""
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    return parser.disable(["image", "html_block", "html_inline", "reference"])


@cache
def _block_parser() -> MarkdownIt:
    return (
        MarkdownIt("commonmark", {"html": False})
        .enable("table")
        .disable(["html_block", "reference", "inline"])
    )


def _complete(text: str, lines: Sequence[str]) -> tuple[int, str]:
    """How many lines belong to blocks that are complete, and the mark of the fence that is open behind them."""
    blocks = [
        token
        for token in _block_parser().parse(text)
        if token.level == 0 and token.map and token.nesting >= 0
    ]
    if not blocks:
        return 0, ""
    last = blocks[-1]
    ended = len(lines) - 1
    start, end = last.map or (0, 0)
    if last.type == "fence":
        body = "\n".join(lines[start + 1 : end])
        is_open = not _closes(last.markup, f"{body}\n") or end > ended
        return (start, last.markup) if is_open else (end, "")
    at_once = last.type in _ENDS_AT_ONCE and end <= ended
    after_blank = last.type in _ENDS_AT_A_BLANK_LINE and end < ended
    return (end if at_once or after_blank else start), ""


def _closes(fence: str, text: str) -> bool:
    """Is the last whole line of a text the end of the code that a fence began?"""
    pattern = rf"(?:^|\n) {{0,3}}{re.escape(fence)}{re.escape(fence[0])}* *\n[^\n]*$"
    return re.search(pattern, text[-1000:]) is not None


def _newest(text: str) -> str:
    """Code that still grows, without its older lines."""
    fence, *code = text.split("\n")
    return "\n".join([fence, *code[-NEWEST:]])


def _end_of(text: str) -> str:
    """A paragraph that still grows, without its older words."""
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
    """Tokens as rich shall draw them: links with their address, line ends as they are, no escapes out of entities.

    With ``marked`` the marks of bold, struck and quoted words stay, because no style tells them from the others.
    """
    found = list(tokens)
    mark_tasks(found)
    for token in _with_empty_items(found):
        if token.children is not None:
            token.children = [*_inline(token.children, joined=joined, marked=marked)]
        yield token


def _with_empty_items(tokens: list[Token]) -> Iterator[Token]:
    """Items without content get one, since rich draws none of them: an answer may be ``42.``, or have such a line."""
    end = 0
    for place, token in enumerate(tokens):
        if place < end:
            continue
        if token.type in _LISTS and (items := _empty_list(tokens, place)):
            end = place + 2 * len(items) + 2
            yield from _paragraph([f"{item.info}{item.markup}" for item in items])
            continue
        yield token
        if token.type == "list_item_open" and tokens[place + 1].type == "list_item_close":
            yield from _paragraph([""])


def _empty_list(tokens: Sequence[Token], place: int) -> list[Token]:
    """The items of the list that begins there, where none of them has content."""
    items: list[Token] = []
    for opened, closed in zip(tokens[place + 1 :: 2], tokens[place + 2 :: 2], strict=False):
        if (opened.type, closed.type) != ("list_item_open", "list_item_close"):
            return items if opened.type in _LIST_ENDS else []
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
                if link.removeprefix("mailto:") != words:
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
    """A row without blanks at its end, which somebody would copy."""
    while row and not row[-1].text.rstrip():
        row = row[:-1]
    return [*row[:-1], Segment(row[-1].text.rstrip(), row[-1].style)] if row else []


class _Words(Paragraph):
    """A paragraph that is broken between words; Chinese and Japanese have no blanks between them."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self.text.split("\n", allow_blank=True):
            line.expand_tabs(TAB)
            yield from (line[start:end] for start, end in row_spans(line.plain, options.max_width))


class _LeftHeading(Heading):
    """A heading as wide as its words; without colours its marks tell it from a paragraph."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        marks = "" if console.color_system else "#" * int(self.tag[1:]) + " "
        whole = Styled.assemble(marks, self.text)
        yield from (whole[start:end] for start, end in row_spans(whole.plain, options.max_width))


class _Code(CodeBlock):
    """Code with the colours of the terminal; where there are none, between its fences."""

    info = ""
    """The words behind the first fence."""

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> _Code:
        made = cast(_Code, super().create(markdown, token))
        made.info = readable(token.info, keep="")
        return made

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = draw_code(str(self.text).rstrip(), self.lexer_name)
        yield from (
            (code,) if console.color_system else (Styled(f"```{self.info}"), code, Styled("```"))
        )


class _Table(TableElement):
    """A table whose cells show long words whole."""

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
        super().__init__("")
        self.parsed = tokens
