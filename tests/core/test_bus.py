"""The bus: everybody hears everything in one order, questions find their answers, and asking never hangs.

Covers forge_cli.core.short_payloads, forge_cli.ui.runtime_ui.
"""

import json
import re
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from forge_cli.core.actions import (
    ApprovalResponse,
    CommandEvent,
    Interrupt,
    ManualToolInvoke,
    UserInput,
)
from forge_cli.core.approval import ApprovalDecision, ApprovalRequest
from forge_cli.core.bus import EventBus
from forge_cli.core.events import (
    ApprovalRequired,
    Event,
    InputPrompt,
    MessageEvent,
    StatusEvent,
    Streaming,
    ToolResult,
    ToolStarted,
)
from forge_cli.core.phrases import NO_ONE_TO_ANSWER
from forge_cli.core.results import Text
from forge_cli.events import Message
from forge_cli.testing import Project
from forge_cli.ui.runtime_ui import RuntimeUI
from tests.support.approval import new_request

pytestmark = pytest.mark.anyio

DENIED = ApprovalDecision(False, note=NO_ONE_TO_ANSWER, by="headless")


@pytest.fixture
def bus() -> EventBus:
    return EventBus()


def request(number: int = 1) -> ApprovalRequest:
    return new_request(request_id=f"r{number}")


def answering(bus: EventBus, answer: ApprovalDecision) -> Callable[[Event], None]:
    """A handler that answers from inside, the moment it hears the question."""

    def hear(event: Event) -> None:
        if isinstance(event, ApprovalRequired):
            bus.answer(event.request.request_id, answer)

    return hear


async def test_subscriber_receives_the_events_that_it_asked_for(bus: EventBus) -> None:
    """Also when others come and go after one of that type was heard."""
    some: list[Event] = []
    late: list[Event] = []
    first, second = StatusEvent("info", "a"), StatusEvent("info", "b")
    leave = bus.subscribe(some.append, only=(StatusEvent, UserInput))
    bus.emit(first)
    stop = bus.subscribe(late.append, only=(StatusEvent,))
    bus.emit(UserInput("r1", "x"))
    bus.emit(MessageEvent(Message("user", "x")))
    bus.emit(second)
    leave()
    bus.emit(first)
    stop()
    bus.emit(second)
    assert some == [first, UserInput("r1", "x"), second]
    assert late == [second, first]


async def test_subscribers_receive_every_event_until_they_unsubscribe(bus: EventBus) -> None:
    one: list[Event] = []
    other: list[Event] = []
    leave = bus.subscribe(one.append)
    bus.subscribe(other.append)
    bus.emit(StatusEvent("info", "first"))
    leave()
    leave()
    bus.emit(StatusEvent("info", "second"))
    assert one == [StatusEvent("info", "first")]
    assert other == [StatusEvent("info", "first"), StatusEvent("info", "second")]


async def test_request_without_listeners_is_denied_at_once(bus: EventBus) -> None:
    seen: list[Event] = []
    bus.subscribe(seen.append)
    with anyio.fail_after(60):
        assert await bus.ask(request()) == DENIED
        assert await bus.ask_input("name?") is None
    assert [event.type for event in seen] == ["approvalRequired", "inputPrompt"]
    assert not bus.attended


async def test_answer_on_the_bus_counts_as_the_user(bus: EventBus) -> None:
    bus.subscribe(answering(bus, ApprovalDecision(False, by="rule")), answers=True)
    with anyio.fail_after(60):
        assert await bus.ask(request()) == ApprovalDecision(False, by="user")


async def test_answer_from_a_handler_reaches_everybody_after_its_question(
    bus: EventBus,
) -> None:
    late: list[str] = []
    bus.subscribe(answering(bus, ApprovalDecision(True)), answers=True)
    bus.subscribe(lambda event: late.append(event.type))
    with anyio.fail_after(60):
        await bus.ask(request())
    assert late == ["approvalRequired", "approvalResponse"]


async def test_first_answer_counts(bus: EventBus) -> None:
    def twice(event: Event) -> None:
        if isinstance(event, ApprovalRequired):
            bus.answer("r1", ApprovalDecision(False))
            bus.answer("r1", ApprovalDecision(True))

    bus.subscribe(twice, answers=True)
    with anyio.fail_after(60):
        assert await bus.ask(request()) == ApprovalDecision(False)


