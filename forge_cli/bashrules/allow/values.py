"""Commands whose words the shell expands: each with every value that a variable may have, as far as that is known."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
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

COMMANDS_AT_MOST = 5000
VALUES_AT_MOST = 64
"""A command with more values than that counts as one whose words are not known."""
_SETS_VARIABLES = word_set(
    "read mapfile readarray getopts let export declare typeset local readonly unset eval source . wait builtin command "
    "exec set shopt alias unalias trap enable fc bind complete compopt"
)
_PRINTF_SETS = re.compile(r"-v.*|(?s:.*)%[^%A-Za-z]*[hlLqjzt]*n(?s:.*)")
_SETS_MODES = re.compile(r"set (?:[-+][eu]+|[-+][eu]*o (?:pipefail|errexit|nounset))")
_SPLITS = re.compile(r"[\s*?\[\\]")
"""Characters that make several words, or names of files, of a value that is not quoted."""


class Redirect(NamedTuple):
    """One redirection with a literal target; of a here-document only the operator is kept."""

    operator: str
    target: ShellWord
    descriptor: str = ""
    """The number in front of it, if there is one."""


@dataclass
class Nesting:
    """A group or the line itself: where its current list and its current pipeline began."""

    first: int
    pipeline: int
    piped: bool = False
    outside: int | None = None
    """The beginning of the outermost pipeline around this group, if there is one."""

    @property
    def beside(self) -> int | None:
        """The beginning of the outermost pipeline around a command in it."""
        if self.outside is not None:
            return self.outside
        return self.pipeline if self.piped else None


class Simple(Struct, frozen=True):
    """One simple command, with its own redirections and those of a group that ends with it."""

    words: list[ShellWord] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)
    assigned: list[ShellWord] = field(default_factory=list)
    """Assignments before its words, such as ``CI=1``; without words they hold for the shell."""
    at: int = 0
    piped: bool = False
    """Whether its input is the output of the command before it."""
    beside: int = 0
    """The number of the first command of its pipeline."""
    background: bool = False
    """Whether the commands behind it do not wait for it."""
    sure: bool = False
    """Whether it surely runs, in the shell that reads the line."""
    nested: bool = False
    """Whether a substitution starts it."""
    fed: Unknown | None = None
    """The output of the command before it."""

    @property
    def texts(self) -> list[str]:
        return [word.text for word in self.words]

    @property
    def with_assigned(self) -> tuple[str, ...]:
        """The words as a pattern of a rule spells them, behind the assignments."""
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
    """The commands with the values of variables in their words: one for each combination of values."""
    known = {} if any(map(_may_set, commands)) else _once(bindings)
    expanded: list[Simple] = []
    places = []
    for place, command in enumerate(commands):
        places.append(len(expanded))
        expanded += _variants(command, place, known)
        if len(expanded) > COMMANDS_AT_MOST:
            raise UnreadableLine(f"it has more than {COMMANDS_AT_MOST} commands", command.at)
    return [replace(command, beside=places[command.beside]) for command in expanded]


def _once(bindings: Sequence[Binding]) -> dict[str, Binding]:
    """The variables that are given values in one place only."""
    counted = [binding.name for binding in bindings]
    return {
        binding.name: binding
        for binding in bindings
        if counted.count(binding.name) == 1 and binding.sure
    }


def _may_set(command: Simple) -> bool:
    """May it set variables in a way that is not seen?"""
    texts = command.texts
    if _SETS_MODES.fullmatch(" ".join(texts)):
        return False
    first = texts if texts[:1] == ["time"] else texts[:1]
    return not _SETS_VARIABLES.isdisjoint(first) or (
        "printf" in first and any(map(_PRINTF_SETS.fullmatch, texts))
    )


def _variants(command: Simple, place: int, known: dict[str, Binding]) -> Iterator[Simple]:
    choices = [_values(word, place, known) for word in command.words]
    total = 1
    for values in choices:
        total *= len(values)
    if total > VALUES_AT_MOST:
        choices = [
            values if len(values) == 1 else [_unknown(word)]
            for values, word in zip(choices, command.words, strict=True)
        ]
    for words in product(*choices):
        yield replace(command, words=list(words))


def _values(word: ShellWord, place: int, known: dict[str, Binding]) -> list[ShellWord]:
    """The words that this one may be."""
    if not word.pieces:
        return [word]
    if word.glob:
        return [_unknown(word)]
    pieces = [_piece_values(piece, place, known) for piece in word.pieces]
    found: list[ShellWord] = []
    for combination in product(*pieces):
        if len(found) == VALUES_AT_MOST or any(piece is None for piece in combination):
            return [_unknown(word)]
        parts = [piece for piece in combination if piece is not None]
        alone = len(parts) == 1
        if not alone and any(part.unknown for part in parts):
            return [_unknown(word)]
        text = "".join(part.text for part in parts)
        if not text and not alone:
            return [_unknown(word)]
        if alone and parts[0].unknown and not parts[0].glob:
            found.append(parts[0]._replace(text=word.text))
        else:
            found.append(
                parts[0] if alone else ShellWord(text, False, any(part.glob for part in parts))
            )
    return found


def _piece_values(
    piece: str | Expanded, place: int, known: dict[str, Binding]
) -> list[ShellWord | None]:
    """The possible values of one piece of a word; None where they are unknown."""
    if isinstance(piece, str):
        return [ShellWord(piece, False)]
    if piece.commands:
        return [_printed(piece)]
    binding = known.get(piece.variable)
    if (
        binding is None
        or not binding.start <= place < (binding.end or place + 1)
        or (binding.loop and not binding.end)
    ):
        return [None]
    rest = {name: other for name, other in known.items() if other.at < binding.at}
    values: list[ShellWord | None] = []
    for word in binding.values:
        values += [
            _used(value, quoted=piece.quoted) for value in _values(word, binding.start, rest)
        ]
    return values or [None]


def _used(value: ShellWord, *, quoted: bool) -> ShellWord | None:
    """A value where the variable stands."""
    if unknown := value.unknown:
        return ShellWord(value.text, False, value.glob, unknown=unknown._replace(quoted=quoted))
    if value.glob:
        leads = value.text.startswith(("*", "?", "["))
        unknown = Unknown(VARIABLE, quoted, glob=value.text) if leads or not quoted else None
        return ShellWord(value.text, False, True, unknown=unknown)
    return (
        ShellWord(value.text, False)
        if quoted or (value.text and not _SPLITS.search(value.text))
        else None
    )


def _unknown(word: ShellWord) -> ShellWord:
    expansions = [piece for piece in word.pieces if isinstance(piece, Expanded)]
    why = SUBSTITUTION if any(piece.commands for piece in expansions) else VARIABLE
    quoted = all(piece.quoted for piece in expansions) and not word.glob
    return ShellWord(word.text, False, unknown=Unknown(why, quoted))


def prints_elsewhere(command: Simple) -> bool:
    """Whether something but its words decides what a command prints."""
    silent = all(
        (each.descriptor, each.target.text) == ("2", "/dev/null") for each in command.redirects
    )
    return (
        not silent
        or bool(command.assigned)
        or any(word.pieces or word.unknown for word in command.words)
    )


def _printed(piece: Expanded) -> ShellWord:
    """The output of a substitution, with the pipeline that prints it where it is one, or the pipe to read it from."""
    if piece.is_pipe:
        return ShellWord(
            "<(...)", False, unknown=Unknown(PROCESS_SUBSTITUTION, quoted=True, is_pipe=True)
        )
    commands: Sequence[Simple] = piece.commands
    one = all(command.piped for command in commands[1:]) and not any(
        map(prints_elsewhere, commands)
    )
    printed_by = tuple(tuple(command.texts) for command in commands) if one else ()
    return ShellWord("$(...)", False, unknown=Unknown(SUBSTITUTION, piece.quoted, printed_by))
