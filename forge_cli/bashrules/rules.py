"""Rules on the first words of commands, and which of them match a command."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.bashrules.allow.lexer import ADDED_BY_XARGS, ShellWord, Unknown
from forge_cli.bashrules.allow.values import Simple
from forge_cli.bashrules.decision import Decision
from forge_cli.bashrules.programs.subcommands import wrapper_named
from forge_cli.bashrules.sets.rows import ANY_PROGRAM, SetName, SetRow
from forge_cli.bashrules.text import visible

_TIMED = ("timeout", "time")
_XARGS = re.compile(r"xargs (?:(?:-0|--null|-r|--no-run-if-empty|-t|-[nLP] ?[0-9]+|-I ?\{\}) )*")
_TOKEN = re.compile(r"[^ \t\r\n]+")


class Rule(Struct, frozen=True, kw_only=True):
    """One rule: the decision on simple commands whose words start with the tokens of ``pattern``.

    Or a set of them that this library keeps, by its name, all of which pre-approve.
    """

    pattern: str = ""
    """The first tokens of a simple command."""
    decision: Decision = Decision.PRE_APPROVED
    """The decision on commands that match it."""
    use: SetName | None = None
    """The name of a rule set, in place of a pattern."""
    reason: str | None = None
    """Shown in the refusal or the prompt."""
    match: Sequence[str] = ()
    """Lines that it must match; see ``check_examples``."""
    not_match: Sequence[str] = ()
    """Lines that it must not match."""
    where: Any = None
    """Kept for the program that made the rule, such as its place in a file."""

    @property
    def title(self) -> str:
        """The pattern, or the rule set."""
        return f"use: {self.use}" if self.use else self.pattern

    @property
    def tokens(self) -> tuple[str, ...]:
        """The pattern split at blanks, and at nothing that only looks like one."""
        return tokens_of(self.pattern)


@lru_cache(maxsize=4096)
def tokens_of(pattern: str) -> tuple[str, ...]:
    """A pattern split at blanks."""
    return tuple(_TOKEN.findall(pattern))


class RuleList(Struct, frozen=True):
    """The rules of one place: a worker, a project, a user."""

    name: str
    rules: Sequence[Rule]


class Match(Struct, frozen=True):
    """A rule that matches, with its place in the list called ``origin``."""

    origin: str
    index: int
    rule: Rule
    tokens: tuple[str, ...]
    row: SetRow | None = None
    """Of the rule set that it uses."""
    start: int = 0
    """The beginning of the command that it matches, behind a time limit."""

    @property
    def reach(self) -> int:
        return self.start + len(self.tokens)

    @property
    def name(self) -> str:
        return f"{self.origin}.rules[{self.index}]"

    @property
    def described(self) -> str:
        """The pattern, or the row of a rule set that it is."""
        if self.row:
            return f"'{' '.join(self.tokens)}' in the rule set {self.rule.use}"
        return f"rule '{visible(self.rule.pattern.strip())}'"

    def covers(self, words: tuple[str, ...]) -> bool:
        return (
            self.row.covers(self.tokens, words)
            if self.row
            else self.tokens == words[: len(self.tokens)]
        )


def first_of(
    by_name: Mapping[str, list[Match]], words: tuple[str, ...], after: int = -1
) -> Match | None:
    """The first that matches behind the rule ``after``; of the rows of one rule set, the one that spells most."""
    candidates = (*by_name.get(words[0], ()), *by_name.get(ANY_PROGRAM, ()))
    matches = [match for match in candidates if match.index > after and match.covers(words)]
    if not matches or matches[0].row is None:
        return matches[0] if matches else None
    same = [match for match in matches if match.index == matches[0].index]
    longest: Match = max(same, key=lambda match: len(match.tokens))
    return longest


def first_inside(
    by_name: Mapping[str, list[Match]], words: tuple[str, ...], after: int = -1
) -> Match | None:
    """The verdict of a rule set on a command that only has its time limited or taken, or gets words by xargs."""
    start = _behind_timer(words) if words[0] in _TIMED else behind_xargs(words)
    found = first_of(by_name, words[start:], after) if start else None
    if found is None or found.row is None or start is None:
        return None
    return replace(found, start=start)


def _behind_timer(words: tuple[str, ...]) -> int | None:
    """The beginning of the command that is timed; to bash, a word behind ``time`` other than ``-p`` is a command."""
    if words[0] != "time":
        wrapper = wrapper_named(words[0])
        return wrapper.inner(words, 0) if wrapper else None
    start = 2 if words[1:2] == ("-p",) else 1
    return start if start < len(words) and not words[start].startswith("-") else None


def behind_xargs(words: tuple[str, ...]) -> int | None:
    """The beginning of the command that xargs starts, if its options only say how often and where words are put."""
    options = _XARGS.match(" ".join(words)) if words[0] == "xargs" else None
    start = len(options[0].split()) if options else len(words)
    return start if start < len(words) and not words[start].startswith("-") else None


def timed_by_name(command: Simple, match: Match) -> str | None:
    """Why bash may not take ``-p`` for an option of its own ``time``: one that is quoted, or behind a redirection."""
    if match.start != 2 or command.words[0].text != "time":
        return None
    plain = command.words[1].bare and not command.redirects
    return None if plain else "time takes -p only right behind it; else it is the name of a command"


def fed_words(command: Simple, match: Match) -> Sequence[ShellWord]:
    """The words of a command with those that xargs adds: at the end, or in the place of ``{}``."""
    if command.words[0].text != "xargs":
        return command.words
    added = ShellWord("$(...)", False, unknown=command.fed or Unknown(ADDED_BY_XARGS))
    before = command.words[: match.start]
    inner = command.words[match.start :]
    if not any("-I" in word.text for word in before):
        return [*command.words, added]
    part = added._replace(unknown=Unknown(ADDED_BY_XARGS))
    words = [*before]
    for word in inner:
        if word.text == "{}":
            words.append(added)
        else:
            words.append(part if "{}" in word.text else word)
    return words
