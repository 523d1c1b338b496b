"""The approval table: the verdicts of tool and worker, the answer, and the result."""

from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli import Approval, ApprovalDecision, ToolError, Verdict
from forge_cli.core.actions import ApprovalResponse
from forge_cli.core.approval import ApprovalMode, ApprovalRequest
from forge_cli.core.errors import Mark
from forge_cli.core.events import ApprovalDecided, ApprovalRequired, Event, ToolResult, ToolStarted
from forge_cli.core.results import Text
from forge_cli.core.tool import NeedsApproval
from forge_cli.engine.gate.policy import SILENT, Policy, as_verdict
from forge_cli.errors import BlockedError
from forge_cli.files.document import parse_document
from forge_cli.schema.config import parse_config
from forge_cli.schema.toolset import ApprovalConfig
from tests.engine.conftest import Gate, Recorded

PRE, ASK, BLOCKED = Approval.PRE_APPROVED, Approval.ASK, Approval.BLOCKED
OWN_WORDS = Verdict(ASK, "it reaches out", rule="hosts", where=Mark("hosts.yaml", 3, 5), by="rule")


def giving(value: Any) -> Callable[[Any], Any]:
    return lambda args: value


def later(value: Any) -> Callable[[Any], Any]:
    async def word(args: Any) -> Any:
        return value

    return word


def raising(error: BaseException) -> Callable[[Any], Any]:
    def word(args: Any) -> Any:
        raise error

    return word


def raising_later(error: BaseException) -> Callable[[Any], Any]:
    async def word(args: Any) -> Any:
        raise error

    return word


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even that")


NO_APPROVAL = Verdict(PRE, "the tool needs no approval for this call")
WANTED = Verdict(ASK, "the tool wants this call approved")
PRE_SAID, ASK_SAID, BLOCKED_SAID = (
    Verdict(each, f"the tool says {each.value}") for each in Approval
)


def nonsense(shown: str) -> Verdict:
    return Verdict(
        ASK, f"the tool's own check returned {shown}, which is not an approval, so it asks"
    )


def failed(shown: str) -> Verdict:
    return Verdict(ASK, f"the tool's own check failed ({shown}), so it asks")


WORDS: dict[str, tuple[NeedsApproval, Verdict | None]] = {
    "silent": (None, None),
    "False": (False, NO_APPROVAL),
    "True": (True, WANTED),
    "preApproved": (PRE, PRE_SAID),
    "ask": (ASK, ASK_SAID),
    "blocked": (BLOCKED, BLOCKED_SAID),
    "a verdict": (OWN_WORDS, OWN_WORDS),
    "gives False": (giving(False), NO_APPROVAL),
    "gives True": (giving(True), WANTED),
    "gives preApproved": (giving(PRE), PRE_SAID),
    "gives ask": (giving(ASK), ASK_SAID),
    "gives blocked": (giving(BLOCKED), BLOCKED_SAID),
    "gives a verdict": (giving(OWN_WORDS), OWN_WORDS),
    "gives the name of preApproved": (giving("preApproved"), PRE_SAID),
    "gives the name of ask": (giving("ask"), ASK_SAID),
    "gives the name of blocked": (giving("blocked"), BLOCKED_SAID),
    "gives False later": (later(False), NO_APPROVAL),
    "gives True later": (later(True), WANTED),
    "gives blocked later": (later(BLOCKED), BLOCKED_SAID),
    "gives the name of blocked later": (later("blocked"), BLOCKED_SAID),
    "gives a verdict later": (later(OWN_WORDS), OWN_WORDS),
    "raises": (raising(KeyError("force")), failed("KeyError: 'force'")),
    "raises later": (raising_later(ValueError("boom")), failed("ValueError: boom")),
    "leaves": (raising(SystemExit(1)), failed("SystemExit: 1")),
    "raises BlockedError": (
        raising(BlockedError("act", "never here")),
        Verdict(BLOCKED, "never here"),
    ),
    "gives None": (giving(None), nonsense("None")),
    "gives None later": (later(None), nonsense("None")),
    "gives 0": (giving(0), nonsense("0")),
    "gives 1": (giving(1), nonsense("1")),
    "gives text": (giving("maybe"), nonsense("'maybe'")),
    "gives a list": (giving([]), nonsense("[]")),
}

# What decides: the tool's verdict, the worker's approval.tools entry for it, or the worker's approval.default.
#      the tool's verdict   no entry   preApproved  ask      blocked
DECIDES = {
    None: dict(zip((None, *Approval), ("default", "entry", "entry", "entry"), strict=True)),
    PRE: dict(zip((None, *Approval), ("word", "word", "entry", "entry"), strict=True)),
    ASK: dict(zip((None, *Approval), ("word", "word", "word", "entry"), strict=True)),
    BLOCKED: dict(zip((None, *Approval), ("word", "word", "word", "word"), strict=True)),
}

