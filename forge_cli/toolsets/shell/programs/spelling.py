"""Other spellings of a command: options between its words, abbreviated subcommands, several targets at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from forge_cli.toolsets.shell.programs.options import KnownOptions
from forge_cli.toolsets.shell.programs.table import KnownProgram, program, program_named
from forge_cli.toolsets.shell.programs.wrappers import starts_commands

_SUBCOMMANDS = ("known", "never", "spelled", "tools", "abbreviates")

_AROUND_TARGET = re.compile(r"^(?:[.]/+)+|^.*:|\[.*\]$", re.DOTALL)


@dataclass(frozen=True)
class Spelling:
    """Words that may stand between and instead of those that tell a program what to do."""

    options: KnownOptions = field(default_factory=KnownOptions)
    first_decides: bool = False
    """Its first operand is a subcommand, so that those behind it are none; else each operand counts for itself."""
    abbreviated: int = 0
    """How many of the first operands may be abbreviated."""
    names: frozenset[str] = frozenset()
    """The subcommands, so that one is not taken for the abbreviation of another."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    groups: frozenset[str] = frozenset()
    """Words that may stand before a subcommand: ``docker image push`` is ``docker push``."""
    targets: bool = False
    """Each operand is a target, maybe with a path or arguments: ``make ./x``, ``gradle :app:x``, ``rake x[y]``."""

    def passed(self, word: str) -> tuple[int, ...]:
        """How many words to pass over for an option, itself included: both where its value is not known of."""
        if word[:1] == "+" or word == "--" or "=" in word:
            return (1,)
        taken = self.options.taken(word)
        return (taken,) if taken == 1 or (taken and word not in self.options.flags) else (1, 2)

    def means(self, word: str, token: str, place: int) -> bool:
        """Whether an operand is this token of a pattern, at its place behind the program, in lower case."""
        if self.targets and token != word:
            word = _AROUND_TARGET.sub("", word)
        if word == token:
            return True
        if place == 0 and self.aliases and self.aliases.get(word, word) == self.aliases.get(token, token):
            return True
        return place < self.abbreviated and word not in ("", *self.names, *self.aliases) and token.startswith(word)


@lru_cache(maxsize=256)
def spelling_of(name: str) -> Spelling:
    found = program_named(program(name))
    options = KnownOptions.of(found.rows, takes=True)
    names = frozenset(path.partition("/")[0] for key in _SUBCOMMANDS[:3] for path in found.words(key))
    abbreviated = max((row.abbreviates for row in found.rows), default=0)
    groups, targets = frozenset(found.words("groups")), "targets" in found.kind
    return Spelling(options, _first_decides(found), abbreviated, names, _aliases(found), groups, targets)


def _first_decides(found: KnownProgram) -> bool:
    if "targets" in found.kind:
        return False
    kinds = {"subcommands", "interpreter", "runs_file", "python"}
    return bool(found.below) or starts_commands(found) or any(map(found.says, _SUBCOMMANDS)) or bool(kinds & found.kind)


def _aliases(found: KnownProgram) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in found.words("aliases")]
    return {alias: name for name, _, others in pairs for alias in others.split(",")}
