"""Mistakes in the rules themselves: wrong examples, rules without effect, odd patterns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from forge_cli.bashrules.allow.hazards import command_hazard
from forge_cli.bashrules.allow.lexer import ShellWord
from forge_cli.bashrules.decision import Decision
from forge_cli.bashrules.judge import judge_line
from forge_cli.bashrules.programs.subcommands import ASSIGNMENT
from forge_cli.bashrules.programs.variables import loading_name
from forge_cli.bashrules.rules import Rule
from forge_cli.bashrules.text import visible

_ENDINGS = ((), ("x",), ("1p", "x"), ("status",), ("-m", "pytest"), ("run", "x"))
"""Words that may follow a pattern. If it pre-approves with none of them, it never does."""
_NOT_LITERAL = re.compile(r"[\"'`$*\\;&|<>()]")


class WrongExample(Struct, frozen=True):
    """An example that contradicts its rule; ``key`` is ``match`` or ``not_match``."""

    rule: int
    key: str
    item: int
    message: str


def check_examples(rules: Sequence[Rule]) -> list[WrongExample]:
    """Return the examples that contradict their rules.

    The rule of a ``match`` example has to be the first that matches it.
    """
    found: list[WrongExample] = []
    for index in range(len(rules)):
        found += _wrong_examples(rules, index)
    return found


def _wrong_examples(rules: Sequence[Rule], index: int) -> Iterator[WrongExample]:
    rule = rules[index]
    for item, example in enumerate(rule.match):
        if problem := _unmatched(rules, index, example):
            yield WrongExample(index, "match", item, problem)
    for item, example in enumerate(rule.not_match):
        if _why_unmatched(rule, example) is None:
            message = f"{_shown(example)} is matched by {_shown(rule.pattern)}"
            yield WrongExample(index, "not_match", item, message)


def _unmatched(rules: Sequence[Rule], index: int, example: str) -> str | None:
    rule = rules[index]
    if why := _why_unmatched(rule, example):
        return f"{_shown(example)} is not matched by {_shown(rule.pattern)}: {why}"
    verdict = judge_line(example, rules, Decision.ASK)
    if verdict.match and rule.decision is not Decision.BLOCKED and verdict.match.index < index:
        earlier = _shown(verdict.match.rule.title)
        return f"{_shown(example)} is matched by {earlier} first; put the narrower rule before it"
    return None


def _why_unmatched(rule: Rule, example: str) -> str | None:
    """Return why a rule, alone, does not match an example; None if it does."""
    verdict = judge_line(example, [rule], Decision.ASK)
    match rule.decision:
        case Decision.ASK:
            matched = any(part.match for part in verdict.parts)
        case expected:
            matched = verdict.decision is expected
    return None if matched else verdict.reason


class OddRule(NamedTuple):
    """A rule that is odd, by its index in the list, and the reason."""

    rule: int
    message: str


def lint_rules(rules: Sequence[Rule]) -> list[OddRule]:
    """Return warnings about a list of rules."""
    found: list[OddRule] = []
    for index, rule in enumerate(rules):
        title = f"rules[{index}] {_shown(rule.pattern)}"
        found += [OddRule(index, f"{title}: {problem}") for problem in _problems(rules, index)]
    return found


def granting_rules(rules: Sequence[Rule]) -> list[Rule]:
    """Return the pre-approving rules that have an effect."""
    return [
        rule
        for index, rule in enumerate(rules)
        if rule.decision is Decision.PRE_APPROVED and _counts(rules, index)
    ]


def _counts(rules: Sequence[Rule], index: int) -> bool:
    if rules[index].use:
        return True
    tokens = rules[index].tokens
    if not tokens:
        return False
    return _never_approves(tokens) is None and next(_shadows(rules, index), None) is None


def _problems(rules: Sequence[Rule], index: int) -> Iterator[str]:
    rule = rules[index]
    if rule.use:
        return
    if not rule.tokens:
        yield "an empty pattern matches nothing"
        return
    if odd := next(filter(_NOT_LITERAL.search, rule.tokens), None):
        yield f"a pattern is words without quotes or wildcards; {_shown(odd)} only matches itself"
    if rule.decision is Decision.PRE_APPROVED and (why := _never_approves(rule.tokens)):
        yield f"it can never pre-approve: {why}"
    if rule.decision is not Decision.BLOCKED:
        yield from _shadows(rules, index)


def _never_approves(tokens: tuple[str, ...]) -> str | None:
    assigned = 0
    while assigned < len(tokens) and ASSIGNMENT.match(tokens[assigned]):
        assigned += 1
    if name := loading_name([ShellWord(token) for token in tokens[:assigned]]):
        return f"{name} may change what runs"
    tokens = tokens[assigned:]
    if not tokens:
        return "no command comes after the assignment"
    whys: list[str | None] = []
    for ending in _ENDINGS:
        words = [ShellWord(word) for word in (*tokens, *ending)]
        whys.append(command_hazard(words, len(tokens)))
    # the reason with one operand is the easiest to understand
    return whys[1] if all(whys) else None


def _shadows(rules: Sequence[Rule], index: int) -> Iterator[str]:
    """Yield why the rule has no effect: an earlier one, or one that blocks, matches the same."""
    rule = rules[index]
    for other, blocking in enumerate(rules):
        if blocking.decision is not Decision.BLOCKED:
            continue
        if _starts_with(rule.tokens, blocking.tokens, fold=True):
            pattern = _shown(blocking.pattern)
            yield f"it has no effect: rules[{other}] {pattern} blocks all that it matches"
            return
    for earlier in rules[:index]:
        is_other = earlier.tokens and earlier.decision is not rule.decision
        if is_other and _starts_with(rule.tokens, earlier.tokens):
            name = f"rules[{rules.index(earlier)}] {_shown(earlier.pattern)}"
            yield f"it has no effect: {name} comes first and matches the same"
            return


def _starts_with(tokens: tuple[str, ...], start: tuple[str, ...], *, fold: bool = False) -> bool:
    if fold:
        tokens = tuple(map(str.casefold, tokens))
        start = tuple(map(str.casefold, start))
    return bool(start) and tokens[: len(start)] == start


def _shown(text: str) -> str:
    return f"'{visible(text.strip())}'"
