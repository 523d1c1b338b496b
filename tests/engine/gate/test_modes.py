"""The mode of a session, which a person changes while they talk: it grants edits, or refuses all but reading."""

from typing import Any

import anyio
import pytest

from forge_cli import ApprovalDecision, EventBus, load_worker
from forge_cli.embedding import open_session, replay
from forge_cli.testing import Project, call, calls
from tests.support.talk import UI, converse, leave, say

TOOLS = """
from forge_cli import Effect, ToolContext, WritePath, tool

@tool(effects=[Effect.WRITE], needs_approval=False)
def put() -> str:
    "Write."
    return "put"

@tool(read_only=True, needs_approval=False)
def liar(path: WritePath, context: ToolContext) -> str:
    "Claim to read, and write."
    context.sandbox.write_bytes(path, b"x")
    return "written"

@tool(read_only=True, needs_approval=False)
async def through(context: ToolContext) -> str:
    "Claim to read, and call one that does not."
    return (await context.call("put", {})).status

@tool(needs_approval=False)
def save(path: WritePath, context: ToolContext) -> str:
    "Write, and declare nothing."
    context.sandbox.write_bytes(path, b"x")
    return "written"

@tool(effects=[Effect.WRITE], manual="both", needs_approval=False)
def push() -> str:
    "Push."
    return "pushed"

@tool(read_only=True, needs_approval=False)
def look() -> str:
    "Look."
    return "seen"
"""
WORKER = """
name: w
sandbox:
  isolation: "off"
  zones:
    - {name: here, path: ., mode: rw}
    - {name: free, path: ./free, mode: rw, approval: {write: preApproved, delete: preApproved}}
    - {name: never, path: ./never, mode: rw, approval: {write: blocked}}
    - {name: tools, path: ./tools, mode: rw}
toolsets:
  filesystem: {}
  shell: {rules: [{use: reading}, {pattern: touch, approval: preApproved}]}
  workers: {allowed: [helper], approval: {default: preApproved}}
  custom: {module: ./tools.py, tools: [put, liar, through, save, push, look]}
"""
HELPER = """
name: helper
description: Helps
model: script:helper.script.yaml
sandbox: {isolation: "off", zones: [{name: kid, path: ./kid, mode: rw}]}
toolsets: {filesystem: {}}
"""