async def test_question_ignores_answers_to_other_questions(bus: EventBus) -> None:
    bus.subscribe(lambda event: None, answers=True)
    decided: dict[int, ApprovalDecision] = {}

    async def ask(number: int) -> None:
        decided[number] = await bus.ask(request(number))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, 1)
            tasks.start_soon(ask, 2)
            await anyio.wait_all_tasks_blocked()
            bus.answer("unknown", ApprovalDecision(True))
            bus.emit(UserInput("r1", "yes"))
            bus.answer("r2", ApprovalDecision(True))
            await anyio.wait_all_tasks_blocked()
            assert decided == {2: ApprovalDecision(True)}
            bus.answer("r1", ApprovalDecision(False))
    assert decided == {1: ApprovalDecision(False), 2: ApprovalDecision(True)}


async def test_question_is_denied_when_the_last_listener_leaves(
    bus: EventBus,
) -> None:
    leave_first = bus.subscribe(lambda event: None, answers=True)
    leave_last = bus.subscribe(lambda event: None, answers=True)
    decided: list[Any] = []

    async def ask() -> None:
        decided.append(await bus.ask(request()))
        decided.append(await bus.ask_input("name?"))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            leave_first()
            await anyio.wait_all_tasks_blocked()
            assert decided == []
            leave_last()
    assert decided == [DENIED, None]


async def test_abandoned_question_takes_no_late_answer(bus: EventBus) -> None:
    bus.subscribe(lambda event: None, answers=True)
    with anyio.move_on_after(0):
        await bus.ask(request())
    bus.answer("r1", ApprovalDecision(True))
    with anyio.move_on_after(0) as again:
        await bus.ask(request())
    assert again.cancelled_caught


async def test_bus_works_with_names_and_payloads(bus: EventBus) -> None:
    seen: list[Event] = []
    bus.subscribe(seen.append)
    ui = RuntimeUI(bus)
    ui.show_message({"role": "assistant", "content": "Hello!"})
    ui.show_status({"type": "info", "message": "Processing..."})
    ui.show_status({"level": "warning", "message": "slow"})
    ui.show_status({"message": "plain"})
    ui.show_tool_started("t1", "read_file", {"path": "/src"})
    assert seen == [
        MessageEvent(Message("assistant", "Hello!")),
        StatusEvent("info", "Processing..."),
        StatusEvent("warning", "slow"),
        StatusEvent("info", "plain"),
        ToolStarted("t1", "read_file", {"path": "/src"}),
    ]


async def test_program_asks_and_a_subscriber_answers(bus: EventBus) -> None:
    seen: list[Event] = []

    def answer(event: Event) -> None:
        seen.append(event)
        if isinstance(event, ApprovalRequired):
            bus.emit(ApprovalResponse(event.request.request_id, ApprovalDecision(True)))
        if isinstance(event, InputPrompt):
            bus.emit(UserInput(event.request_id, "user message"))

    bus.subscribe(answer, answers=True)
    ui = RuntimeUI(bus)
    with anyio.fail_after(60):
        assert await ui.request_approval(
            {"description": "Write it", "risk": "medium", "tool_name": "write_file"}
        )
        assert await ui.get_user_input("Enter your message:") == "user message"
    asked = seen[0]
    assert isinstance(asked, ApprovalRequired)
    assert asked.request == ApprovalRequest(
        request_id=asked.request.request_id,
        tool_call_id=asked.request.request_id,
        tool_name="write_file",
        args={},
        description="Write it",
        reason="the program asks",
        risk="medium",
        rule=None,
        where=None,
    )


async def test_event_can_be_emitted_by_name() -> None:
    bus, seen = EventBus(), list[Event]()
    bus.subscribe(seen.append)
    bus.emit("status", {"level": "info", "message": "hi"})
    bus.emit("command", {"name": "clear"})
    assert seen == [StatusEvent("info", "hi"), CommandEvent("clear")]


