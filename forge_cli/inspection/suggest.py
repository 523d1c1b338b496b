"""Rules that would have answered past questions with yes: few of them, and none that allows what a person denied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from forge_cli.core.approval import GrantOffer, GrantRule
from forge_cli.core.calls import ToolCall


@dataclass(frozen=True)
class PastQuestion:
    """A call of the past that asks today: how often a person said yes to it and no, and what a prompt would offer."""

    call: ToolCall
    yes: int
    no: int
    offers: Sequence[GrantOffer]
    granted: bool = False
    """Did something that a person allowed for a session cover it?"""

    @property
    def rules(self) -> tuple[GrantRule, ...]:
        """The narrowest rules of the user's own that would allow it; a wider one would allow what was not asked."""
        fitting = (offer.rules for offer in self.offers if offer.rules and all(rule.user_at for rule in offer.rules))
        return next(fitting, ())


@dataclass(frozen=True)
class Suggestion:
    """Rules that belong together: how many questions they save, and what else they would have allowed."""

    rules: tuple[GrantRule, ...]
    saves: int
    also: tuple[PastQuestion, ...]
    """Calls without a yes of a person."""


@dataclass(frozen=True)
class LeftOut:
    """Rules that would have allowed a call that a person denied."""

    rules: tuple[GrantRule, ...]
    denied: PastQuestion


NewlyAllowed = Callable[[Sequence[GrantRule], Set[int]], Awaitable[Set[int]]]
"""Finds the questions, by their place, that rules in the user's policy pre-approve, and that were not before."""
MOST = 0.9
"""The share of questions that is most of them: from there on no rule is suggested that saves a single one."""


async def suggest_rules(
    questions: Sequence[PastQuestion], newly_allowed: NewlyAllowed
) -> tuple[list[Suggestion], list[LeftOut]]:
    """Choose rules one after the other, each time those that save most for each rule that is to be written."""
    candidates: dict[frozenset[str], tuple[GrantRule, ...]] = {}
    wanted: Counter[frozenset[str]] = Counter()
    for question in questions:
        if question.yes and (rules := question.rules):
            candidates[_key(rules)] = rules
            wanted[_key(rules)] += question.yes
    chosen: list[GrantRule] = []
    allowed: set[int] = set()
    found, left_out = list[Suggestion](), list[LeftOut]()
    while candidates:
        given = _key(chosen)
        best = max(candidates, key=lambda key: _worth(key, given, wanted))
        if _worth(best, given, wanted) <= 1 and sum(each.saves for each in found) >= MOST * wanted.total():
            break
        rules = tuple(rule for rule in candidates.pop(best) if rule not in chosen)
        if not rules:
            continue
        now = await newly_allowed([*chosen, *rules], allowed)
        new = [questions[place] for place in sorted(now)]
        if denied := next((each for each in new if each.no), None):
            left_out.append(LeftOut(rules, denied))
        elif saves := sum(each.yes for each in new):
            found.append(Suggestion(rules, saves, tuple(each for each in new if not each.yes and not each.granted)))
            chosen += rules
            allowed |= now
    return found, left_out


def _key(rules: Iterable[GrantRule]) -> frozenset[str]:
    return frozenset(map(str, rules))


def _worth(rules: frozenset[str], given: frozenset[str], wanted: Mapping[frozenset[str], int]) -> float:
    """How many questions rules would save for each new one, beside those that are given, as far as the offers say."""
    saved = sum(yes for key, yes in wanted.items() if not key <= given and key <= given | rules)
    return saved / max(1, len(rules - given))
