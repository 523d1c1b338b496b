"""Judging made short: patterns by decision, and the verdict in one word."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest

from forge_cli.bashrules.decision import Decision
from forge_cli.bashrules.judge import Verdict, judge_line
from forge_cli.bashrules.rules import Rule

Judge = Callable[..., Verdict]


@pytest.fixture
def judge() -> Judge:
    """Judge a line by patterns that are pre-approved (``allow``), asked for (``ask``) or blocked (``block``)."""
    return judge_by


def judge_by(
    command: str,
    *,
    allow: Sequence[str] = (),
    ask: Sequence[str] = (),
    block: Sequence[str] = (),
    default: Decision = Decision.ASK,
    writable: Sequence[str] = (),
) -> Verdict:
    decisions = {Decision.PRE_APPROVED: allow, Decision.ASK: ask, Decision.BLOCKED: block}
    rules = [
        Rule(pattern=one, decision=said) for said, patterns in decisions.items() for one in patterns
    ]
    return judge_line(command, rules, default, writable=writable)


def rule_of(case: Mapping[str, Any]) -> Rule:
    """Return a rule as the cases spell it, which are those of a worker file."""
    return Rule(
        pattern=case["pattern"], decision=Decision(case["approval"]), reason=case.get("reason")
    )


def others_than(
    expected: Decision, lines: Iterable[str], judge: Judge = judge_by, **rules: Any
) -> list[str]:
    """The lines whose verdict is another one, with that verdict and its reason."""
    verdicts = ((line, judge(line, **rules)) for line in lines)
    return [
        f"{line!r} is {v.decision.value}: {v.reason}"
        for line, v in verdicts
        if v.decision is not expected
    ]
