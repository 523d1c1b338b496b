"""Comparison of rules with past calls: rules that never matched, and rules that save questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from forge_cli.core.approval import GrantRule
from forge_cli.core.errors import ForgeError
from forge_cli.engine.runtime.without_model import bare_worker, opened
from forge_cli.files.edit import CannotEditError, FileEdit, lines_to_paste, plan_edit
from forge_cli.files.home import forge_home
from forge_cli.files.settings_files import load_user_settings
from forge_cli.files.worker import load_worker
from forge_cli.inspection.facts import Facts, policy_of
from forge_cli.inspection.inspector import inspect
from forge_cli.inspection.past import MadeCall, PastGate, Warn, judge_gates, past_gates
from forge_cli.record.calls import PastCall


class Suggestion(Struct, frozen=True):
    """Rules that belong together, the questions that they save, and what else they would allow."""

    rules: tuple[GrantRule, ...]
    saves: int
    also: tuple[MadeCall, ...]
    """Calls that the rules would allow and that no person approved."""


class LeftOut(Struct, frozen=True):
    """Rules that would have allowed a call that a person denied."""

    rules: tuple[GrantRule, ...]
    denied: MadeCall


NewlyAllowed = Callable[[Sequence[GrantRule], Set[int]], Awaitable[Set[int]]]
"""A function that returns the indexes of the questions that rules would newly pre-approve."""
MAX_SHARE = 0.9
"""The share of saved questions after which rules that save only one more are not suggested."""


async def suggest_rules(
    questions: Sequence[MadeCall], newly_allowed: NewlyAllowed
) -> tuple[list[Suggestion], list[LeftOut]]:
    """Choose rules greedily: each time those that save most questions for each new rule."""
    candidates: dict[frozenset[str], tuple[GrantRule, ...]] = {}
    wanted: Counter[frozenset[str]] = Counter()
    for question in questions:
        if question.yes and (rules := question.rules):
            candidates[_key(rules)] = rules
            wanted[_key(rules)] += question.yes
    chosen: list[GrantRule] = []
    allowed: set[int] = set()
    found = list[Suggestion]()
    left_out = list[LeftOut]()
    while candidates:
        given = _key(chosen)
        best = max(candidates, key=lambda key: _worth(key, given, wanted))
        if (
            _worth(best, given, wanted) <= 1
            and sum(each.saves for each in found) >= MAX_SHARE * wanted.total()
        ):
            break
        rules = tuple(rule for rule in candidates.pop(best) if rule not in chosen)
        if not rules:
            continue
        now = await newly_allowed([*chosen, *rules], allowed)
        new = [questions[place] for place in sorted(now)]
        if denied := next((each for each in new if each.no), None):
            left_out.append(LeftOut(rules, denied))
        elif saves := sum(each.yes for each in new):
            also = tuple(each for each in new if not each.yes and not each.granted)
            found.append(Suggestion(rules, saves, also))
            chosen += rules
            allowed |= now
    return found, left_out


def _key(rules: Iterable[GrantRule]) -> frozenset[str]:
    return frozenset(map(str, rules))


def _worth(
    rules: frozenset[str], given: frozenset[str], wanted: Mapping[frozenset[str], int]
) -> float:
    """Return how many questions rules save for each new rule, judged by the offers."""
    saved = sum(yes for key, yes in wanted.items() if not key <= given and key <= given | rules)
    # rules that were all chosen already add none, but must not divide by zero
    return saved / max(1, len(rules - given))


_BY_NAME = ".approval.tools."
"""Part of the key path of a verdict that a file states for a tool by its name."""


async def suggest_from_past(
    since: str, warn: Warn
) -> tuple[list[MadeCall], list[Suggestion], list[LeftOut]]:
    """Return the questions that would come up again, the suggested rules, and the rejected ones.

    A denial counts for all workers if its own worker cannot be opened any more.
    """
    judged, lost = await judge_gates(past_gates(warn, since), warn)
    denied = [MadeCall(made.past, no=made.no) for made in lost if made.no]
    questions: list[MadeCall] = []
    asking: list[tuple[PastGate, dict[int, PastCall]]] = []
    for gate, calls in judged:
        elsewhere = zip(denied, await gate.judge([made.past for made in denied]), strict=True)
        indexed: dict[int, PastCall] = {}
        for made, now in (*calls, *elsewhere):
            if now.verdict == "ask":
                indexed[len(questions)] = made.past
                questions.append(replace(made, offers=now.offers))
        asking.append((gate, indexed))

    async def newly_allowed(rules: Sequence[GrantRule], before: Set[int]) -> set[int]:
        text = _planned(rules).after.decode()
        allowed = set[int]()
        for gate, calls in asking:
            left = {place: past for place, past in calls.items() if place not in before}
            now = zip(left, await gate.judge([*left.values()], text), strict=True)
            allowed |= {place for place, each in now if each.verdict == "preApproved"}
        return allowed

    return questions, *await suggest_rules(questions, newly_allowed)


def _planned(rules: Sequence[GrantRule]) -> FileEdit:
    """Return the edit of config.yaml that adds the rules."""
    try:
        return plan_edit(forge_home() / "config.yaml", rules, user=True)
    except CannotEditError as error:
        by_hand = lines_to_paste(rules, user=True)
        raise ForgeError(f"{error}; add it by hand:\n{by_hand}") from None


def write_rules(rules: Sequence[GrantRule]) -> FileEdit:
    """Add the rules to the user's config.yaml and return the edit."""
    edit = _planned(rules)
    try:
        edit.write()
    except CannotEditError as error:
        raise ForgeError(str(error)) from None
    return edit


async def compare_rules(warn: Warn) -> tuple[dict[str, Facts], set[str], int]:
    """Return all rules by place, the places of rules that matched, and the number of past calls."""
    judged, _ = await judge_gates(past_gates(warn), warn)
    rules: dict[str, Facts] = {}
    met: set[str] = set()
    # without a worker this can fail, because a toolset may need settings of one
    with TemporaryDirectory(prefix="forge-") as empty, suppress(ForgeError):
        rules |= {rule["where"]: rule for rule in _written(await inspect(policy_at, None, empty))}
    for gate, calls in judged:
        policy = await inspect(
            policy_at, gate.file, str(gate.workspace), worker=gate.file, folder=gate.workspace
        )
        called = {made.past.call.name for made, _ in calls}
        rules |= {rule["where"]: rule for rule in _written(policy)}
        met.update(*(now.met for _, now in calls))
        met |= {rule["where"] for rule in _written(policy) if rule.get("tool") in called}
    return rules, met, sum(len(calls) for _, calls in judged)


async def policy_at(worker: str | None, workspace: str) -> Facts:
    """Return the policy of a worker and the user, or of the user alone."""
    alone = bare_worker(dict.fromkeys(load_user_settings(forge_home()).policy))
    found = load_worker(worker) if worker else alone
    async with opened(found, workspace=Path(workspace), make_zones=False) as assembly:
        return policy_of(assembly)


def _written(policy: Facts) -> Iterator[Facts]:
    """Yield the rules that are written in a file."""
    for rule in policy["rules"]:
        # an entry of a list, such as rules[2]
        if rule["where"] and str(rule["rule"]).endswith("]"):
            yield rule
    for rule in policy["tools"]:
        if rule["where"] and _BY_NAME in str(rule["rule"]):
            yield rule