YES, NO = ApprovalDecision(True), ApprovalDecision(False, note="not today")
ANSWERS = {"interactive, yes": YES, "interactive, no": NO}
MODES = {"approve_all": "approve_all", "auto_deny": "auto_deny"}

# How an `ask` ends: status, by, and what is added to the reason.
ASKED = {
    "interactive, yes": ("success", "user", None),
    "interactive, no": ("denied", "user", "not today"),
    "approve_all": ("success", "mode", "approval mode approve_all"),
    "auto_deny": ("denied", "mode", "approval mode auto_deny"),
    "headless": ("denied", "headless", "forge could not ask (not interactive)"),
}
DENIED = {
    "interactive, no": "act was not called; the user said no: not today",
    "auto_deny": "act was not called; denied: approval mode auto_deny",
    "headless": "act was not called; denied: forge could not ask (not interactive)",
}

Case = tuple[Approval | None, Approval | None, str]
CASES: list[Case] = list(product((None, *Approval), (None, *Approval), ASKED))


@cache
def said_by_the_worker(entry: Approval | None, default: Approval | None) -> Policy:
    lines = [f"tools: {{act: {entry.value}}}"] if entry else ["tools: {}"]
    lines += [f"default: {default.value}"] if default else []
    return Policy.of(
        parse_config(ApprovalConfig, parse_document("\n".join(lines), "worker.yaml")), "act", "box"
    )


def expected_verdict(
    word: Verdict | None, entry: Approval | None, default: Approval | None
) -> Verdict:
    decides = DECIDES[word.approval if word else None][entry]
    if decides == "entry" and entry:
        where, rule = Mark("worker.yaml", 1, 14), "toolsets.box.approval.tools.act"
        return Verdict(entry, f"the worker says {entry.value}", rule, where, by="rule")
    if decides == "default" and default:
        where, rule = Mark("worker.yaml", 2, 10), "toolsets.box.approval.default"
        return Verdict(default, f"the worker says {default.value}", rule, where, by="rule")
    if decides == "default":
        return Verdict(ASK, "neither the tool nor the worker says anything, so it asks", by="rule")
    assert word
    return word


def expected_events(verdict: Verdict, who: str, request_id: str | None) -> list[Event]:
    status, by, note = {
        PRE: ("success", verdict.by, None),
        ASK: ASKED[who],
        BLOCKED: ("blocked", verdict.by, None),
    }[verdict.approval]
    events: list[Event] = [ToolStarted("c1", "act", {"text": "hi"})]
    asked = verdict.approval is ASK and who not in MODES
    if asked:
        assert request_id
        events.append(ApprovalRequired(_request(verdict, request_id)))
        if who in ANSWERS:
            events.append(ApprovalResponse(request_id, ANSWERS[who]))
    reason = f"{verdict.reason}; {note}" if note else verdict.reason
    events.append(
        ApprovalDecided(
            "c1",
            verdict=verdict.approval.value,
            approved=status == "success",
            by=by,  # type: ignore[arg-type]
            rule=verdict.rule,
            where=verdict.where,
            reason=reason,
            cached=False,
            request_id=request_id if asked else None,
        )
    )
    if status == "success":
        events.append(ToolResult("c1", "act", "success", Text("done"), 0))
    else:
        sentence = f"act is blocked: {verdict.reason}" if status == "blocked" else DENIED[who]
        events.append(ToolResult("c1", "act", status, Text(sentence), 0, sentence))  # type: ignore[arg-type]
    return events


def _request(verdict: Verdict, request_id: str) -> ApprovalRequest:
    return ApprovalRequest(
        request_id=request_id,
        tool_call_id="c1",
        tool_name="act",
        args={"text": "hi"},
        description="tester wants to call act",
        reason=verdict.reason,
        risk="high",
        rule=verdict.rule,
        where=verdict.where,
    )


