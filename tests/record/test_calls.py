"""The calls of a past session, with who made them and the verdict that each had."""

from forge_cli import ApprovalDecision, ApprovalRequest, Text
from forge_cli.core.approval import DecidedBy
from forge_cli.core.calls import OutcomeStatus
from forge_cli.core.errors import Mark
from forge_cli.core.events import (
    ApprovalDecided,
    ApprovalRequired,
    ApprovalResponse,
    Event,
    MessageEvent,
    ToolResult,
    ToolStarted,
)
from forge_cli.events import Message, ToolCall
from forge_cli.record.calls import PastCall, PastVerdict, past_calls

from ..lines import CHILD, lines_of

CALL = ToolCall("c", "pay", {"to": "Ana"})
HERE = Mark("worker.yaml", 7, 3)
STARTED = ToolStarted("c", "pay", CALL.args)
DECIDED = ApprovalDecided("c", "preApproved", True, "rule", "tools.pay", HERE, "the worker says so", cached=True)
REQUEST = ApprovalRequest("r", "c", "pay", CALL.args, "w wants to pay", "it asks", "high", None, HERE)


def made(*events: Event) -> list[PastCall]:
    return past_calls(lines_of(*events))


def ended(status: OutcomeStatus, error: str | None = None) -> ToolResult:
    return ToolResult("c", "pay", status, Text(error or "paid"), 1, error)


def test_a_call_of_the_model_and_one_of_a_person() -> None:
    (by_model,) = made(MessageEvent(Message("assistant", "", (CALL,))), STARTED, DECIDED, ended("success"))
    settled = PastVerdict("preApproved", "the worker says so", "tools.pay", HERE, "rule")
    assert by_model == PastCall(CALL, True, settled, remembered=True)
    (by_hand,) = made(STARTED, DECIDED)
    assert (by_hand.call, by_hand.by_model) == (CALL, False)


def test_a_call_that_waits_asks_and_one_that_could_not_run_was_refused() -> None:
    assert made(STARTED, ApprovalRequired(REQUEST))[0].verdict == PastVerdict("ask", "it asks", None, HERE)
    assert made(STARTED, ended("not_found", "no such tool"))[0].verdict == PastVerdict("refused", "no such tool")
    assert made(STARTED, ended("blocked", "not here"))[0].verdict == PastVerdict("blocked", "not here")
    assert made(STARTED, ended("interrupted", "stopped"))[0].verdict is None


def test_an_id_may_come_again_and_a_child_has_calls_of_its_own() -> None:
    own, other = [STARTED, ended("invalid", "first")], [STARTED, ended("invalid", "second")]
    assert [call.verdict and call.verdict.reason for call in made(*own, *other)] == ["first", "second"]
    below = lines_of(*own, ToolStarted("c", "inner", {}, origin=CHILD))
    assert [call.call.name for call in past_calls(below)] == ["pay"]
    assert [call.call.name for call in past_calls(below, "task_1")] == ["inner"]


def test_only_the_answer_of_a_person_counts_also_before_it_is_carried_out() -> None:
    asked = [STARTED, ApprovalRequired(REQUEST)]
    answers: dict[DecidedBy, bool | None] = {"user": False, "headless": None, "mode": None, "memory": None}
    failures = [
        by
        for by, answer in answers.items()
        if made(*asked, ApprovalDecided("c", "ask", False, by, None, None, "", cached=False))[0].answer != answer
    ]
    assert failures == []
    (parked,) = made(*asked, ApprovalResponse("r", ApprovalDecision(True)))
    assert (parked.answer, made(*asked)[0].answer) == (True, None)