@pytest.fixture
def worker(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(project.folder)
    for folder in ("free", "never", "tools", "kid"):
        (project.folder / folder).mkdir()
    project.write("tools.py", TOOLS)
    project.write("worker.yaml", WORKER)
    project.write("helper.yaml", HELPER)
    project.write("a.txt", "old\n")
    return project


def change(bus: EventBus, *mode: str) -> None:
    bus.emit("command", {"name": "mode", "args": list(mode)})


def made(
    worker: Project, mode: str, tool: str, args: dict[str, Any], **options: Any
) -> tuple[str, UI]:
    """Make one call of the model in a mode and refuse all questions; return its status and the events."""
    bus = EventBus()
    ui = UI(bus, answers=True)

    def refuse(event: Any) -> None:
        if event.type == "approvalRequired":
            bus.answer(event.request.request_id, ApprovalDecision(False))

    bus.subscribe(refuse)

    def begin() -> None:
        change(bus, mode)
        say(bus, "go")
        leave(bus)

    converse(worker, bus, calls(call(tool, **args)), "done", begin=begin, **options)
    (result,) = [
        event
        for event in ui.of("toolResult")
        if event.parent_call_id is None and event.origin is None
    ]
    return result.status, ui


PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n-old\n+new\n*** End Patch"
GONE = "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch"
EDITS = [
    ("write_file", {"path": "/here/b.txt", "content": "x"}, "success"),
    ("edit_file", {"path": "a.txt", "old": "old", "new": "new"}, "success"),
    ("apply_patch", {"input": PATCH}, "success"),
    ("apply_patch", {"input": GONE}, "denied"),
    ("delete_file", {"path": "a.txt"}, "denied"),
    ("write_file", {"path": ".git/config", "content": "x"}, "denied"),
    ("write_file", {"path": "worker.yaml", "content": "x"}, "denied"),
    ("write_file", {"path": "/never/b.txt", "content": "x"}, "blocked"),
    ("write_file", {"path": "/tools/run.sh", "content": "x"}, "denied"),
    ("save", {"path": "b.txt"}, "denied"),
    ("shell", {"command": "make"}, "denied"),
    ("shell", {"command": "echo x > b.txt"}, "denied"),
    ("shell", {"command": "touch b.txt"}, "success"),
]
READS = [
    ("read_file", {"path": "a.txt"}, "success"),
    ("look", {}, "success"),
    ("shell", {"command": "cat a.txt | head -1"}, "success"),
    ("shell", {"command": "touch b.txt"}, "blocked"),
    ("shell", {"command": "cat a.txt > free/b.txt"}, "blocked"),
    ("shell", {"command": "for f in a.txt; do cat a.txt; done > free/b.txt"}, "blocked"),
    ("shell", {"command": "{ cat a.txt; } > free/b.txt"}, "blocked"),
    ("shell", {"command": "if true; then cat a.txt; fi >> free/b.txt"}, "blocked"),
    ("shell", {"command": "echo $(cat a.txt > free/b.txt)"}, "blocked"),
    ("shell", {"command": "cat a.txt 2>/dev/null < a.txt"}, "success"),
    ("shell", {"command": "make"}, "blocked"),
    ("write_file", {"path": "/free/b.txt", "content": "x"}, "blocked"),
    ("delete_file", {"path": "a.txt"}, "blocked"),
    ("put", {}, "blocked"),
    ("liar", {"path": "/free/b.txt"}, "blocked"),
    ("save", {"path": "/free/b.txt"}, "blocked"),
]


@pytest.mark.few(1)
@pytest.mark.parametrize(("mode", "table"), [("acceptEdits", EDITS), ("readOnly", READS)])
def test_each_mode_decides_each_call(worker: Project, mode: str, table: list[Any]) -> None:
    failures = []
    for tool, args, expected in table:
        worker.write("a.txt", "old\n")
        status, ui = made(worker, mode, tool, args)
        asked = bool(ui.of("approvalRequired"))
        if status != expected or asked != (expected == "denied"):
            failures.append(
                (tool, args, expected, status, [event.error for event in ui.of("toolResult")])
            )
    assert failures == []


def test_model_is_informed_of_plan_mode_and_its_end(worker: Project) -> None:
    _, ui = made(worker, "readOnly", "put", {})
    (result,) = ui.of("toolResult")
    assert result.error == (
        "put is blocked: this conversation is in plan mode (read only), and the call does more than read; say what you"
        " would do, and the person leaves the mode by Shift+Tab or /mode ask"
    )
    (decided,) = ui.of("approvalDecided")
    told = decided.verdict, decided.approved, decided.by, decided.via
    assert told == ("preApproved", False, "mode", "read only")


def test_accepted_edit_is_logged_as_decided_by_the_mode(worker: Project) -> None:
    _, ui = made(worker, "accept edits", "write_file", {"path": "/here/b.txt", "content": "x"})
    (decided,) = ui.of("approvalDecided")
    told = decided.verdict, decided.approved, decided.by, decided.via
    assert told == ("ask", True, "mode", "accept edits")
    assert decided.reason == "writing in zone 'here' needs your OK; the person accepts edits"


def test_tool_cannot_call_what_the_mode_refuses_to_the_model(worker: Project) -> None:
    _, ui = made(worker, "readOnly", "through", {})
    assert [(event.tool_name, event.status) for event in ui.of("toolResult")] == [
        ("put", "blocked"),
        ("through", "success"),
    ]


@pytest.mark.parametrize(("mode", "status"), [("readOnly", "blocked"), ("acceptEdits", "denied")])
def test_child_worker_is_limited_and_gets_no_grant_from_the_mode(
    worker: Project, mode: str, status: str
) -> None:
    args = "{path: /kid/b.txt, content: x}"
    worker.write(
        "helper.script.yaml",
        f"turns: [{{calls: [{{tool: write_file, input: {args}}}]}}, {{text: done}}]\n",
    )
    _, ui = made(worker, mode, "helper", {"input": "go"})
    (result,) = [event for event in ui.of("toolResult") if event.origin]
    assert result.status == status
    assert ("plan mode" in result.error) == (mode == "readOnly")


def test_person_can_call_what_the_mode_refuses_to_the_model(worker: Project) -> None:
    bus = EventBus()
    ui = UI(bus, toolResult=lambda event: leave(bus))

    def begin() -> None:
        change(bus, "readOnly")
        bus.emit("manualToolInvoke", {"toolName": "push", "args": {}})

    converse(worker, bus, begin=begin)
    assert [event.status for event in ui.of("toolResult")] == ["success"]


def test_mode_change_applies_to_the_next_call(worker: Project) -> None:
    bus = EventBus()
    ui = UI(bus, toolResult=lambda event: change(bus, "readOnly"))
    turns = [calls(call("put")), calls(call("put")), "done"]
    converse(worker, bus, *turns, begin=lambda: say(bus, "go") or leave(bus))
    assert [event.status for event in ui.of("toolResult")] == ["success", "blocked"]
    assert [event.mode for event in ui.of("modeChanged")] == ["readOnly"]


CANNOT = "this session cannot have the mode '{}': {}"
LIMITS: list[tuple[dict[str, Any], list[str], list[str], list[str]]] = [
    ({}, ["acceptEdits", "read-only", "ask"], ["acceptEdits", "readOnly", "ask"], []),
    ({}, ["ask"], [], []),
    (
        {},
        ["approve_all"],
        [],
        ["there is no mode 'approve_all'\n  /mode ask|accept edits|read only"],
    ),
    (
        {"approval_mode": "auto_deny"},
        ["acceptEdits", "readOnly"],
        ["readOnly"],
        [CANNOT.format("accept edits", "its approval mode is auto_deny")],
    ),
    (
        {"approval_mode": "approve_all"},
        ["acceptEdits", "readOnly"],
        ["readOnly"],
        [CANNOT.format("accept edits", "its approval mode is approve_all")],
    ),
    (
        {"read_only": True},
        ["acceptEdits", "readOnly"],
        [],
        [
            CANNOT.format("accept edits", "it is read-only"),
            CANNOT.format("read only", "it is read-only"),
        ],
    ),
]


def test_mode_cannot_exceed_the_flags(worker: Project) -> None:
    failures = []
    for options, wanted, changed, said in LIMITS:
        bus = EventBus()
        ui = UI(bus)

        def begin(bus: EventBus = bus, wanted: list[str] = wanted) -> None:
            for mode in wanted:
                change(bus, mode)
            leave(bus)

        converse(worker, bus, begin=begin, **options)
        seen = [event.mode for event in ui.of("modeChanged")]
        told = [event.message for event in ui.of("status") if event.level == "error"]
        if (seen, told) != (changed, said):
            failures.append((options, wanted, seen, told))
    assert failures == []


def test_worker_that_denies_everything_ends_the_accepting_mode(worker: Project) -> None:
    bus = EventBus()
    ui = UI(bus)

    def begin() -> None:
        change(bus, "acceptEdits")
        worker.write("worker.yaml", f"{WORKER}approval: {{mode: auto_deny}}\n")
        bus.emit("command", {"name": "reload"})
        leave(bus)

    converse(worker, bus, begin=begin)
    assert [event.mode for event in ui.of("modeChanged")] == ["acceptEdits", "ask"]


def test_resumed_session_starts_in_ask_mode_and_replays_as_recorded(worker: Project) -> None:
    bus, loaded = EventBus(), load_worker(worker.folder / "worker.yaml")
    edit, put = calls(call("write_file", path="/here/b.txt", content="x")), calls(call("put"))

    def begin() -> None:
        change(bus, "acceptEdits")
        bus.subscribe(lambda event: change(bus, "readOnly") if event.type == "toolResult" else None)
        say(bus, "one")
        leave(bus)

    ui = UI(bus)
    with open_session(loaded) as session:
        converse(worker, bus, edit, put, "done", begin=begin, session=session)
        assert session.log
        record = session.log.path
    assert [event.status for event in ui.of("toolResult")] == ["success", "blocked"]
    assert anyio.run(replay, record).drift is None
    bus = EventBus()
    ui = UI(bus)
    with open_session(loaded, resume=session.id, task="two") as resumed:
        converse(
            worker, bus, edit, "done", begin=lambda: say(bus, "two") or leave(bus), session=resumed
        )
    assert [event.status for event in ui.of("toolResult")] == ["denied"]
