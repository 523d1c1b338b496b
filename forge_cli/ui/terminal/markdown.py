"""Light Markdown for the words of a model as they come: what was printed is never taken back.

Text is given in pieces of any size, and comes out as soon as it is certain how it looks: words when they end; headings,
code and tables line by line. Marks are left out only where both ends of them are known; all else stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from itertools import groupby
from typing import NamedTuple

from forge_cli.core.wrap import cell_len, is_ideograph

FARTHEST = 300
"""Characters up to the end of a mark's other end; what is farther away does not belong to it."""
BOLD, DIM, ITALIC, CODE = "1", "2", "3", "36"

_FENCE = re.compile(r" *(`{3,}(?!.*`)|~{3,})")
_HEADING = re.compile(r" {0,3}#{1,6} +(.*?)(?: +#+)? *")
_MARGIN = re.compile(r"(?: *(?:[-*+] |\d{1,3}[.)] |> ?))* *")
_UNDECIDED = re.compile(r"(?: *(?:[-*+] |\d{1,3}[.)] |> ?))* *(?:[-*+]|\d{1,3}[.)]?|#{1,6}|`{1,2}|~{1,2})?")
"""The beginning of a line that may still become something else than words."""
_MARKER = re.compile(r"[^ >]")
_MARK = re.compile(r"`+|\*+|_+")
_WORDS = re.compile(r"[ \t]+|[^ \t]+")
_BEFORE, _INSIDE = " \t\n([{\"'\u201c\u2018", "`\"'([*_\u201c\u2018"
_AFTER = r"""(?=$|[ \t.,;:!?)\]}"'\u2026\u201d\u2019*_`])"""


class StyledText(NamedTuple):
    """A run of text in one style."""

    text: str
    style: str = ""

    def __str__(self) -> str:
        return f"\x1b[{self.style}m{self.text}\x1b[0m" if self.style and self.text else self.text


class MarkdownStream:
    """Takes the words of an answer; ``feed`` gives what can be printed of them, ``end`` the rest."""

    def __init__(self, width: Callable[[], int | None] = lambda: None, *, styled: bool = True) -> None:
        """``width`` is asked at every line; without one nothing is wrapped. Without ``styled`` all marks stay."""
        self._styled = styled
        self._row = _Row(width)
        self._start()

    def _start(self) -> None:
        self._held = self._fence = self._style = ""
        self._in_words = False
        self._before = "\n"

    def feed(self, delta: str) -> str:
        """What is certain of the text by now."""
        self._held += delta
        return "".join(self._take(last=False))

    def end(self) -> str:
        """The rest, as nothing more will come; the next text begins a line of its own."""
        rest = "".join(self._take(last=True)) + self._row.place()
        self._row.begin()
        self._start()
        return rest

    def _take(self, *, last: bool) -> Iterator[str]:
        while self._held:
            line, newline, rest = self._held.partition("\n")
            whole = bool(newline) or last
            if not self._in_words and not whole and self._waits(line):
                return
            if not self._in_words and self._is_a_line(line):
                yield from self._draw_line(line)
            else:
                used = yield from self._draw_words(line, whole)
                if not whole:
                    self._held = line[used:]
                    return
            if newline:
                yield self._row.place() + newline
                self._row.begin()
            self._held, self._in_words, self._style, self._before = rest, False, "", "\n"

    def _waits(self, line: str) -> bool:
        """Does the kind of a line, or all of it, depend on what comes next?"""
        return self._is_a_line(line) or _UNDECIDED.fullmatch(line) is not None

    def _is_a_line(self, line: str) -> bool:
        """Is it drawn as a whole: code, a fence, a heading, a table?"""
        return bool(self._fence or _FENCE.match(line) or _HEADING.fullmatch(line) or line.lstrip(" ").startswith("|"))

    def _draw_line(self, line: str) -> Iterator[str]:
        fence, heading = _FENCE.match(line), _HEADING.fullmatch(line)
        if self._fence:
            closes = fence and fence[1].startswith(self._fence) and line.strip() == fence[1]
            self._fence = "" if closes else self._fence
            yield self._verbatim(line, DIM if closes else CODE)
        elif fence:
            self._fence = fence[1]
            yield self._verbatim(line, DIM)
        elif heading and self._styled:
            yield from map(self._row.add, _pieces(heading[1], BOLD))
        elif heading:
            yield self._row.add(StyledText(line))
        else:
            yield self._verbatim(line, "")

    def _verbatim(self, line: str, style: str) -> str:
        return str(StyledText(line, style if self._styled else ""))

    def _draw_words(self, line: str, whole: bool) -> Generator[str, None, int]:
        """Print what is decided of a line of words; returns how much that was."""
        used = 0
        if not self._in_words:
            self._in_words = True
            margin = _MARGIN.match(line)
            used = margin.end() if margin else 0
            self._style = DIM if ">" in line[:used] and self._styled else ""
            yield self._row.indent(StyledText(line[:used], self._style), _MARKER.sub(" ", line[:used]))
        if not self._styled:
            yield self._row.add(StyledText(line[used:]))
            return len(line)
        taken = used
        for piece, end in _decided(line[used:], self._style, self._before, whole):
            yield self._row.add(piece)
            taken = used + end
            self._before = line[taken - 1]
        return taken


