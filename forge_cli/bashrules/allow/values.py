"""Commands with variables, each with every value that a variable may have."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from forge_cli.bashrules.allow.lexer import (
    PROCESS_SUBSTITUTION,
    SUBSTITUTION,
    VARIABLE,
    Expanded,
    ShellWord,
    Unknown,
    UnreadableLine,
)
from forge_cli.bashrules.programs.table import word_set

MAX_COMMANDS = 5000
MAX_VALUES = 64
"""The words of a command with more combinations of values count as unknown."""
_SETS_VARIABLES = word_set(
    "read mapfile readarray getopts let export declare typeset local readonly unset eval source . "
    "wait builtin command exec set shopt alias unalias trap enable fc bind complete compopt"
)
_PRINTF_SETS = re.compile(r"-v.*|(?s:.*)%[^%A-Za-z]*[hlLqjzt]*n(?s:.*)")
_SETS_MODES = re.compile(r"set (?:[-+][eu]+|[-+][eu]*o (?:pipefail|errexit|nounset))")
_SPLITS = re.compile(r"[\s*?\[\\]")
"""Characters that split an unquoted value into words or make it a glob."""


class Redirect(NamedTuple):
    """A redirection with a literal target; of a here-document, only the operator."""

    operator: str
    target: ShellWord
    descriptor: str = ""
    """The number before the operator, if any."""


@dataclass
class Nesting:
    """A group, or the whole line, with the beginnings of its current list and pipeline."""

    first: int
    pipeline: int
    piped: bool = False
    outside: int | None = None
    """The beginning of the outermost pipeline around this group, if any."""

    @property
    def beside(self) -> int | None:
        """The beginning of the outermost pipeline around a command in it."""
        if self.outside is not None:
            return self.outside
        return self.pipeline if self.piped else None


class Simple(Struct, frozen=True):
    """A simple command with its redirections, and those of a group that ends with it."""

    words: list[ShellWord] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)
    assigned: list[ShellWord] = field(default_factory=list)
    """Assignments before its words, such as ``CI=1``; without words they are for the shell."""
    at: int = 0
    piped: bool = False
    """True if its input is the output of the command before it."""
    beside: int = 0
    """The index of the first command of its pipeline."""
    background: bool = False
    """True if the commands after it do not wait for it."""
    sure: bool = False
    """True if it surely runs, in the shell that reads the line."""
    nested: bool = False
    """True if a substitution starts it."""
    fed: Unknown | None = None
    """The words that ``xargs`` gets from the commands before it."""

    @property
    def texts(self) -> list[str]:
        return [word.text for word in self.words]

    @property
    def with_assigned(self) -> tuple[str, ...]:
        """The assignments and words, as a pattern of a rule spells them."""
        return tuple(word.text for word in (*self.assigned, *self.words))


class Binding(Struct, frozen=True):
    """A variable with its possible values, for the commands from ``start`` to ``end``."""

    name: str
    values: tuple[ShellWord, ...]
    start: int
    end: int | None = None
    loop: bool = False
    sure: bool = True
    at: int = 0


def resolved(commands: Sequence[Simple], bindings: Sequence[Binding]) -> list[Simple]:
    """Return the commands with the values of variables, one for each combination of values."""
    # `read x` or `. file` may change any variable: then no value is known
    known = {} if any(map(_may_set, commands)) else _assigned_once(bindings)
    expanded: list[Simple] = []
    places = []
    for place, command in enumerate(commands):
        places.append(len(expanded))
        expanded += _variants(command, place, known)
        if len(expanded) > MAX_COMMANDS:
            raise UnreadableLine(f"it has more than {MAX_COMMANDS} commands", command.at)
    return [replace(command, beside=places[command.beside]) for command in expanded]


def _assigned_once(bindings: Sequence[Binding]) -> dict[str, Binding]:
    """Return the variables that get a value in one place only."""
    counts = Counter(binding.name for binding in bindings)
    return {each.name: each for each in bindings if counts[each.name] == 1 and each.sure}


def _may_set(command: Simple) -> bool:
    """Return True if the command may set variables in a way that is not visible."""
    texts = command.texts
    if _SETS_MODES.fullmatch(" ".join(texts)):
        return False
    # `time read x` sets x, too
    first = texts if texts[:1] == ["time"] else texts[:1]
    if not _SETS_VARIABLES.isdisjoint(first):
        return True
    return "printf" in first and any(map(_PRINTF_SETS.fullmatch, texts))


def _variants(command: Simple, place: int, known: dict[str, Binding]) -> Iterator[Simple]:
    choices = [_values(word, place, known) for word in command.words]
    if prod(map(len, choices)) > MAX_VALUES:
        # One word with many values is fine; the product of several is not.
        for at, word in enumerate(command.words):
            if len(choices[at]) > 1:
                choices[at] = [_unknown(word)]
    for words in product(*choices):
        yield replace(command, words=list(words))


def _values(word: ShellWord, place: int, known: dict[str, Binding]) -> list[ShellWord]:
    """Return the words that this word may become."""
    if not word.pieces:
        return [word]
    if word.glob:
        return [_unknown(word)]
    pieces = [_piece_values(piece, place, known) for piece in word.pieces]
    found: list[ShellWord] = []
    for combination in product(*pieces):
        value = _joined(word, combination)
        if value is None or len(found) == MAX_VALUES:
            return [_unknown(word)]
        found.append(value)
    return found


def _joined(word: ShellWord, combination: Sequence[ShellWord | None]) -> ShellWord | None:
    """Return the word made of one value of each piece; None if that is unknown."""
    parts = [part for part in combination if part is not None]
    if len(parts) < len(combination):
        return None
    if len(parts) == 1:
        [part] = parts
        if part.unknown and not part.glob:
            return part._replace(text=word.text)
        return part
    text = "".join(part.text for part in parts)
    if not text or any(part.unknown for part in parts):
        return None
    return ShellWord(text, False, any(part.glob for part in parts))


def _piece_values(
    piece: str | Expanded, place: int, known: dict[str, Binding]
) -> list[ShellWord | None]:
    """Return the possible values of one piece of a word; None is an unknown one."""
    if isinstance(piece, str):
        return [ShellWord(piece, False)]
    if piece.commands:
        return [_printed(piece)]
    binding = known.get(piece.variable)
    if binding is None or not _is_in_force(binding, place):
        return [None]
    # A value may use variables that were assigned before it; this also ends the recursion.
    rest = {name: other for name, other in known.items() if other.at < binding.at}
    values: list[ShellWord | None] = []
    for word in binding.values:
        for value in _values(word, binding.start, rest):
            values.append(_used(value, quoted=piece.quoted))
    return values or [None]


def _is_in_force(binding: Binding, place: int) -> bool:
    if binding.end is None:
        return not binding.loop and binding.start <= place
    return binding.start <= place < binding.end


def _used(value: ShellWord, *, quoted: bool) -> ShellWord | None:
    """Return a value as it is in the place of its variable; None if bash would split it."""
    if unknown := value.unknown:
        return ShellWord(value.text, False, value.glob, unknown=unknown._replace(quoted=quoted))
    if value.glob:
        # A glob at the start may become an option; inside quotes it stays as it is, but the
        # value was already a glob where it was assigned.
        leads = value.text.startswith(("*", "?", "["))
        unknown = Unknown(VARIABLE, quoted, glob=value.text) if leads or not quoted else None
        return ShellWord(value.text, False, True, unknown=unknown)
    if quoted or (value.text and not _SPLITS.search(value.text)):
        return ShellWord(value.text, False)
    return None


def _unknown(word: ShellWord) -> ShellWord:
    expansions = [piece for piece in word.pieces if isinstance(piece, Expanded)]
    why = SUBSTITUTION if any(piece.commands for piece in expansions) else VARIABLE
    quoted = all(piece.quoted for piece in expansions) and not word.glob
    return ShellWord(word.text, False, unknown=Unknown(why, quoted))


def prints_elsewhere(command: Simple) -> bool:
    """Return True if the output of a command depends on more than its words."""
    for redirect in command.redirects:
        if (redirect.descriptor, redirect.target.text) != ("2", "/dev/null"):
            return True
    return bool(command.assigned) or any(word.pieces or word.unknown for word in command.words)


def _printed(piece: Expanded) -> ShellWord:
    """Return the output of a substitution, with its pipeline if it is only one."""
    if piece.is_pipe:
        unknown = Unknown(PROCESS_SUBSTITUTION, quoted=True, is_pipe=True)
        return ShellWord("<(...)", False, unknown=unknown)
    commands: Sequence[Simple] = piece.commands
    printed_by: tuple[tuple[str, ...], ...] = ()
    is_pipeline = all(command.piped for command in commands[1:])
    if is_pipeline and not any(map(prints_elsewhere, commands)):
        printed_by = tuple(tuple(command.texts) for command in commands)
    return ShellWord("$(...)", False, unknown=Unknown(SUBSTITUTION, piece.quoted, printed_by))
