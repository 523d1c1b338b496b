"""What a session waits for: requests with the workers that ask, and the answers that came since."""

from forge_cli import ApprovalDecision, ApprovalRequest
from forge_cli.core.events import (
    ApprovalDecided,
    ApprovalRequired,
    ApprovalResponse,
    Event,
    MessageEvent,
    Origin,
    WorkerUpdate,
)
from forge_cli.events import Message, ToolCall
from forge_cli.record.pending import Waiting, requests_of

from ..lines import CHILD, lines_of

GRANDCHILD = Origin("grandchild", 2, "task_2", ("w", "child", "grandchild"))
CALL = ToolCall("c", "pay", {"to": "Ana"})
NO = ApprovalDecision(False, note="no money")


def request(id: str, call: ToolCall = CALL) -> ApprovalRequest:
    return ApprovalRequest(id, call.id, call.name, call.args, "w wants to pay", "it asks", "high", None, None)


def asked(*calls: ToolCall, origin: Origin | None = None) -> list[Event]:
    said: list[Event] = [MessageEvent(Message("assistant", "", calls), origin=origin)]
    return said + [ApprovalRequired(request(f"approval_{call.id}", call), origin=origin) for call in calls]


def waiting(*events: Event) -> list[Waiting]:
    lines = lines_of(*events)
    return requests_of(lines)


def test_requests_wait_in_their_order_until_they_are_decided() -> None:
    other = ToolCall("d", "pay", {"to": "Bob"})
    events = asked(CALL, other)
    assert [(each.id, each.request.args, each.path, each.answer) for each in waiting(*events)] == [
        ("approval_c", {"to": "Ana"}, ("w",), None),
        ("approval_d", {"to": "Bob"}, ("w",), None),
    ]
    decided = ApprovalDecided("c", "ask", False, "user", None, None, "no", cached=False, request_id="approval_c")
    assert [each.id for each in waiting(*events, decided)] == ["approval_d"]


def test_an_answer_goes_with_its_request_and_the_last_one_counts() -> None:
    answers = [ApprovalResponse("approval_c", ApprovalDecision(True)), ApprovalResponse("approval_c", NO)]
    (found,) = waiting(*asked(CALL), *answers, ApprovalResponse("approval_of_nobody", ApprovalDecision(True)))
    assert found.answer == NO


def test_a_request_of_a_child_says_who_asks() -> None:
    (found,) = waiting(
        MessageEvent(Message("assistant", "", (ToolCall("x", "child", {}),))),
        WorkerUpdate("started", "w", "x", origin=CHILD),
        MessageEvent(Message("assistant", "", (ToolCall("y", "grandchild", {}),)), origin=CHILD),
        WorkerUpdate("started", "child", "y", within="task_1", origin=GRANDCHILD),
        *asked(CALL, origin=GRANDCHILD),
        ApprovalResponse("approval_c", NO),
    )
    assert (found.id, found.path, found.answer) == ("approval_c", ("w", "child", "grandchild"), NO)


def test_a_session_that_came_to_its_end_waits_for_nothing() -> None:
    assert waiting() == []
    assert waiting(*asked(CALL), MessageEvent(Message("user", "never mind"))) == []
