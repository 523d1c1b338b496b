"""What the generous scan gathers: words, in frames that follow the nesting of a text, and the commands they make."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from forge_cli.toolsets.shell.block.quoting import expand_braces, protect, restore
from forge_cli.toolsets.shell.programs.names import names

FrameKind = Literal["commands", "subst", "quotes", "braces", "bracket"]
Piece = str | None
"""Literal text, or None for an expansion that may split the word."""


class FoundCommand(NamedTuple):
    """The words of one simple command, with special characters protected where they were quoted."""

    words: Sequence[str]
    start: int
    end: int
    nested: bool
    literal: bool = True
    """Whether it stands in the text like this; further readings of the same words do not."""


@dataclass
class ScanBudget:
    """How much of a line, with all that is nested in it, is taken apart; the rest is searched as bare text."""

    steps: int = 16_000


@dataclass
class Scanned:
    """What one text holds."""

    budget: ScanBudget
    found: list[FoundCommand] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    """Here-documents that expand, and targets of ``>&``, which expand once more after their quotes are gone."""
    data: list[str] = field(default_factory=list)
    """Here-documents and here-strings: a script, when a shell reads them."""
    doubt: bool = False
    """Whether the scan may have lost its place, so that the bare text has to be looked at."""
    unread: int | None = None
    """From where on the text was not taken apart, because that would take too long."""
    assigns: bool = False
    """Whether a variable gets its value in this text, so that one in place of a program can be anything in it."""
    starts_variable: bool = False

    def give_up(self, at: int) -> None:
        self.unread = at if self.unread is None else min(at, self.unread)


_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^]]*\])?\+?=")
_OPEN_SUBSCRIPT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\[(?![^\[\]]*\])")
_SETS_VARIABLES = names("for select read mapfile readarray set")
_STARTS_ITS_WORDS = names("eval time coproc builtin command exec nohup sudo env xargs bash sh zsh dash ksh")
_BETWEEN_COMMANDS = names("if then elif else fi while until do done ! { } esac")
RESERVED = _BETWEEN_COMMANDS | _SETS_VARIABLES | names("case printf")
"""Words that mean more than themselves to the scan."""


class Frame:
    """One level of nesting; words are gathered in the nearest frame that holds commands."""

    case = 0
    pieces: list[Piece] | None = None
    quoted = expanded = named = False
    redirect = ""
    words: Sequence[str] = ()
    other: list[str] | None = None
    start = -1

    def __init__(self, kind: FrameKind, *, arithmetic: bool = False) -> None:
        self.kind = kind
        self.arithmetic = arithmetic

    @property
    def at_name(self) -> bool:
        """Whether the word that is being gathered is the name of a command."""
        return self._starts_words and not (self.pieces and _ASSIGNMENT.match(self.pieces[0] or ""))

    @property
    def _starts_words(self) -> bool:
        return not self.named or (len(self.words) > 0 and self.words[0] in _STARTS_ITS_WORDS)

    def add(self, text: str, at: int, *, quoted: bool = False) -> None:
        if self.pieces is None:
            self.pieces, self.quoted, self.expanded = [text], quoted, False
            self.start = at if self.start < 0 else self.start
            return
        self.quoted = self.quoted or quoted
        self.pieces.append(text)

    def expand(self, at: int, *, quoted: bool) -> None:
        """An expansion may be empty, and unquoted it may also split the word."""
        self.add("", at, quoted=quoted)
        self.expanded = True
        if not quoted and self.pieces is not None:
            self.pieces.append(None)

    def end_word(self, result: Scanned) -> None:
        pieces, self.pieces = self.pieces, None
        if pieces is None:
            return
        text = "".join(piece for piece in pieces if piece is not None) if self.expanded else "".join(map(str, pieces))
        if self.redirect:
            if self.redirect == "<<<":
                result.data.append(restore(text))
            elif self.redirect.endswith("&"):
                result.bodies.append(restore(text))
            self.redirect = ""
        elif not self._reserved(text, result):
            result.doubt = result.doubt or ("[" in text and _OPEN_SUBSCRIPT.match(text) is not None)
            self._keep(text, pieces, result)

    def _reserved(self, text: str, result: Scanned) -> bool:
        """Whether the word only stands between commands; ``case`` matters, because ``)`` ends its patterns."""
        if self.quoted or self.expanded:
            return False
        if text in ("case", "esac") and self.words:
            result.doubt = True
        elif text == "case":
            self.case += 1
        elif text == "esac":
            self.case = max(0, self.case - 1)
        return not self.words and text in _BETWEEN_COMMANDS

    def _keep(self, text: str, pieces: list[Piece], result: Scanned) -> None:
        assignment = "=" in text and _ASSIGNMENT.match(text) is not None
        stores = text.startswith("-v") and "printf" in self.words
        result.assigns = result.assigns or assignment or stores or text in _SETS_VARIABLES
        if self.expanded and not assignment:
            result.starts_variable = result.starts_variable or self._starts_words
            result.doubt = result.doubt or (self._starts_words and "{" in text)
        if self.expanded and None in pieces and self.other is None:
            self.other = list(self.words)
        if self.other is not None:
            self.other.extend(_split(pieces) if None in pieces else [text])
        if text or not self.expanded:
            self.words = self.words if isinstance(self.words, list) else []
            self.words.append(text)
            self.named = self.named or not assignment

    def end_command(self, result: Scanned, end: int, *, nested: bool, pattern: bool = False) -> None:
        """Keep the words so far as a command; as a ``pattern`` of ``case`` they are not expanded."""
        if self.start < 0:
            self.redirect = ""
            return
        self.end_word(result)
        if self.words:
            self._found(self.words, result, end, nested=nested, pattern=pattern, literal=True)
        if self.other:
            self._found(self.other, result, end, nested=nested, pattern=pattern, literal=False)
        self.words, self.other, self.named, self.start, self.redirect = (), None, False, -1, ""

    def _found(
        self, words: Sequence[str], result: Scanned, end: int, *, nested: bool, pattern: bool, literal: bool
    ) -> None:
        words = [protect(word) for word in words] if pattern else words
        result.found.append(FoundCommand(words, self.start, end, nested, literal))
        self._expand_braces(words, result, end, nested)

    def _expand_braces(self, words: Sequence[str], result: Scanned, end: int, nested: bool) -> None:
        if not any("{" in word and ("," in word or ".." in word) for word in words):
            return
        expanded: list[str] = []
        for word in words:
            others = expand_braces(word) if result.budget.steps > 0 else None
            if others is None:
                result.give_up(self.start)
                return
            result.budget.steps -= (len(others) - 1) * len(word) // 32
            expanded += filter(None, others)
        if expanded:
            result.found.append(FoundCommand(expanded, self.start, end, nested, literal=False))


def _split(pieces: list[Piece]) -> list[str]:
    """The words that a word becomes when its expansions are blanks."""
    words: list[list[str]] = [[]]
    for piece in pieces:
        if piece is None:
            words.append([])
        else:
            words[-1].append(piece)
    return [word for word in ("".join(word) for word in words) if word]
