"""Judging made short: patterns by approval, and the verdict in one word."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from forge_cli.bashrules.judge import LineVerdict, judge_line
from forge_cli.bashrules.rules import ShellRule
from forge_cli.core.approval import Approval

Judge = Callable[..., LineVerdict]


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
    default: Approval = Approval.ASK,
    writable: Sequence[str] = (),
) -> LineVerdict:
    approvals = {Approval.PRE_APPROVED: allow, Approval.ASK: ask, Approval.BLOCKED: block}
    rules = [ShellRule(pattern=one, approval=said) for said, patterns in approvals.items() for one in patterns]
    return judge_line(command, rules, default, writable=writable)


def others_than(expected: Approval, lines: Iterable[str], judge: Judge = judge_by, **rules: Any) -> list[str]:
    """The lines whose verdict is another one, with that verdict and its reason."""
    verdicts = ((line, judge(line, **rules)) for line in lines)
    return [f"{line!r} is {v.approval.value}: {v.reason}" for line, v in verdicts if v.approval is not expected]
