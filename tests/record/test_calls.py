"""The calls of a past session, with who made them and the verdict that each had."""

from forge_cli import ApprovalDecision, ApprovalRequest
from forge_cli.core.actions import ApprovalResponse
from forge_cli.core.approval import DecidedBy
from forge_cli.core.errors import Mark
from forge_cli.core.events import ApprovalDecided, ApprovalRequired, Event, ToolStarted
from forge_cli.events import ToolCall
from forge_cli.record.calls import PastCall, past_calls
from tests.support.lines import lines_of

CALL = ToolCall("c", "pay", {"to": "Ana"})
HERE = Mark("worker.yaml", 7, 3)
STARTED = ToolStarted("c", "pay", CALL.args)
REQUEST = ApprovalRequest(
    "r", "c", "pay", CALL.args, "w wants to pay", "it asks", "high", None, HERE
)


def made(*events: Event) -> list[PastCall]:
    return past_calls(lines_of(*events))


def test_only_an_answer_of_a_person_counts_also_before_the_call_runs() -> None:
    asked = [STARTED, ApprovalRequired(REQUEST)]
    answers: dict[DecidedBy, bool | None] = {
        "user": False,
        "headless": None,
        "mode": None,
        "memory": None,
    }
    failures = [
        by
        for by, answer in answers.items()
        if made(*asked, ApprovalDecided("c", "ask", False, by, None, None, "", cached=False))[
            0
        ].answer
        != answer
    ]
    assert failures == []
    (parked,) = made(*asked, ApprovalResponse("r", ApprovalDecision(True)))
    assert (parked.answer, made(*asked)[0].answer) == (True, None)
