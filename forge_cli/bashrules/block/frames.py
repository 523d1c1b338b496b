"""The find of the generous scan: words, in frames that follow the nesting of a text, here-documents, and commands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from msgspec import Struct

from forge_cli.bashrules.block.expansions import Assignment, Expansion, unmarked
from forge_cli.bashrules.block.quoting import expand_braces, protect, restore
from forge_cli.bashrules.programs.table import word_set

FrameKind = Literal["commands", "subst", "quotes", "braces", "bracket"]

_DELIMITER = re.compile(
    r"[ \t]*((?:[^ \t\n;&|()<>\"'\\`$]|\\[^\n]|'[^'\n]*'|\"[^\"\n]*\")+)(?![$`\\\"'])"
)
_LINE_MAX = 256
"""A line that is longer is not the end of a here-document that anybody means."""
_QUOTING = re.compile(r"\\(.)|['\"]")


class FoundCommand(NamedTuple):
    """The words of one simple command, with special characters protected where they were quoted."""

    words: Sequence[str]
    start: int
    end: int
    nested: bool
    literal: bool = True
    """Whether it stands in the text like this; further readings of the same words do not."""
    marked: Sequence[str] = ()
    """The same words with the marks of their expansions, if they have any."""


@dataclass
class ScanBudget:
    """How much of a line, with all that is nested in it, is taken apart; the rest is searched as bare text."""

    steps: int = 16_000
    start_nothing: frozenset[str] = frozenset()
    """Programs that are the same for blocking whatever their other words become, so that these are not expanded."""


@dataclass
class Scanned:
    """The content of one text."""

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
    assignments: list[Assignment] = field(default_factory=list)
    fed: set[str] = field(default_factory=set)
    """Variables that are read from data."""

    def add_target(self, text: str) -> None:
        """A target of ``>&`` without its quotes: a process substitution in it, unlike in a here-document, is one."""
        self.bodies.append(text)
        if process := _PROCESS.search(text):
            self.scripts.append(text[process.end() :])

    def give_up(self, at: int) -> None:
        self.unread = at if self.unread is None else min(at, self.unread)


_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^]]*\])?\+?=")
_PROCESS = re.compile(r"[<>]\(")
_OPEN_SUBSCRIPT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\[(?![^\[\]]*\])")
_PASSED_OVER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^]]*\])?\+?=|(?:builtin|command)\Z")
_SETS_VARIABLES = word_set("for select read mapfile readarray set")
_VALUES_MAX = 32
_SUBSCRIPT = re.compile(r"\[[^]]*\]=")
_STARTS_ITS_WORDS = word_set(
    "eval time coproc builtin command exec nohup sudo env xargs bash sh zsh dash ksh"
)
_BETWEEN_COMMANDS = word_set("if then elif else fi while until do done ! { } esac")
RESERVED = _BETWEEN_COMMANDS | _SETS_VARIABLES | word_set("case printf")
"""Words that mean more than themselves to the scan."""


class Frame:
    """One level of nesting; words are gathered in the nearest frame that holds commands."""

    case = 0
    pieces: list[str] | None = None
    quoted = expanded = named = False
    redirect = ""
    words: Sequence[str] = ()
    marked: list[str] | None = None
    start = -1
    array = ""
    """The variable whose values the words are."""
    expansion: Expansion | None = None
    """Of ``${...}``: what it stands for, and from where on the text inside says more."""
    inside = 0
    muted = 0
    """How many ``${`` are open in the word: what is in them says what they stand for, and is not a part of it."""

    def __init__(self, kind: FrameKind, *, arithmetic: bool = False) -> None:
        self.kind = kind
        self.arithmetic = arithmetic

    @property
    def at_name(self) -> bool:
        """Whether the word that is being gathered is the name of a command."""
        return self._starts_words and not (self.pieces and _ASSIGNMENT.match(self.pieces[0]))

    @property
    def _starts_words(self) -> bool:
        return not self.named or (len(self.words) > 0 and self.words[0] in _STARTS_ITS_WORDS)

    def add(self, text: str, at: int, *, quoted: bool = False) -> None:
        if self.muted:
            return
        if self.pieces is None:
            self.pieces, self.quoted, self.expanded = [text], quoted, False
            self.start = at if self.start < 0 else self.start
            return
        self.quoted = self.quoted or quoted
        self.pieces.append(text)

    def expand(self, at: int, mark: str, *, quoted: bool) -> None:
        """An expansion, which may be anything and also nothing."""
        self.add(mark, at, quoted=quoted)
        self.expanded = True

    def end_word(self, result: Scanned) -> None:
        pieces, self.pieces = self.pieces, None
        if pieces is None:
            return
        marked = "".join(pieces)
        text = unmarked(marked) if self.expanded else marked
        if self.redirect:
            if self.redirect == "<<<":
                result.data.append(restore(text))
            elif self.redirect.endswith("&"):
                result.add_target(restore(text))
            self.redirect = ""
        elif not self._reserved(text, result):
            result.doubt = result.doubt or ("[" in text and _OPEN_SUBSCRIPT.match(text) is not None)
            self._keep(text, marked, result)

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

    def _keep(self, text: str, marked: str, result: Scanned) -> None:
        assignment = _ASSIGNMENT.match(text) if "=" in text else None
        stores = text.startswith("-v") and "printf" in self.words
        result.assigns = (
            result.assigns or assignment is not None or stores or text in _SETS_VARIABLES
        )
        if assignment:
            name, _, value = marked.partition("=")
            result.assignments.append(
                Assignment(name.partition("[")[0].rstrip("+"), value, name.endswith("+"))
            )
        elif self.expanded:
            result.starts_variable = result.starts_variable or self._starts_words
            result.doubt = result.doubt or (self._starts_words and "{" in text)
        if self.expanded and self.marked is None:
            self.marked = list(self.words)
        if self.marked is not None:
            self.marked.append(marked)
        if text or not self.expanded:
            self.words = self.words if isinstance(self.words, list) else []
            self.words.append(text)
            self.named = self.named or assignment is None

    def end_command(
        self, result: Scanned, end: int, *, nested: bool, pattern: bool = False
    ) -> None:
        """Keep the words so far as a command; as a ``pattern`` of ``case`` they are not expanded."""
        if self.start < 0:
            self.redirect = ""
            return
        self.end_word(result)
        words, marked = self.words, self.marked or ()
        if words or marked:
            _note_values(marked or words, self.array, result)
            if pattern:
                words, marked = (
                    [protect(word) for word in words],
                    [protect(word) for word in marked],
                )
            found = FoundCommand(words, self.start, end, nested, marked=marked)
            result.found.append(found)
            _expand_braces(found, result)
        self.words, self.marked, self.named, self.start, self.redirect = (), None, False, -1, ""


def _note_values(words: Sequence[str], array: str, result: Scanned) -> None:
    """Assignments by the words of one command."""
    if array:
        values = [_SUBSCRIPT.sub("", word) for word in words[:_VALUES_MAX]]
        result.assignments += [Assignment(array, value) for value in (*values, " ".join(words))]
    first = next(
        (place for place, word in enumerate(words) if not _PASSED_OVER.match(word)), len(words)
    )
    name, rest = "".join(words[first : first + 1]), words[first + 1 :]
    if name not in _SETS_VARIABLES and name != "printf":
        return
    match name:
        case "for" | "select":
            result.assignments += [
                Assignment("".join(rest[:1]), value) for value in rest[2 : 2 + _VALUES_MAX]
            ]
        case "read" | "mapfile" | "readarray":
            result.fed |= {"REPLY", "MAPFILE", *rest}
        case "printf" if "".join(rest[:1]).startswith("-v"):
            variable = rest[0][2:] or "".join(rest[1:2])
            result.fed.add(variable)
            result.assignments += [
                Assignment(variable, value) for value in rest[1 : 1 + _VALUES_MAX]
            ]


def _expand_braces(found: FoundCommand, result: Scanned) -> None:
    """The expansion of braces in words: all that they stand for one after the other, and each of it in their place."""
    source = found.marked or found.words
    if source[0] in result.budget.start_nothing or not any(
        "{" in word and ("," in word or ".." in word) for word in source
    ):
        return
    expanded: list[str] = []
    choices: list[list[str]] = []
    for word in source:
        others = expand_braces(word) if result.budget.steps > 0 else None
        if others is None:
            result.give_up(found.start)
            return
        result.budget.steps -= (len(others) - 1) * (1 + len(word) // 32)
        expanded += filter(None, others)
        choices.append(others)
    _found_again(found, expanded, result)
    for place in range(1, max(map(len, choices))):
        others = [words[min(place, len(words) - 1)] for words in choices[1:]]
        _found_again(found, list(filter(None, [choices[0][0], *others])), result)


def _found_again(found: FoundCommand, marked: list[str], result: Scanned) -> None:
    """Another reading of the same command."""
    words = list(filter(None, map(unmarked, marked)))
    if marked:
        again = found._replace(words=words, literal=False, marked=marked if found.marked else ())
        result.found.append(again)


class _Heredoc(Struct, frozen=True):
    delimiter: str
    expands: bool
    tabs: bool
    depth: int


class Heredocs:
    """Those that a line has announced and whose bodies follow it."""

    def __init__(self, text: str, result: Scanned) -> None:
        self._text = text
        self._result = result
        self._pending: list[_Heredoc] = []

    def __bool__(self) -> bool:
        return bool(self._pending)

    def announce(self, pos: int, *, tabs: bool, depth: int) -> int:
        """Read the delimiter after ``<<``; the place to continue."""
        found = _DELIMITER.match(self._text, pos)
        if found is None:
            self._result.doubt = True
            return pos
        bare = _QUOTING.sub(r"\1", found[1])
        self._pending.append(_Heredoc(bare, bare == found[1], tabs, depth))
        return found.end()

    def skip(self, pos: int, depth: int) -> int:
        """Pass over the bodies that start at ``pos``; where the next line of commands starts."""
        for heredoc in self._pending:
            if heredoc.depth != depth:
                self._result.doubt = True
            pos = self._skip(heredoc, pos)
        self._pending.clear()
        return pos

    def _skip(self, heredoc: _Heredoc, start: int) -> int:
        pos, before = start, ""
        while pos < len(self._text):
            end = self._text.find("\n", pos)
            end = len(self._text) if end < 0 else end
            line = before + self._text[pos:end]
            if (
                heredoc.expands
                and line.endswith("\\")
                and len(line) < _LINE_MAX
                and not line.endswith("\\\\")
            ):
                pos, before = end + 1, line[:-1]
                continue
            before = ""
            if (line.lstrip("\t") if heredoc.tabs else line) == heredoc.delimiter:
                self._keep(self._text[start:pos], heredoc.expands)
                return min(end + 1, len(self._text))
            pos = end + 1
        self._result.doubt = True
        self._keep(self._text[start:], heredoc.expands)
        return len(self._text)

    def _keep(self, body: str, expands: bool) -> None:
        self._result.data.append(body)
        if expands:
            self._result.bodies.append(body)
            self._result.doubt = self._result.doubt or "\\\n" in body
