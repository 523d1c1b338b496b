"""WorkerRuntime: which model, which approval mode, one conversation, and a session that begins and ends."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from forge_cli import (
    ApprovalDecision,
    EventBus,
    ForgeError,
    ModelRequest,
    TextDelta,
    TurnEnd,
    Usage,
    WorkerResult,
    WorkerRuntime,
    load_worker,
)
from forge_cli.core.errors import ExitCode, UsageError, WorkerError
from forge_cli.core.events import (
    ApprovalRequired,
    Event,
    ManualToolInvoke,
    ManualToolsAvailable,
    SessionEnd,
    SessionStart,
    StatusEvent,
    ToolStarted,
)
from forge_cli.core.messages import Delta
from forge_cli.core.results import Json
from forge_cli.engine.gate.judge import Caller
from forge_cli.testing import Project, Seen, call, calls, scripted_model

pytestmark = pytest.mark.anyio

TOOLS = """
from forge_cli import Approval, tool

def add(a: int, b: int = 1) -> int:
    "Add two numbers."
    return a + b

@tool(needs_approval=False, manual="both", label="Push it", category="Git")
def push(branch: str = "main") -> str:
    "Push a branch."
    return branch

@tool(manual="manual")
def deploy() -> str:
    "Deploy."
    return "deployed"
