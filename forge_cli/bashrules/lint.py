"""Mistakes that can be seen in the rules themselves: wrong examples, rules that never count, odd patterns."""

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
"""Words that could follow a pattern; if it pre-approves with none of them, it never does."""
_NOT_LITERAL = re.compile(r"[\"'`$*\\;&|<>()]")


class WrongExample(Struct, frozen=True):
    """An example that does not do what its rule says of it; ``key`` is ``match`` or ``not_match``."""

    rule: int
    key: str
    item: int
    message: str


def check_examples(rules: Sequence[Rule]) -> list[WrongExample]:
    """Every example under ``match`` that its rule does not match first, every one under ``not_match`` that it does."""
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
            yield WrongExample(
                index, "not_match", item, f"{_shown(example)} is matched by {_shown(rule.pattern)}"
            )


def _unmatched(rules: Sequence[Rule], index: int, example: str) -> str | None:
    rule = rules[index]
    if why := _why_unmatched(rule, example):
        return f"{_shown(example)} is not matched by {_shown(rule.pattern)}: {why}"
    verdict = judge_line(example, rules, Decision.ASK)
    if verdict.match and rule.decision is not Decision.BLOCKED and verdict.match.index < index:
        earlier = verdict.match.rule.title
        return f"{_shown(example)} is matched by {_shown(earlier)} first; put the narrower rule before it"
    return None


def _why_unmatched(rule: Rule, example: str) -> str | None:
    """Why a rule, alone, does not match an example; None when it does."""
    verdict = judge_line(example, [rule], Decision.ASK)
    match rule.decision:
        case Decision.ASK:
            matched = any(part.match for part in verdict.parts)
        case expected:
            matched = verdict.decision is expected
    return None if matched else verdict.reason


class OddRule(NamedTuple):
    """A rule by its place in the list, and a sentence on what is odd about it."""

    rule: int
    message: str


def lint_rules(rules: Sequence[Rule]) -> list[OddRule]:
    """Warnings about a list of rules."""
    found: list[OddRule] = []
    for index, rule in enumerate(rules):
        title = f"rules[{index}] {_shown(rule.pattern)}"
        found += [OddRule(index, f"{title}: {problem}") for problem in _problems(rules, index)]
    return found


def granting_rules(rules: Sequence[Rule]) -> list[Rule]:
    """The rules that do pre-approve something: not those that never count, or that match nothing which could be."""
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
    assigned = next(
        (at for at, token in enumerate(tokens) if not ASSIGNMENT.match(token)), len(tokens)
    )
    if name := loading_name([ShellWord(token) for token in tokens[:assigned]]):
        return f"{name} may change what runs"
    tokens = tokens[assigned:]
    if not tokens:
        return "no command stands behind the assignment"
    whys = [
        command_hazard([ShellWord(word) for word in (*tokens, *ending)], len(tokens))
        for ending in _ENDINGS
    ]
    return whys[1] if all(whys) else None


def _shadows(rules: Sequence[Rule], index: int) -> Iterator[str]:
    """The first rule that always counts before this one."""
    rule = rules[index]
    for other, blocking in enumerate(rules):
        if blocking.decision is Decision.BLOCKED and _starts_with(
            rule.tokens, blocking.tokens, fold=True
        ):
            yield f"it never counts: rules[{other}] {_shown(blocking.pattern)} blocks all that it matches"
            return
    for earlier in rules[:index]:
        if (
            earlier.tokens
            and earlier.decision is not rule.decision
            and _starts_with(rule.tokens, earlier.tokens)
        ):
            place = rules.index(earlier)
            yield f"it never counts: rules[{place}] {_shown(earlier.pattern)} comes first and matches the same"
            return


def _starts_with(tokens: tuple[str, ...], start: tuple[str, ...], *, fold: bool = False) -> bool:
    if fold:
        tokens, start = tuple(map(str.casefold, tokens)), tuple(map(str.casefold, start))
    return bool(start) and tokens[: len(start)] == start


def _shown(text: str) -> str:
    return f"'{visible(text.strip())}'"