@pytest.mark.parametrize(
    ("name", "payload", "event"),
    [
        ("interrupt", {}, Interrupt("interrupted")),
        ("interrupt", {"reason": "enough"}, Interrupt("enough")),
        ("manualToolInvoke", {"toolName": "deploy"}, ManualToolInvoke("deploy", {})),
        ("streaming", {"requestId": "r1", "delta": "x"}, Streaming("r1", "x", done=False)),
        (
            "streaming",
            {"requestId": "r1", "delta": "", "done": True},
            Streaming("r1", "", done=True),
        ),
        ("status", {"type": "info", "message": "hi"}, StatusEvent("info", "hi")),
        ("toolStarted", {"toolCallId": "t1", "toolName": "act"}, ToolStarted("t1", "act", {})),
        (
            "toolResult",
            {"toolCallId": "t1", "toolName": "act", "status": "error", "error": "no"},
            ToolResult("t1", "act", "error", Text("no"), 0, "no"),
        ),
        (
            "toolResult",
            {"toolCallId": "t1", "toolName": "act", "status": "interrupted"},
            ToolResult("t1", "act", "interrupted", Text("interrupted"), 0),
        ),
        (
            "toolResult",
            {
                "toolCallId": "t1",
                "toolName": "act",
                "status": "success",
                "value": {"kind": "text", "content": "x"},
            },
            ToolResult("t1", "act", "success", Text("x"), 0),
        ),
        (
            "approvalRequired",
            {"requestId": "a1", "type": "tool_call"},
            ApprovalRequired(ApprovalRequest("a1", "a1", "", {}, "", "", "medium", None, None)),
        ),
        (
            "approvalRequired",
            {"requestId": "a1", "toolCallId": "t1", "toolName": "act", "risk": "high"},
            ApprovalRequired(ApprovalRequest("a1", "t1", "act", {}, "", "", "high", None, None)),
        ),
    ],
)
async def test_payload_may_omit_defaults(name: str, payload: dict[str, Any], event: Event) -> None:
    bus, seen = EventBus(), list[Event]()
    bus.subscribe(seen.append)
    bus.emit(name, payload)
    assert seen == [event]


@pytest.mark.parametrize(
    ("name", "payload", "sentence"),
    [
        ("statsu", {}, "unknown event 'statsu'; did you mean 'status'?"),
        ("streaming", {"requestId": "r1"}, "invalid payload for the event 'streaming': "),
        (
            "status",
            {"type": "loud", "message": "x"},
            "invalid payload for the event 'status': ",
        ),
        ("manualToolInvoke", {}, "invalid payload for the event 'manualToolInvoke': "),
        ("approvalRequired", {}, "invalid payload for the event 'approvalRequired': "),
        (
            "toolResult",
            {"toolCallId": "t1", "toolName": "act"},
            "invalid payload for the event 'toolResult': ",
        ),
        ("status", {"level": "info"}, "invalid payload for the event 'status': "),
        (
            "status",
            {"level": "info", "message": "x", "mesage": "y"},
            "invalid payload for the event 'status': unknown key 'mesage'; did you mean 'message'?",
        ),
        (
            "approvalResponse",
            {"requestId": "a", "approve": True},
            "unknown key 'approve'; did you mean 'approved'?",
        ),
        (
            "approvalResponse",
            {"requestId": "a", "approved": True, "always": True},
            "unknown key 'always'; there are: requestId, approved, remember, note, by, grant, via",
        ),
        (
            "manualToolInvoke",
            {"tool_name": "deploy", "args": {"any": "thing"}},
            "unknown key 'tool_name'; did you mean 'toolName'?",
        ),
        (
            "message",
            {"message": {"role": "user", "contents": "x"}},
            "message: unknown key 'contents'; did you mean",
        ),
        ("message", {"role": "user", "content": "x"}, "unknown key 'role'; there are: message"),
        (
            "toolStarted",
            {"toolCallId": "t", "toolName": "n", "arguments": {}},
            "unknown key 'arguments'; ",
        ),
        ("interrupt", {"workerId": "w"}, "unknown key 'workerId'; "),
        ("userInput", {"requestId": "i", "content": "x", "worker": "w"}, "unknown key 'worker'; "),
        ("interrupt", {"\x1b": "w"}, "unknown key '\\x1b'; "),
    ],
)
async def test_invalid_event_is_refused(name: str, payload: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        EventBus().emit(name, payload)


async def test_every_event_can_be_emitted_from_its_payload(
    project: Project,
) -> None:
    """A key that an event writes is a key that it may be given."""
    project.write(
        "script.yaml",
        "turns: [{text: Words., calls: [{tool: list_files, input: {path: .}}]}, {text: Done.}]",
    )
    project.write("worker.yaml", "name: w\nmodel: script:script.yaml\ntoolsets: {filesystem: {}}\n")
    done = project.forge("run", "worker.yaml", "go", "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    bus, seen = EventBus(), list[Event]()
    bus.subscribe(seen.append)
    for line in lines:
        bus.emit(line["type"], line)
        bus.emit(line["type"], seen[-1].payload())
    assert [event.type for event in seen[::2]] == [line["type"] for line in lines]
    assert seen[1::2] == [replace(event, origin=None) for event in seen[::2]]
    assert len({line["type"] for line in lines}) > 6