"""
WORKER = "name: w\ntoolsets: {custom: {module: ./tools.py, tools: [add, push, deploy]}}\n"


@pytest.fixture
def worker(project: Project) -> Project:
    project.write("tools.py", TOOLS)
    project.write("worker.yaml", WORKER)
    return project


def runtime_of(project: Project, *turns: Any, **options: Any) -> WorkerRuntime:
    given: dict[str, Any] = {"workspace": project.folder, "model": scripted_model(*turns), **options}
    return WorkerRuntime(worker=load_worker(project.folder / "worker.yaml"), **given)


def says(word: str) -> str:
    return f"turns: [{{text: {word}}}]\n"


# --- which model


@pytest.mark.parametrize(
    ("named", "spoken"),
    [
        ({"argument", "worker", "environment", "user"}, "argument"),
        ({"worker", "environment", "user"}, "worker"),
        ({"environment", "user"}, "environment"),
        ({"user"}, "user"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_model_that_is_named_first(
    project: Project, named: set[str], spoken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for who in named:
        project.write(f"{who}.yaml", says(who))
    project.write("w.yaml", "name: w\n" + ("model: script:worker.yaml\n" if "worker" in named else ""))
    if "environment" in named:
        monkeypatch.setenv("FORGE_MODEL", "script:environment.yaml")
    if "user" in named:
        project.home.mkdir()
        (project.home / "config.yaml").write_text("model: script:user.yaml\n")
    options = {"model": "script:argument.yaml"} if "argument" in named else {}
    seen = project.run(worker="w.yaml", **options)
    assert (seen.result.response, seen.result.model) == (spoken, f"script:{spoken}.yaml")
    assert seen.of(SessionStart) == [SessionStart(f"script:{spoken}.yaml", str(project.folder), "interactive")]


def test_a_script_is_looked_for_beside_the_worker_or_in_the_working_directory(project: Project, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "demo.yaml").write_text(says("elsewhere"))
    project.write("demo.yaml", says("beside"))
    project.write("worker.yaml", "name: w\nmodel: script:demo.yaml\n")
    beside = project.run(workspace=elsewhere)
    assert beside.result.response == "beside"
    there = project.run(workspace=elsewhere, model="script:demo.yaml")
    assert there.result.response == "elsewhere"


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        (
            None,
            "no model is named for the worker 'w'\n"
            "  name one with -m PROVIDER:MODEL, `model:` in the worker, or FORGE_MODEL; script:FILE needs no key",
        ),
        ("haiku", "'haiku' is no model\n  write PROVIDER:MODEL, such as script:demo.yaml"),
        ("script:", "'script:' is no model\n  write PROVIDER:MODEL, such as script:demo.yaml"),
        ("scirpt:demo.yaml", "there is no model provider 'scirpt'\n  did you mean 'script'?"),
    ],
)
def test_a_model_that_cannot_be(project: Project, model: str | None, problem: str) -> None:
    project.write("worker.yaml", "name: w\n")
    with pytest.raises(WorkerError) as caught:
        project.run(model=model)
    assert str(caught.value) == problem
    assert caught.value.exit_code is ExitCode.INVALID


def test_a_provider_like_no_other_lists_those_there_are(project: Project) -> None:
    project.write("worker.yaml", "name: w\n")
    with pytest.raises(WorkerError) as caught:
        project.run(model="zzz:x")
    assert str(caught.value).startswith("there is no model provider 'zzz'\n  providers are: ")
    assert "script" in str(caught.value.hint)


# --- which approval mode


@pytest.mark.parametrize(
    ("given", "in_the_worker", "of_the_user", "mode"),
    [
        (None, None, None, "interactive"),
        (None, None, "approve_all", "approve_all"),
        (None, "interactive", "approve_all", "interactive"),
        (None, "auto_deny", "approve_all", "auto_deny"),
        (None, "auto_deny", "interactive", "auto_deny"),
        (None, "interactive", "auto_deny", "auto_deny"),
        (None, "auto_deny", None, "auto_deny"),
        (None, None, "auto_deny", "auto_deny"),
        ("approve_all", "auto_deny", "auto_deny", "approve_all"),
        ("interactive", "auto_deny", "approve_all", "interactive"),
        ("auto_deny", None, "approve_all", "auto_deny"),
    ],
)
def test_a_flag_wins_otherwise_the_strictest(
    project: Project, given: str | None, in_the_worker: str | None, of_the_user: str | None, mode: str
) -> None:
    said = f"approval: {{mode: {in_the_worker}}}\n" if in_the_worker else ""
    project.write("worker.yaml", f"name: w\n{said}")
    if of_the_user:
        project.home.mkdir()
        (project.home / "config.yaml").write_text(f"approval: {{mode: {of_the_user}}}\n")
    seen = project.run("hi", approval_mode=given)
    assert [event.approval_mode for event in seen.of(SessionStart)] == [mode]


def test_a_worker_cannot_approve_its_own_calls(project: Project) -> None:
    file = project.write("worker.yaml", "name: w\napproval:\n  mode: approve_all\n")
    with pytest.raises(WorkerError) as caught:
        project.run("hi", approval_mode="approve_all")
    assert str(caught.value) == (
        f"{file}:2:1: approval: a worker cannot approve its own calls; use -y, or approval.mode in your own config.yaml"
    )


# --- a session


async def test_the_conversation_is_kept_from_one_task_to_the_next(worker: Project) -> None:
    class Listening:
        name = "listening:test"
        context_window: int | None = None
        heard: list[list[str]] = []  # noqa: RUF012

        async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
            self.heard.append([message.text for message in request.messages])
            yield TextDelta(f"answer {len(self.heard)}")
            yield TurnEnd("end", Usage(10, 1))

        async def aclose(self) -> None: ...

    model = Listening()
    with anyio.fail_after(10):
        async with runtime_of(worker, model=model) as runtime:
            first = await runtime.run("one")
            second = await runtime.run("two")
    assert model.heard == [["one"], ["one", "answer 1", "two"]]
    assert (first.response, second.response) == ("answer 1", "answer 2")
    assert (first.usage, second.usage, second.turns) == (Usage(10, 1), Usage(10, 1), 1)
    assert first.session_id == second.session_id


async def test_the_session_ends_once_and_last(worker: Project) -> None:
    seen = Seen()
    runtime = runtime_of(worker, "hi", on_event=seen.events.append, sinks=(seen.lines.append,))
    await runtime.initialize()
    result = await runtime.run("go")
    await runtime.aclose()
    await runtime.aclose()
    assert [event for event in seen.events if isinstance(event, SessionEnd)] == [SessionEnd(result.wire())]
    assert seen.types[0] == "sessionStart"
    assert seen.lines[-1]["type"] == "sessionEnd"
    assert seen.lines[-1]["result"] == result.wire()


async def test_a_child_never_ends_the_session(worker: Project) -> None:
    seen = Seen()
    async with runtime_of(worker, "hi", depth=1, on_event=seen.events.append, sinks=(seen.lines.append,)) as runtime:
        assert (runtime.depth, runtime.is_root) == (1, False)
        await runtime.run("go")
    assert seen.of(SessionEnd) == []
    assert {line["depth"] for line in seen.lines} == {1}


async def test_the_root_is_at_depth_0(worker: Project) -> None:
    async with runtime_of(worker, "hi") as runtime:
        assert (runtime.depth, runtime.is_root) == (0, True)


async def test_the_tools_of_a_runtime(worker: Project) -> None:
    async with runtime_of(worker, "hi") as runtime:
        assert [tool.name for tool in runtime.tools] == ["add", "push", "deploy"]


@pytest.mark.parametrize("toolset", ["custom: {module: ./tools.py, tools: [add]}", "filesystem: {}"])
async def test_a_tool_is_made_once_and_not_in_every_turn(worker: Project, toolset: str) -> None:
    worker.write("worker.yaml", f"name: w\ntoolsets: {{{toolset}}}\n")
    async with runtime_of(worker, "one", "two") as runtime:
        before = runtime.tools
        await runtime.run("go")
        await runtime.run("go on")
        assert [id(tool) for tool in runtime.tools] == [id(tool) for tool in before]


async def test_a_runtime_that_is_not_open_says_how_to_open_it(worker: Project) -> None:
    runtime = runtime_of(worker, "hi")
    with pytest.raises(UsageError) as caught:
        await runtime.run("go")
    sentence = "the runtime is not open\n  use `async with WorkerRuntime(...)`, or await initialize()"
    assert str(caught.value) == sentence
    async with runtime:
        pass
    with pytest.raises(UsageError):
        _ = runtime.tools


@pytest.mark.parametrize("task", ["", "  \n"])
async def test_an_empty_task_is_refused(worker: Project, task: str) -> None:
    async with runtime_of(worker, "hi") as runtime:
        with pytest.raises(UsageError) as caught:
            await runtime.run(task)
    assert caught.value.message == "the task is empty"


async def test_what_comes_up_while_opening_is_told_after_the_start(project: Project) -> None:
    project.write("worker.yaml", "name: w\n")
    project.write("demo.yaml", says("hi"))
    seen = Seen()
    async with runtime_of(project, model="script:demo.yaml", on_event=seen.events.append):
        pass
    assert seen.events == [
        SessionStart("script:demo.yaml", str(project.folder), "interactive"),
        StatusEvent("info", "the model is scripted: its words come from demo.yaml, and nothing leaves this machine"),
    ]


async def test_the_tools_for_people_are_announced(worker: Project) -> None:
    seen = Seen()
    async with runtime_of(worker, "hi", on_event=seen.events.append):
        pass
    assert seen.of(ManualToolsAvailable) == [
        ManualToolsAvailable(
            (
                {"name": "push", "label": "Push it", "category": "Git", "description": "Push a branch."},
                {"name": "deploy", "label": "deploy", "category": None, "description": "Deploy."},
            )
        )
    ]


async def test_a_person_calls_a_tool_through_the_same_gate(worker: Project) -> None:
    seen = Seen()
    async with runtime_of(worker, "hi", on_event=seen.events.append) as runtime:
        pushed = await runtime.invoke("push", {"branch": "dev"})
        deployed = await runtime.invoke("deploy", {})
        refused = await runtime.invoke("add", {"a": 1})
        operated = await runtime.invoke("add", {"a": 1}, Caller.OPERATOR)
    assert [outcome.status for outcome in (pushed, deployed, refused, operated)] == [
        "success",
        "denied",
        "blocked",
        "denied",
    ]
    assert [event.tool_name for event in seen.of(ManualToolInvoke)] == ["push", "deploy", "add"]
    assert seen.of(ManualToolInvoke)[0] == ManualToolInvoke("push", {"branch": "dev"})
    assert len(seen.of(ToolStarted)) == 4


async def test_what_a_person_calls_is_not_told_to_the_model(worker: Project) -> None:
    async with runtime_of(worker, calls(call("add", a=1)), "{result}", approval_mode="approve_all") as runtime:
        await runtime.invoke("push", {})
        result = await runtime.run("go")
    assert (result.response, result.tool_calls) == ("2", 1)


async def test_somebody_on_the_bus_answers(worker: Project) -> None:
    bus = EventBus()
    asked: list[ApprovalRequired] = []

    def answer(event: Event) -> None:
        if isinstance(event, ApprovalRequired):
            asked.append(event)
            bus.answer(event.request.request_id, ApprovalDecision(True))

    bus.subscribe(answer, answers=True)
    seen = Seen()
    options = {"bus": bus, "sinks": (seen.lines.append,), "on_event": seen.events.append}
    with anyio.fail_after(10):
        async with runtime_of(worker, calls(call("add", a=1)), "{result}", **options) as runtime:
            await runtime.run("go")
    assert seen.outcomes[0].value == Json(2)
    assert len(asked) == 1
    order = [kind for kind in seen.types if kind.startswith(("tool", "approval"))]
    assert order == ["toolStarted", "approvalRequired", "approvalResponse", "approvalDecided", "toolResult"]


async def test_a_bus_outlives_the_runtime_that_used_it(worker: Project) -> None:
    bus, events = EventBus(), list[Event]()
    async with runtime_of(worker, "hi", bus=bus, on_event=events.append):
        pass
    count = len(events)
    bus.emit(StatusEvent("info", "after"))
    assert len(events) == count


async def test_what_is_wrong_with_a_worker_is_raised_before_anything_happens(worker: Project) -> None:
    worker.write("worker.yaml", "name: w\ntoolsets: {filesystm: {}}\n")
    events: list[Event] = []
    bus = EventBus()
    runtime = runtime_of(worker, "hi", bus=bus, on_event=events.append)
    with pytest.raises(ForgeError):
        await runtime.initialize()
    bus.emit(StatusEvent("info", "after"))
    assert events == []


def test_the_object_that_json_output_prints() -> None:
    result = WorkerResult(
        status="completed",
        exit_code=ExitCode.DONE,
        response="Done.",
        session_id="s1",
        worker="w",
        model="script:demo.yaml",
        turns=2,
        tool_calls=3,
        denials=({"tool": "write", "input": {}, "reason": "no", "by": "user"},),
        usage=Usage(10, 5, 2, 1),
        duration_ms=7,
    )
    wire = {
        "status": "completed",
        "exit_code": 0,
        "response": "Done.",
        "output": None,
        "session_id": "s1",
        "worker": "w",
        "model": "script:demo.yaml",
        "turns": 2,
        "tool_calls": 3,
        "denials": [{"tool": "write", "input": {}, "reason": "no", "by": "user"}],
        "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_tokens": 2, "cache_write_tokens": 1},
        "cost": None,
        "duration_ms": 7,
    }
    assert result.wire() == wire


@pytest.mark.parametrize(
    ("status", "success"),
    [("completed", True), ("interrupted", True), ("failed", False), ("denied", False), ("limit", False)],
)
def test_which_endings_are_a_success(status: Any, success: bool) -> None:
    result = WorkerResult(
        status=status, exit_code=ExitCode.DONE, response="", session_id="", worker="", model="", error="why"
    )
    assert result.success is success
    assert result.wire()["error"] == "why"
