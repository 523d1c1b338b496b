"""Markdown of an answer that is still being written: complete blocks are drawn once, the last one at each change."""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from copy import deepcopy
from typing import Any

from markdown_it.token import Token

from forge_cli.core.text import readable
from forge_cli.ui.html.markdown import markdown_parser

_MARKS = re.compile(r"[-=*_#>|`~+:\s]*|\s*\d+[.)]?\s*")
"""A line that may become a rule, a heading, an item, a fence or a row."""
_LINK = re.compile(r"\[([^\[\]]*)(\](\([^()\s]*)?)?\Z")
_CODE = re.compile(r"`[^`]*`")
_VERBATIM = ("fence", "code_block")


class GrowingMarkdown:
    """Takes the text of one answer as it comes; ``draw`` gives HTML that stays as it is, and what follows it."""

    def __init__(self) -> None:
        self.done = ""
        """HTML of the blocks that nothing can change any more."""
        self._rest = ""
        self._env: MutableMapping[str, Any] = {}

    def add(self, text: str) -> None:
        self._rest += text

    def draw(self) -> tuple[str, str]:
        """The blocks that were completed since the last time, and the one after them as far as it is known."""
        self._rest = readable(self._rest)
        shown = _without_marks(self._rest)
        lines, blocks = shown.split("\n"), self._blocks(shown)
        certain = ""
        if blocks and (start := _first_line(blocks[-1])):
            certain = markdown_parser().render("\n".join(lines[:start]), self._env)
            self._rest = "\n".join(self._rest.split("\n")[start:])
            self.done, lines = self.done + certain, lines[start:]
        return certain, self._draw_last("\n".join(lines), blocks[-1] if blocks else None)

    def _blocks(self, text: str) -> list[Token]:
        """The line at which each block of the outermost level begins."""
        return [token for token in markdown_parser().parse(text, deepcopy(self._env)) if token.level == 0 and token.map]

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
    head, line_break, line = text.rpartition("\n")
    return head + line_break if _MARKS.fullmatch(line) else text


def _without_rows(text: str) -> str:
    """A paragraph up to the row that may be the head of a table."""
    lines = text.split("\n")
    rows = [number for number, line in enumerate(lines) if line.lstrip().startswith("|")]
    return "\n".join(lines[: rows[0]]) if rows else text


def _closed(line: str) -> str:
    """A line with the end of what it has begun: code, bold words, a link."""
    if line.count("`") % 2:
        return line[:-1] if line.endswith("`") else f"{line}`"
    line = _LINK.sub(r"\1", line)
    bold = line.rstrip("*") if _CODE.sub("", line).count("**") % 2 else line
    return f"{bold.rstrip()}**" if _CODE.sub("", bold).count("**") % 2 else bold
