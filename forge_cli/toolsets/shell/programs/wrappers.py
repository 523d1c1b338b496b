"""Programs that start other programs: how their words lead to the command inside."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from forge_cli.toolsets.shell.programs.options import KnownOptions
from forge_cli.toolsets.shell.programs.table import KnownProgram, ProgramRow, program, program_named

ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^]]*\])?\+?=")
FIND_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})

Walked = set[tuple[int, int, bool]]
"""Places in the words, with how many operands are still to come, and whether an option stands before."""


@dataclass(frozen=True)
class Wrapper:
    """A program that starts the command among its words; ``operands`` are its own words before that."""

    options: KnownOptions = field(default_factory=KnownOptions)
    operands: int = 0
    assigns: bool = False
    reparses: bool = False
    """It joins the words and hands them to a shell."""
    feeds: bool = False
    """It adds words that come from elsewhere."""
    command: bool = False
    """The word itself is the command, as ``k3s kubectl get``."""

    @classmethod
    def of(cls, row: ProgramRow) -> Wrapper:
        return cls(KnownOptions.of((row,)), **(row.runs or {}))

    def inner(self, words: Sequence[str], start: int) -> int | None:
        """The start of the command inside; None when there is none, or an option is not known well enough to tell."""
        pos = start + 1
        while pos < len(words):
            word = words[pos]
            if word == "--":
                pos += 1
                break
            if self.assigns and ASSIGNMENT.match(word):
                pos += 1
                continue
            if not word.startswith("-"):
                break
            taken = self.options.taken(word)
            if taken is None:
                return None
            pos += taken
        pos += self.operands
        return pos if pos < len(words) and not words[pos].startswith("-") else None

    def candidates(self, words: Sequence[str], start: int, walked: Walked | None = None) -> Iterator[int]:
        """Every place where the command inside could start, however the options are to be understood.

        What an earlier walk over the same words has ``walked`` is not walked again: it led to the same places.
        """
        walked = set() if walked is None else walked
        own, after_option = self.operands, False
        for pos in range(start + 1, len(words)):
            if (pos, own, after_option) in walked:
                return
            walked.add((pos, own, after_option))
            word = words[pos]
            if word.startswith("-"):
                after_option = self.options.taken(word) != 1 and word != "--" and "=" not in word
            elif self.assigns and "=" in word:
                after_option = False
            elif not ASSIGNMENT.match(word):
                yield pos
                if wrapper_named(program(word)) or not (own or after_option):
                    return
                own -= not after_option
                after_option = False


@lru_cache(maxsize=4096)
def wrapper_named(name: str) -> Wrapper | None:
    """The wrapper of that name; None for what is none, or one that may start its command at any word."""
    return next((Wrapper.of(row) for row in program_named(name).rows if row.runs is not None), None)


def starts_commands(found: KnownProgram) -> bool:
    """Whether a program is there to start the command among its words, or the script that it is given."""
    return not found.kind.isdisjoint({"shell", "starter"}) or any(row.runs is not None for row in found.rows)
