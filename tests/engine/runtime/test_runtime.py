"""WorkerRuntime: which model, which approval mode, one conversation, and a session that begins and ends."""

import re
from pathlib import Path
from typing import Any

import anyio
import pytest

from forge_cli import EventBus, ForgeError, WorkerResult, WorkerRuntime, load_worker
from forge_cli.core.actions import ManualToolInvoke
from forge_cli.core.errors import UsageError, WorkerError
from forge_cli.core.events import Event, SessionEnd, StatusEvent, ToolStarted
from forge_cli.engine.gate.steps import Caller
from forge_cli.engine.runtime.wiring import RuntimeOptions, Wiring
from forge_cli.events import Usage
from forge_cli.hooks import TextDelta, TurnEnd
from forge_cli.process.signals import in_loop
from forge_cli.record.resume import Resumed, read_past
from forge_cli.testing import Project, Seen, call, calls, scripted_model
from tests.support.listener import Listener

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[3]

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
    given: dict[str, Any] = {
        "workspace": project.folder,
        "model": scripted_model(*turns),
        **options,
    }
    return WorkerRuntime(worker=load_worker(project.folder / "worker.yaml"), **given)


async def test_conversation_is_kept_between_tasks(worker: Project) -> None:
    model = Listener(*([TextDelta(f"answer {n}"), TurnEnd("end", Usage(10, 1))] for n in (1, 2)))
    with anyio.fail_after(60):
        async with runtime_of(worker, model=model) as runtime:
            first = await runtime.run("one")
            second = await runtime.run("two")
    heard = [[message.text for message in request.messages] for request in model.requests]
    assert heard == [["one"], ["one", "answer 1", "two"]]
    assert (first.response, second.response) == ("answer 1", "answer 2")
    assert (first.usage, second.usage, second.turns) == (Usage(10, 1), Usage(10, 1), 1)
    assert first.session_id == second.session_id


async def test_session_end_is_logged_once_and_last(worker: Project) -> None:
    seen = Seen()
    runtime = runtime_of(
        worker, "hi", on_event=seen.events.append, wiring=Wiring(sinks=(seen.take,))
    )
    await runtime.initialize()
    result = await runtime.run("go")
    await runtime.aclose()
    await runtime.aclose()
    assert [event for event in seen.events if isinstance(event, SessionEnd)] == [
        SessionEnd(result.wire())
    ]
    assert seen.types[0] == "sessionStart"
    assert seen.lines[-1]["type"] == "sessionEnd"
    assert seen.lines[-1]["result"] == result.wire()


async def test_child_never_ends_the_session(worker: Project) -> None:
    seen = Seen()
    wiring = Wiring(sinks=(seen.take,))
    async with runtime_of(
        worker, "hi", depth=1, on_event=seen.events.append, wiring=wiring
    ) as runtime:
        assert (runtime.depth, runtime.is_root) == (1, False)
        await runtime.run("go")
    assert seen.of(SessionEnd) == []
    assert {line["depth"] for line in seen.lines} == {1}


async def test_unopened_runtime_says_how_to_open_it(worker: Project) -> None:
    runtime = runtime_of(worker, "hi")
    with pytest.raises(UsageError) as caught:
        await runtime.run("go")
    sentence = (
        "the runtime is not open\n  use `async with WorkerRuntime(...)`, or await initialize()"
    )
    assert str(caught.value) == sentence
    async with runtime:
        pass
    with pytest.raises(UsageError):
        _ = runtime.tools


@pytest.mark.parametrize("task", ["", "  \n"])
async def test_empty_task_is_refused(worker: Project, task: str) -> None:
    async with runtime_of(worker, "hi") as runtime:
        with pytest.raises(UsageError) as caught:
            await runtime.run(task)
    assert caught.value.message == "the task is empty"


async def test_manual_call_passes_the_same_gate(worker: Project) -> None:
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
    assert seen.of(ManualToolInvoke)[0] == ManualToolInvoke(
        "push", {"branch": "dev"}, pushed.call.id
    )
    assert len(seen.of(ToolStarted)) == 4


async def test_manual_call_is_not_reported_to_the_model(worker: Project) -> None:
    async with runtime_of(
        worker, calls(call("add", a=1)), "{result}", approval_mode="approve_all"
    ) as runtime:
        await runtime.invoke("push", {})
        result = await runtime.run("go")
    assert (result.response, result.tool_calls) == ("2", 1)


async def test_bus_can_be_used_after_its_runtime(worker: Project) -> None:
    bus, events = EventBus(), list[Event]()
    async with runtime_of(worker, "hi", bus=bus, on_event=events.append):
        pass
    count = len(events)
    bus.emit(StatusEvent("info", "after"))
    assert len(events) == count


async def test_invalid_worker_raises_before_the_session_starts(
    worker: Project,
) -> None:
    worker.write("worker.yaml", "name: w\ntoolsets: {filesystm: {}}\n")
    events: list[Event] = []
    bus = EventBus()
    runtime = runtime_of(worker, "hi", bus=bus, on_event=events.append)
    with pytest.raises(ForgeError):
        await runtime.initialize()
    bus.emit(StatusEvent("info", "after"))
    assert events == []


def test_documented_arguments_are_the_public_ones() -> None:
    given = {"worker", "output_type", *RuntimeOptions.__annotations__}
    page = (ROOT / "docs" / "python.md").read_text()
    table = page[page.index("| argument of `WorkerRuntime` |") :].split("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == given


def test_program_sets_the_output_schema(worker: Project) -> None:
    seen = worker.run('{"n": 7}', output_schema={"type": "object", "required": ["n"]})
    assert (seen.result.status, seen.result.output) == ("completed", {"n": 7})
    with pytest.raises(WorkerError, match="output schema"):
        worker.run("never said", output_schema={"type": "nothing"})


def test_refused_task_leaves_a_resumed_session_unchanged(worker: Project) -> None:
    lines = worker.run("hi").record
    model = scripted_model("{task}")

    async def work() -> WorkerResult:
        resume = Resumed(read_past(lines), lines[-1])
        async with runtime_of(worker, model=model, resume=resume) as runtime:
            for _ in range(2):
                with pytest.raises(UsageError, match="the session has nothing left to do"):
                    await runtime.run("")
            return await runtime.run("more")

    with worker.environment():
        assert in_loop(work).response == "more"
