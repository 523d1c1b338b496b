"""Rules on the first words of commands, and the rules that match a command."""

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
    """A rule: the decision on simple commands whose words start with the tokens of ``pattern``.

    Instead of a pattern, it may name a rule set of this library, which pre-approves.
    """

    pattern: str = ""
    """The first tokens of a simple command."""
    decision: Decision = Decision.PRE_APPROVED
    """The decision on commands that match it."""
    use: SetName | None = None
    """The name of a rule set, instead of a pattern."""
    checked: bool = False
    """True if a set covers more than plain forms where nothing holds lines to it.

    That is names from listings, whose files are looked at before, and programs that may run code
    of the folder to print something.
    """
    reason: str | None = None
    """A text for the refusal or the prompt."""
    match: Sequence[str] = ()
    """Lines that it must match; see ``check_examples``."""
    not_match: Sequence[str] = ()
    """Lines that it must not match."""
    where: Any = None
    """Data of the program that made the rule, such as its place in a file; not used here."""

    @property
    def title(self) -> str:
        """The pattern, or the name of the rule set."""
        return f"use: {self.use}" if self.use else self.pattern

    @property
    def tokens(self) -> tuple[str, ...]:
        """The pattern split at blanks and tabs, but not at other characters that look like them."""
        return tokens_of(self.pattern)


@lru_cache(maxsize=4096)
def tokens_of(pattern: str) -> tuple[str, ...]:
    """Return a pattern split at blanks."""
    return tuple(_TOKEN.findall(pattern))


class RuleList(Struct, frozen=True):
    """The rules of one place: a worker, a project, a user."""

    name: str
    rules: Sequence[Rule]


class Match(Struct, frozen=True):
    """A rule that matches, by its index in the list ``origin``."""

    origin: str
    index: int
    rule: Rule
    tokens: tuple[str, ...]
    row: SetRow | None = None
    """The row of the rule set that matches, if the rule uses a set."""
    start: int = 0
    """The start of the command that it matches, after a time limit."""

    @property
    def reach(self) -> int:
        return self.start + len(self.tokens)

    @property
    def name(self) -> str:
        return f"{self.origin}.rules[{self.index}]"

    @property
    def described(self) -> str:
        """A phrase that names the rule, or the row of a rule set."""
        if self.row:
            return f"'{' '.join(self.tokens)}' in the rule set {self.rule.use}"
        return f"rule '{visible(self.rule.pattern.strip())}'"

    def covers(self, words: tuple[str, ...]) -> bool:
        if self.row:
            return self.row.covers(self.tokens, words)
        return self.tokens == words[: len(self.tokens)]


def first_of(
    by_name: Mapping[str, list[Match]], words: tuple[str, ...], after: int = -1
) -> Match | None:
    """Return the first match after the rule ``after``; of one rule set, the longest pattern."""
    candidates = (*by_name.get(words[0], ()), *by_name.get(ANY_PROGRAM, ()))
    matches = [match for match in candidates if match.index > after and match.covers(words)]
    if not matches:
        return None
    first: Match = matches[0]
    if first.row is None:
        return first
    for match in matches:
        if match.index == first.index and len(match.tokens) > len(first.tokens):
            first = match
    return first


def first_inside(
    by_name: Mapping[str, list[Match]], words: tuple[str, ...], after: int = -1
) -> Match | None:
    """Return the match of a rule set for a command after ``time``, ``timeout`` or ``xargs``."""
    start = _behind_timer(words) if words[0] in _TIMED else behind_xargs(words)
    found = first_of(by_name, words[start:], after) if start else None
    if found is None or found.row is None or start is None:
        return None
    return replace(found, start=start)


def _behind_timer(words: tuple[str, ...]) -> int | None:
    """Return where the timed command starts, or None."""
    if words[0] != "time":
        wrapper = wrapper_named(words[0])
        return wrapper.inner(words, 0) if wrapper else None
    # -p is the only option of bash's own `time`; to bash, any other word starts the command
    start = 2 if words[1:2] == ("-p",) else 1
    return start if start < len(words) and not words[start].startswith("-") else None


def behind_xargs(words: tuple[str, ...]) -> int | None:
    """Return where the command of ``xargs`` starts, if its options only say how often it runs."""
    if words[0] != "xargs":
        return None
    options = _XARGS.match(" ".join(words))
    if options is None:
        return None
    start = len(options[0].split())
    return start if start < len(words) and not words[start].startswith("-") else None


def timed_by_name(command: Simple, match: Match) -> str | None:
    """Return why bash may read ``-p`` as the command that its own ``time`` measures."""
    if match.start != 2 or command.words[0].text != "time":
        return None
    if command.words[1].bare and not command.redirects:
        return None
    return "-p is an option of time only right after it; otherwise it is a command"


def fed_words(command: Simple, match: Match) -> Sequence[ShellWord]:
    """Return the words of a command with those that ``xargs`` adds."""
    if command.words[0].text != "xargs":
        return command.words
    added = ShellWord("$(...)", False, unknown=command.fed or Unknown(ADDED_BY_XARGS))
    before = command.words[: match.start]
    inner = command.words[match.start :]
    if not any("-I" in word.text for word in before):
        return [*command.words, added]
    # with -I, xargs puts them in place of {}, else at the end
    part = added._replace(unknown=Unknown(ADDED_BY_XARGS))
    words = [*before]
    for word in inner:
        if word.text == "{}":
            words.append(added)
        elif "{}" in word.text:
            words.append(part)
        else:
            words.append(word)
    return words
