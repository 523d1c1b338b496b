"""Three approvals and their order, risk from effects, and the fingerprint that a grant is bound to."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.core.actions import ApprovalResponse
from forge_cli.core.approval import (
    Approval,
    ApprovalDecision,
    ApprovalMode,
    ApprovalRequest,
    Effect,
    JudgedPart,
    Verdict,
    fingerprint,
    risk_of,
)
from forge_cli.core.errors import Mark
from forge_cli.core.events import ApprovalDecided, ApprovalRequired
from forge_cli.core.results import Diff

APPROVALS = st.sampled_from(Approval)
SMALL_ARGS = st.dictionaries(
    st.sampled_from("ab"), st.sampled_from([None, True, 1, "1", "", [1], ["1"], {"a": 1}])
)


@pytest.mark.parametrize(
    ("approvals", "strictest"),
    [
        ([], Approval.ASK),
        ([Approval.PRE_APPROVED], Approval.PRE_APPROVED),
        ([Approval.PRE_APPROVED, Approval.ASK], Approval.ASK),
        ([Approval.BLOCKED, Approval.ASK], Approval.BLOCKED),
        ([Approval.PRE_APPROVED, Approval.BLOCKED, Approval.PRE_APPROVED], Approval.BLOCKED),
    ],
)
def test_strictest_approval_wins(approvals: list[Approval], strictest: Approval) -> None:
    assert Approval.strictest(*approvals) is strictest


@given(st.lists(APPROVALS, min_size=1), APPROVALS)
def test_further_approval_never_loosens(approvals: list[Approval], another: Approval) -> None:
    before, after = Approval.strictest(*approvals), Approval.strictest(*approvals, another)
    assert not before.stricter_than(after)
    assert not another.stricter_than(after)


@pytest.mark.parametrize(
    ("modes", "strictest"),
    [
        ([None, None], None),
        ([None, ApprovalMode.APPROVE_ALL], ApprovalMode.APPROVE_ALL),
        ([ApprovalMode.APPROVE_ALL, ApprovalMode.INTERACTIVE], ApprovalMode.INTERACTIVE),
        ([ApprovalMode.AUTO_DENY, ApprovalMode.INTERACTIVE, None], ApprovalMode.AUTO_DENY),
        ([ApprovalMode.APPROVE_ALL, ApprovalMode.AUTO_DENY], ApprovalMode.AUTO_DENY),
    ],
)
def test_strictest_mode_wins_and_missing_ones_are_ignored(
    modes: list[ApprovalMode | None], strictest: ApprovalMode | None
) -> None:
    assert ApprovalMode.strictest(*modes) is strictest
    assert ApprovalMode.strictest(*reversed(modes)) is strictest


@pytest.mark.parametrize(
    ("effects", "risk"),
    [
        (None, "high"),
        ([], "low"),
        ([Effect.READ], "low"),
        ([Effect.WRITE], "medium"),
        ([Effect.READ, Effect.WRITE], "medium"),
        ([Effect.NETWORK], "medium"),
        ([Effect.EXECUTE], "high"),
        ([Effect.READ, Effect.EXECUTE], "high"),
    ],
)
def test_risk_comes_from_declared_effects(effects: list[Effect] | None, risk: str) -> None:
    assert risk_of(None if effects is None else frozenset(effects)) == risk


IDENTITY: dict[str, Any] = {
    "worker": "w",
    "source": "local tools.py",
    "digest": "d1",
    "tool": "push",
    "args": {"branch": "main", "force": False},
}


@pytest.mark.parametrize(
    "change",
    [
        {"worker": "other"},
        {"source": "package forge-tools-x 1.0"},
        {"digest": "d2"},
        {"digest": None},
        {"tool": "pull"},
        {"args": {"branch": "main", "force": True}},
        {"args": {"branch": "main"}},
        {"args": {"branch": "main", "force": 0}},
        {"args": {}},
    ],
)
def test_fingerprint_differs_for_every_different_call(change: dict[str, Any]) -> None:
    assert fingerprint(**{**IDENTITY, **change}) != fingerprint(**IDENTITY)


def test_fingerprint_ignores_the_order_of_args() -> None:
    turned = {"force": False, "branch": "main"}
    assert fingerprint(**{**IDENTITY, "args": turned}) == fingerprint(**IDENTITY)


@given(SMALL_ARGS, SMALL_ARGS)
def test_fingerprints_are_equal_only_for_equal_args(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    same = fingerprint(**{**IDENTITY, "args": one}) == fingerprint(**{**IDENTITY, "args": other})
    assert same == (repr(sorted(one.items())) == repr(sorted(other.items())))


def test_request_answer_and_decision_are_encoded() -> None:
    request = ApprovalRequest(
        request_id="r1",
        tool_call_id="c1",
        tool_name="write_file",
        args={"path": "/output/a", "content": "new"},
        description="writer wants to call write_file",
        reason="writing in zone 'output' needs your OK",
        risk="medium",
        rule="sandbox.zones.output.approval.write",
        where=Mark("worker.yaml", 4, 23),
        preview=Diff.of("/output/a", "old", "new"),
    )
    assert ApprovalRequired(request).payload() == {
        "requestId": "r1",
        "toolCallId": "c1",
        "toolName": "write_file",
        "args": {"path": "/output/a", "content": "new"},
        "description": "writer wants to call write_file",
        "reason": "writing in zone 'output' needs your OK",
        "risk": "medium",
        "rule": "sandbox.zones.output.approval.write",
        "where": "worker.yaml:4:23",
        "preview": {
            "kind": "diff",
            "path": "/output/a",
            "original": "old",
            "modified": "new",
            "isNew": False,
            "bytesWritten": 3,
        },
    }
    decision = ApprovalDecision(True, remember="session", note="go on")
    assert ApprovalResponse("r1", decision).payload() == {
        "requestId": "r1",
        "approved": True,
        "remember": "session",
        "note": "go on",
    }
    decided = ApprovalDecided(
        "c1", "ask", True, "user", None, None, "it asks", cached=False, request_id="r1"
    )
    assert decided.payload() == {
        "toolCallId": "c1",
        "verdict": "ask",
        "approved": True,
        "by": "user",
        "rule": None,
        "where": None,
        "reason": "it asks",
        "cached": False,
        "requestId": "r1",
    }


HERE = Mark("w.yaml", 3, 1)
READ = JudgedPart("select 1", "preApproved", "it only reads", "sql.read")
WRITE = JudgedPart("update a", "ask", "it writes")
AUDIT = JudgedPart("delete from audit", "blocked", "a rule blocks it", "sql.rules", HERE)


def test_verdict_of_parts_is_the_strictest_and_lists_all() -> None:
    verdict = Verdict.of_parts([READ, AUDIT, WRITE], risk="low")
    assert verdict == Verdict(
        Approval.BLOCKED,
        "a rule blocks it",
        "sql.rules",
        HERE,
        by="rule",
        details=(
            "preApproved: select 1 (it only reads)",
            "blocked: delete from audit (a rule blocks it)",
            "ask: update a (it writes)",
        ),
        parts=(READ, AUDIT, WRITE),
        risk="low",
    )


@pytest.mark.parametrize(
    ("parts", "approval", "unruled"),
    [
        ([], Approval.ASK, False),
        ([READ], Approval.PRE_APPROVED, False),
        ([READ, WRITE], Approval.ASK, True),
        ([WRITE, JudgedPart("insert", "ask", "a rule asks", "sql.write")], Approval.ASK, False),
    ],
)
def test_trial_counts_only_if_no_rule_asks(
    parts: list[JudgedPart], approval: Approval, unruled: bool
) -> None:
    verdict = Verdict.of_parts(parts)
    assert (verdict.approval, verdict.unruled) == (approval, unruled)


def test_part_with_an_invalid_approval_is_an_error() -> None:
    with pytest.raises(ValueError, match="allowed"):
        Verdict.of_parts([JudgedPart("select 1", "allowed", "")])
