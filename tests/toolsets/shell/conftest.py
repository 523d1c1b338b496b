"""Judging made short: patterns by approval, and the verdict in one word."""

from collections.abc import Callable, Sequence

import pytest

from forge_cli.core.approval import Approval
from forge_cli.toolsets.shell.rules import LineVerdict, ShellRule, judge_line

Judge = Callable[..., LineVerdict]


@pytest.fixture
def judge() -> Judge:
    """Judge a line by patterns that are pre-approved (``allow``), asked for (``ask``) or blocked (``block``)."""

    def judge(
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

    return judge
