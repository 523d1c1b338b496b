"""The source of an answer: memory, the mode, a callback, a subscriber of the bus, or none."""

from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from forge_cli import ApprovalDecision, ApprovalRequest, EventBus
from forge_cli.core.approval import THIS_CALL
from forge_cli.embedding import ApprovalController
from tests.support.approval import new_request

pytestmark = pytest.mark.anyio

REQUEST = new_request()


def callback(*answers: ApprovalDecision) -> Any:
    waiting = list(answers)

    async def answer(request: ApprovalRequest) -> ApprovalDecision:
        return waiting.pop(0)

    return answer


async def test_unknown_mode_is_rejected() -> None:
    with pytest.raises(ValueError, match="yolo"):
        ApprovalController("yolo")


async def test_callback_takes_precedence_over_the_bus() -> None:
    bus = EventBus()
    bus.subscribe(lambda event: None, answers=True)
    controller = ApprovalController("interactive", callback(ApprovalDecision(True)), bus=bus)
    with anyio.fail_after(60):
        assert await controller.request_approval(REQUEST) == ApprovalDecision(True)


async def test_callback_cannot_impersonate_another_decider() -> None:
    controller = ApprovalController("interactive", callback(ApprovalDecision(True, by="rule")))
    assert await controller.request_approval(REQUEST) == ApprovalDecision(True, by="user")


async def test_prompts_of_parent_and_children_come_one_at_a_time() -> None:
    told: list[str] = []

    async def slow(request: ApprovalRequest) -> ApprovalDecision:
        told.append("asked")
        await anyio.wait_all_tasks_blocked()
        told.append("answered")
        return ApprovalDecision(True)

    root = ApprovalController("interactive", slow)
    children = [ApprovalController("interactive", slow, parent=root) for _ in range(2)]
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for each in (root, *children):
                tasks.start_soon(each.request_approval, REQUEST)
    assert told == ["asked", "answered"] * 3


SESSION = ApprovalDecision(True, remember="session")


@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        (True, ApprovalDecision(True)),
        (False, ApprovalDecision(False)),
        ({"approved": True}, ApprovalDecision(True)),
        ({"approved": True, "remember": "session"}, replace(SESSION, grant=THIS_CALL)),
        ({"approved": False, "note": "later"}, ApprovalDecision(False, note="later")),
        (None, None),
        (1, None),
        ("yes", None),
        ({}, None),
        ({"approved": "yes"}, None),
        ({"approved": 1}, None),
        ({"approved": True, "remeber": "session"}, None),
    ],
)
def test_callback_may_return_a_decision_a_bool_or_a_dict(
    answer: Any, decision: ApprovalDecision | None
) -> None:
    controller = ApprovalController(approval_callback=callback(answer))
    found = anyio.run(controller.request_approval, REQUEST)
    if decision is None:
        assert (found.approved, "is not a decision" in str(found.note)) == (False, True)
    else:
        assert found == decision


async def test_controller_alone_identifies_a_request_by_tool_and_args() -> None:
    no = ApprovalDecision(False)
    controller = ApprovalController(approval_callback=callback(SESSION, no, no))
    request = replace(REQUEST, fingerprint=None)
    assert (await controller.request_approval(request)).by == "user"
    assert (await controller.request_approval(replace(request, request_id="r2"))).by == "memory"
    assert not await controller.request_approval(replace(request, args={"other": 1}))
    assert not await controller.request_approval(replace(request, tool_name="other"))
