"""Results and nesting of the tolerant scan: commands, words, frames and here-documents."""

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
_MAX_DELIMITER_LINE = 256
"""A longer line cannot end a here-document: no delimiter is that long."""
_QUOTING = re.compile(r"\\(.)|['\"]")


class FoundCommand(NamedTuple):
    """The words of one simple command, with special characters protected where they were quoted."""

    words: Sequence[str]
    start: int
    end: int
    nested: bool
    literal: bool = True
    """False for further readings of the same words, such as those of a brace list."""
    marked: Sequence[str] = ()
    """The same words with the marks of their expansions, if they have any."""


@dataclass
class ScanBudget:
    """The work that may be spent on a line; text beyond it is searched without parsing."""

    steps: int = 16_000
    start_nothing: frozenset[str] = frozenset()
    """Programs that start no others, so that expansions in their words do not matter."""


@dataclass
class Scanned:
    """The contents of one text."""

    budget: ScanBudget
    found: list[FoundCommand] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    """Here-documents that expand, and targets of ``>&``, which bash expands twice."""
    data: list[str] = field(default_factory=list)
    """Here-documents and here-strings, which are scripts if a shell reads them."""
    doubt: bool = False
    """True if the scan may have lost its place, so that the bare text must be searched too."""
    unread: int | None = None
    """The place from which on the text was not parsed, because the budget ran out."""
    assigns: bool = False
    """True if a variable gets a value, so that one in place of a program can be any program."""
    starts_variable: bool = False
    assignments: list[Assignment] = field(default_factory=list)
    fed: set[str] = field(default_factory=set)
    """Variables that are read from data."""

    def add_target(self, text: str) -> None:
        """Add a target of ``>&`` without its quotes, in which process substitutions count."""
        self.bodies.append(text)
        if process := _PROCESS.search(text):
            self.scripts.append(text[process.end() :])

    def give_up(self, at: int) -> None:
        """Note that the text from ``at`` on was not parsed."""
        self.unread = at if self.unread is None else min(at, self.unread)


_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^]]*\])?\+?=")
_PROCESS = re.compile(r"[<>]\(")
_OPEN_SUBSCRIPT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\[(?![^\[\]]*\])")
_PASSED_OVER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^]]*\])?\+?=|(?:builtin|command)\Z")
_SETS_VARIABLES = word_set("for select read mapfile readarray set")
_MAX_VALUES = 32
_SUBSCRIPT = re.compile(r"\[[^]]*\]=")
_STARTS_ITS_WORDS = word_set(
    "eval time coproc builtin command exec nohup sudo env xargs bash sh zsh dash ksh"
)
_BETWEEN_COMMANDS = word_set("if then elif else fi while until do done ! { } esac")
RESERVED = _BETWEEN_COMMANDS | _SETS_VARIABLES | word_set("case printf")
"""Words with a meaning of their own to the scan."""


class Frame:
    """One level of nesting. Words are gathered in the nearest frame of commands."""

    case = 0
    pieces: list[str] | None = None
    quoted = False
    expanded = False
    named = False
    redirect = ""
    words: Sequence[str] = ()
    marked: list[str] | None = None
    start = -1
    array = ""
    """The array variable whose values the words are."""
    expansion: Expansion | None = None
    """The expansion that ``${...}`` stands for."""
    inside = 0
    """The place after the name in ``${...}``, where defaults and edits begin."""
    muted = 0
    """The number of open ``${`` in the word, whose inside is no part of the word."""

    def __init__(self, kind: FrameKind, *, arithmetic: bool = False) -> None:
        self.kind = kind
        self.arithmetic = arithmetic

    @property
    def at_name(self) -> bool:
        """True if the word that is being gathered is the name of a command."""
        return self._starts_words and not (self.pieces and _ASSIGNMENT.match(self.pieces[0]))

    @property
    def _starts_words(self) -> bool:
        return not self.named or (len(self.words) > 0 and self.words[0] in _STARTS_ITS_WORDS)

    def add(self, text: str, at: int, *, quoted: bool = False) -> None:
        if self.muted:
            return
        if self.pieces is None:
            self.pieces = [text]
            self.quoted = quoted
            self.expanded = False
            if self.start < 0:
                self.start = at
            return
        self.quoted = self.quoted or quoted
        self.pieces.append(text)

    def expand(self, at: int, mark: str, *, quoted: bool) -> None:
        """Add an expansion, which may be anything or nothing."""
        self.add(mark, at, quoted=quoted)
        self.expanded = True

    def end_word(self, result: Scanned) -> None:
        pieces = self.pieces
        self.pieces = None
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
            # a[$(git push)]=x: the scan ended the word inside the subscript
            if "[" in text and _OPEN_SUBSCRIPT.match(text):
                result.doubt = True
            self._keep(text, marked, result)

    def _reserved(self, text: str, result: Scanned) -> bool:
        """Return True if the word only separates commands.

        Count ``case`` on the way, because a ``)`` inside of it ends a pattern.
        """
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
        if assignment is not None or stores or text in _SETS_VARIABLES:
            result.assigns = True
        if assignment:
            name, _, value = marked.partition("=")
            variable = name.partition("[")[0].rstrip("+")
            result.assignments.append(Assignment(variable, value, name.endswith("+")))
        elif self.expanded and self._starts_words:
            result.starts_variable = True
            if "{" in text:  # $x{a,b}: the braces expand before the variable does
                result.doubt = True
        if self.expanded and self.marked is None:
            self.marked = list(self.words)
        if self.marked is not None:
            self.marked.append(marked)
        if text or not self.expanded:
            if not isinstance(self.words, list):
                self.words = []
            self.words.append(text)
            self.named = self.named or assignment is None

    def end_command(
        self, result: Scanned, end: int, *, nested: bool, pattern: bool = False
    ) -> None:
        """Keep the words so far as a command; those of a ``case`` pattern are not expanded."""
        if self.start < 0:
            self.redirect = ""
            return
        self.end_word(result)
        words = self.words
        marked = self.marked or ()
        if words or marked:
            _note_values(marked or words, self.array, result)
            if pattern:
                words = [protect(word) for word in words]
                marked = [protect(word) for word in marked]
            found = FoundCommand(words, self.start, end, nested, marked=marked)
            result.found.append(found)
            _expand_braces(found, result)
        self.words = ()
        self.marked = None
        self.named = False
        self.start = -1
        self.redirect = ""