@pytest.mark.anyio
@pytest.mark.parametrize("name", WORDS)
async def test_policy_table_gives_the_expected_verdicts(name: str, tmp_path: Path) -> None:
    needs_approval, word = WORDS[name]
    act = Recorded(needs_approval=needs_approval)
    for case in CASES:
        entry, default, who = case
        act.executed.clear()
        answers = [ANSWERS[who]] if who in ANSWERS else None
        mode = MODES.get(who, "interactive")
        gate = Gate(
            tmp_path,
            act.tool,
            answers=answers,
            mode=mode,
            policy=said_by_the_worker(entry, default),
        )
        outcome = await gate("act", text="hi")

        request_id = next(
            (e.request.request_id for e in gate.events if isinstance(e, ApprovalRequired)), None
        )
        verdict = expected_verdict(word, entry, default)
        assert gate.happened == expected_events(verdict, who, request_id), case
        assert act.executed == ([{"text": "hi"}] if outcome.ok else []), case
        assert outcome.ok == (
            verdict.approval is PRE or (verdict.approval is ASK and who in SAYS_YES)
        ), case


SAYS_YES = {"interactive, yes", "approve_all"}


@pytest.mark.anyio
@pytest.mark.parametrize(
    "word", [raising(ToolError("not on a Sunday")), raising_later(ToolError("not on a Sunday"))]
)
async def test_tool_error_refuses_without_a_question(word: Any, tmp_path: Path) -> None:
    act = Recorded(needs_approval=word)
    for entry, default, who in CASES:
        gate = Gate(
            tmp_path,
            act.tool,
            answers=[YES] if who in ANSWERS else None,
            mode=MODES.get(who, "interactive"),
            policy=said_by_the_worker(entry, default),
        )
        await gate("act")
        assert gate.happened == [
            ToolStarted("c1", "act", {}),
            ToolResult("c1", "act", "error", Text("not on a Sunday"), 0, "not on a Sunday"),
        ]
        assert act.executed == gate.asked == []


VERDICTS = st.builds(Verdict, st.sampled_from(Approval), st.just("why"))
MAYBE = st.none() | VERDICTS


@given(MAYBE, MAYBE, MAYBE)
def test_worker_cannot_loosen_the_approval_of_a_tool(
    word: Verdict | None, entry: Verdict | None, default: Verdict | None
) -> None:
    verdict = Policy(entry, default).combine(word)
    assert verdict in (word, entry, default, SILENT)
    for stricter_or_equal in (word, entry if word else None):
        assert stricter_or_equal is None or not stricter_or_equal.approval.stricter_than(
            verdict.approval
        )


@given(VERDICTS, MAYBE, MAYBE, VERDICTS)
def test_entry_for_a_tool_with_own_approval_cannot_loosen_it(
    word: Verdict, entry: Verdict | None, default: Verdict | None, added: Verdict
) -> None:
    before = Policy(None, default).combine(word)
    after = Policy(added, default).combine(word)
    assert not before.approval.stricter_than(after.approval)


@given(
    MAYBE, MAYBE, MAYBE, st.sampled_from(["word", "entry", "default"]), st.sampled_from(Approval)
)
def test_stricter_approval_never_loosens(
    word: Verdict | None,
    entry: Verdict | None,
    default: Verdict | None,
    who: str,
    stricter: Approval,
) -> None:
    said = {"word": word, "entry": entry, "default": default}
    current = said[who]
    if current is None or not stricter.stricter_than(current.approval):
        return
    before = Policy(entry, default).combine(word)
    said[who] = Verdict(stricter, "stricter")
    after = Policy(said["entry"], said["default"]).combine(said["word"])
    assert not before.approval.stricter_than(after.approval)


@pytest.mark.parametrize(
    ("word", "entry", "without_effect"),
    [
        (True, PRE, True),
        (BLOCKED, ASK, True),
        (BLOCKED, PRE, True),
        (OWN_WORDS, PRE, True),
        (True, ASK, False),
        (True, BLOCKED, False),
        (False, PRE, False),
        (False, BLOCKED, False),
        (None, PRE, False),
        (giving(True), PRE, False),
    ],
)
def test_entry_looser_than_a_fixed_approval_is_reported_at_load(
    word: Any, entry: Approval, without_effect: bool
) -> None:
    offered = Recorded(needs_approval=word).tool
    assert Policy(as_verdict(entry)).loosens(offered) is without_effect
    assert not Policy().loosens(offered)


@pytest.mark.parametrize(
    ("word", "entry", "without_effect"),
    [
        (giving(True), PRE, True),
        (giving(True), ASK, False),
        (giving(True), BLOCKED, False),
        (None, PRE, False),
        (True, PRE, False),
    ],
)
def test_pre_approval_of_an_args_dependent_tool_is_reported_at_load(
    word: Any, entry: Approval, without_effect: bool
) -> None:
    offered = Recorded(needs_approval=word).tool
    assert Policy(as_verdict(entry)).idle(offered) is without_effect
    assert not Policy().idle(offered)


def test_every_mode_is_in_the_table() -> None:
    assert {*MODES.values(), "interactive"} == {mode.value for mode in ApprovalMode}
