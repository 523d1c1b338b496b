"""A line while somebody types it: what the keys do to it, and the rows that it takes on a terminal."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len

from forge_cli.core.text import visible
from forge_cli.ui.terminal.keys import Key

_FIRST_WORD, _LAST_WORD = re.compile(r"^\s*\S+"), re.compile(r"\S+\s*$")


class EditedLine:
    """The text, the place of the cursor in it, and earlier lines to go back to."""

    def __init__(self, history: Sequence[str] = ()) -> None:
        self.text = ""
        self.cursor = 0
        self._lines = [*history, ""]
        self._number = len(history)
        self._erased = ""

    def press(self, key: Key) -> None:
        """What a key does; one that means nothing here does nothing."""
        match key.name:
            case "text":
                self._replace(self.cursor, self.cursor, key.text)
            case "left" | "right" | "home" | "end" | "word left" | "word right" as where:
                self.cursor = self._place(where)
            case "backspace":
                self._replace(self._place("left"), self.cursor)
            case "delete" | "end of input":
                self._replace(self.cursor, self._place("right"))
            case "erase word":
                self._erase(self._place("word left"), self.cursor)
            case "erase before":
                self._erase(0, self.cursor)
            case "erase after":
                self._erase(self.cursor, len(self.text))
            case "insert erased":
                self._replace(self.cursor, self.cursor, self._erased)
            case "up" | "down" as way:
                self._take_line(self._number + (1 if way == "down" else -1))

    def _place(self, where: str) -> int:
        """Where a move ends; a letter and the marks on it are one."""
        before, after = self.text[: self.cursor], self.text[self.cursor :]
        match where:
            case "left":
                return len(before) - _last_letter(before)
            case "right":
                return self.cursor + _first_letter(after)
            case "word left":
                return len(_LAST_WORD.sub("", before))
            case "word right":
                return len(self.text) - len(_FIRST_WORD.sub("", after))
            case _:
                return 0 if where == "home" else len(self.text)

    def _replace(self, start: int, end: int, text: str = "") -> None:
        self.text = self.text[:start] + text + self.text[end:]
        self.cursor = start + len(text)

    def _erase(self, start: int, end: int) -> None:
        self._erased = self.text[start:end]
        self._replace(start, end)

    def _take_line(self, number: int) -> None:
        if 0 <= number < len(self._lines):
            self._lines[self._number] = self.text
            self._number, self.text = number, self._lines[number]
            self.cursor = len(self.text)


def _first_letter(text: str) -> int:
    """How many characters the first letter of a text has, with its marks."""
    marks = 1
    while marks < len(text) and unicodedata.combining(text[marks]):
        marks += 1
    return min(marks, len(text))


def _last_letter(text: str) -> int:
    marks = 1
    while marks < len(text) and unicodedata.combining(text[-marks]):
        marks += 1
    return min(marks, len(text))


class Layout(NamedTuple):
    """The rows of a line on a terminal, and where among them the cursor stands."""

    rows: list[str]
    row: int
    column: int

    def added_to(self, before: Layout) -> str | None:
        """What was typed at the end of a row since; None where more has changed."""
        (*above, last), (*above_before, last_before) = self.rows, before.rows
        at_end = all(
            each.row == len(each.rows) - 1 and each.column == cell_len(each.rows[-1]) for each in (self, before)
        )
        if before is NOTHING or not at_end or above != above_before or not last.startswith(last_before):
            return None
        return last.removeprefix(last_before)


NOTHING = Layout([""], 0, 0)
"""Where no line is drawn yet."""


def lay_out(prompt: str, line: EditedLine, width: int) -> Layout:
    """A prompt and the text behind it, in rows of at most ``width`` cells; what cannot be seen is escaped."""
    before = visible(prompt + line.text[: line.cursor])
    rows = _rows(before, width)
    row, column = len(rows) - 1, cell_len(rows[-1])
    return Layout(_rows(visible(prompt + line.text), width), row, column)


def _rows(text: str, width: int) -> list[str]:
    """Rows that are full begin a new one, where the cursor can stand."""
    rows, room = [""], width
    for char in text:
        cells = cell_len(char)
        if not cells and room == width and len(rows) > 1:
            rows[-2] += char
            continue
        if cells > room:
            rows.append("")
            room = width
        rows[-1] += char
        room -= cells
        if room <= 0:
            rows.append("")
            room = width
    return rows