def _decided(line: str, style: str, before: str, whole: bool) -> Iterator[tuple[StyledText, int]]:
    """The pieces of a line, each with the place where it ends, as far as what may follow cannot change them."""
    place = 0
    while place < len(line):
        mark = _MARK.search(line, place)
        start = mark.start() if mark else len(line)
        if start > place:
            yield StyledText(line[place:start], style), start
            before, place = line[start - 1], start
        if mark is None or (mark.end() == len(line) and not whole):
            return
        closing = _closing(line[: start + FARTHEST + 1], mark) if _opens(line, mark, before) else None
        end = closing.end() if closing else start + FARTHEST + 1
        if closing and end <= start + FARTHEST and (whole or end < len(line)):
            inside = line[mark.end() : closing.start()]
            if mark[0][0] != "_" or " " in inside:
                yield from ((piece, end) for piece in _pieces(inside, style, mark[0]))
                before, place = mark[0][-1], end
                continue
        elif _opens(line, mark, before) and not whole and len(line) <= start + FARTHEST:
            return
        yield StyledText(mark[0], style), mark.end()
        before, place = mark[0][-1], mark.end()


def _pieces(text: str, style: str, mark: str = "") -> Iterator[StyledText]:
    """A whole text in the style that a mark around it adds."""
    own = CODE if mark.startswith("`") else ("", ITALIC, BOLD, f"{BOLD};{ITALIC}")[len(mark)]
    joined = ";".join(part for part in (style, own) if part)
    if mark.startswith("`"):
        yield StyledText(text, joined)
    else:
        yield from (piece for piece, _ in _decided(text, joined, "\n", whole=True))


def _opens(line: str, mark: re.Match[str], before: str) -> bool:
    """May it be the first of two marks? Stars and lines around what is no word are left alone, as in ``*.py``."""
    inside = line[mark.end() : mark.end() + 1]
    if mark[0][0] == "`":
        return inside != ""
    return len(mark[0]) <= 3 and before in _BEFORE and (inside.isalnum() or (inside != "" and inside in _INSIDE))


def _closing(line: str, mark: re.Match[str]) -> re.Match[str] | None:
    """The other one of two marks."""
    char = re.escape(mark[0][0])
    alone = rf"(?<!{char}){re.escape(mark[0])}(?!{char})"
    return re.compile(alone if char == "`" else rf"(?<=[^ \t]){alone}{_AFTER}").search(line, mark.end())


class _Row:
    """Puts words behind each other, and begins a new row where one has no room."""

    def __init__(self, width: Callable[[], int | None]) -> None:
        self._width_now = width
        self._word: list[StyledText] = []
        self.begin()

    def begin(self) -> None:
        """A new line of text."""
        self._width, self._column = self._width_now(), 0
        self._gap, self._margin = "", StyledText("")

    def indent(self, margin: StyledText, hang: str) -> str:
        """The beginning of a line, and what stands before its other rows."""
        self._margin, self._column = StyledText(hang, margin.style), cell_len(margin.text)
        return str(margin)

    def add(self, piece: StyledText) -> str:
        """What can be printed once this has come: every word but the last, to which more may belong."""
        printed: list[str] = []
        for run in _WORDS.findall(piece.text):
            if run[0] in " \t":
                printed.append(self.place())
                self._gap += run
            else:
                printed += self._add_word(run, piece.style)
        return "".join(printed)

    def _hold(self, piece: StyledText) -> None:
        if piece.text:
            self._word.append(piece)

    def _add_word(self, run: str, style: str) -> Iterator[str]:
        start = 0
        for place, char in enumerate(run):
            if is_ideograph(char):
                self._hold(StyledText(run[start:place], style))
                yield self.place()
                start = place
        self._hold(StyledText(run[start:], style))

    def place(self) -> str:
        """The word that was begun, in this row or in the next."""
        if not self._word:
            return ""
        size = sum(cell_len(piece.text) for piece in self._word)
        before, width = self._gap, self._width
        hang = cell_len(self._margin.text)
        if width and self._column > hang and self._column + len(before) + size > width and size <= width - hang:
            before, self._column = f"\n{self._margin}", hang
        else:
            self._column += len(before.expandtabs())
        self._column += size
        if width and self._column > width:
            self._column = (self._column - 1) % width + 1
        styles = groupby(self._word, key=lambda piece: piece.style)
        text = "".join(str(StyledText("".join(piece.text for piece in same), style)) for style, same in styles)
        self._word, self._gap = [], ""
        return before + text