def _note_values(words: Sequence[str], array: str, result: Scanned) -> None:
    """Note the variables that a command sets by its words."""
    assign = result.assignments.append
    if array:
        for word in words[:_MAX_VALUES]:
            assign(Assignment(array, _SUBSCRIPT.sub("", word)))
        assign(Assignment(array, " ".join(words)))  # "${array[*]}" is all values in one word
    first = 0
    while first < len(words) and _PASSED_OVER.match(words[first]):
        first += 1
    name = "".join(words[first : first + 1])
    rest = words[first + 1 :]
    match name:
        case "for" | "select":
            for value in rest[2 : 2 + _MAX_VALUES]:  # for NAME in VALUES
                assign(Assignment(rest[0], value))
        case "read" | "mapfile" | "readarray":
            result.fed |= {"REPLY", "MAPFILE", *rest}
        case "printf" if "".join(rest[:1]).startswith("-v"):
            variable = rest[0][2:] or "".join(rest[1:2])
            result.fed.add(variable)
            for value in rest[1 : 1 + _MAX_VALUES]:
                assign(Assignment(variable, value))


def _expand_braces(found: FoundCommand, result: Scanned) -> None:
    """Add the readings of a command with braces.

    One reading has all words of all lists in a row, as bash expands them. The others have one
    word of each list, as the lists may be arguments that belong together.
    """
    source = found.marked or found.words
    if source[0] in result.budget.start_nothing or not any(map(_may_be_list, source)):
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
    _add_reading(found, expanded, result)
    for place in range(1, max(map(len, choices))):
        reading = [choices[0][0]]
        reading += [others[min(place, len(others) - 1)] for others in choices[1:]]
        _add_reading(found, list(filter(None, reading)), result)


def _may_be_list(word: str) -> bool:
    return "{" in word and ("," in word or ".." in word)


def _add_reading(found: FoundCommand, marked: list[str], result: Scanned) -> None:
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
    """The here-documents that a line has announced, whose bodies come after the line."""

    def __init__(self, text: str, result: Scanned) -> None:
        self._text = text
        self._result = result
        self._pending: list[_Heredoc] = []

    def __bool__(self) -> bool:
        return bool(self._pending)

    def announce(self, pos: int, *, tabs: bool, depth: int) -> int:
        """Read the delimiter after ``<<`` and return the place after it."""
        found = _DELIMITER.match(self._text, pos)
        if found is None:
            self._result.doubt = True
            return pos
        bare = _QUOTING.sub(r"\1", found[1])
        self._pending.append(_Heredoc(bare, bare == found[1], tabs, depth))
        return found.end()

    def skip(self, pos: int, depth: int) -> int:
        """Return the place after the bodies that start at ``pos``."""
        for heredoc in self._pending:
            if heredoc.depth != depth:
                # `$(cat <<EOF)`: where the body is depends on the version of bash
                self._result.doubt = True
            pos = self._skip(heredoc, pos)
        self._pending.clear()
        return pos

    def _skip(self, heredoc: _Heredoc, start: int) -> int:
        pos = start
        joined = ""
        while pos < len(self._text):
            end = self._text.find("\n", pos)
            if end < 0:
                end = len(self._text)
            line = joined + self._text[pos:end]
            if heredoc.expands and _continues(line):
                # bash joins the lines before it compares them with the delimiter
                joined = line[:-1]
                pos = end + 1
                continue
            joined = ""
            if heredoc.tabs:
                line = line.lstrip("\t")
            if line == heredoc.delimiter:
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
            if "\\\n" in body:
                self._result.doubt = True


def _continues(line: str) -> bool:
    is_escaped = line.endswith("\\") and not line.endswith("\\\\")
    return is_escaped and len(line) < _MAX_DELIMITER_LINE
