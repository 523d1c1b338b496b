"""A conversation over the bus: events of a UI are handled in order until the end."""

import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from forge_cli import EventBus, WorkerRuntime, load_worker
from forge_cli.embedding import open_session
from forge_cli.testing import Project, call, calls, scripted_model
from tests.support.talk import UI, converse, leave, say

EXAMPLE = Path(__file__).parents[3] / "examples/own_ui"
TOOLS = """
import asyncio
from forge_cli import tool

@tool(manual="both", needs_approval=False)
def add(a: int, b: int = 1) -> int:
    "Add."
    return a + b

@tool(needs_approval=True)
def ask() -> str:
    "Ask."
    return "asked"

@tool(needs_approval=False)
async def wait() -> str:
    "Wait."
    await asyncio.sleep(300)
    return "waited"
"""
WORKER = "name: w\ntoolsets: {custom: {module: ./tools.py, tools: [add, ask, wait]}}\n"


@pytest.fixture
def worker(project: Project) -> Project:
    project.write("tools.py", TOOLS)
    project.write("worker.yaml", WORKER)
    return project


def test_tasks_run_in_sequence_with_one_history(worker: Project) -> None:
    bus = EventBus()
    ui = UI(bus)
    result = converse(
        worker, bus, "{task} 1", "{task} 2", begin=lambda: say(bus, "one", "two") or leave(bus)
    )
    assert ui.answers == ["one 1", "two 2"]
    assert result
    assert result.response == "two 2"


def test_invoke_starts_a_task_and_is_answered_once(worker: Project) -> None:
    bus = EventBus()
    ui = UI(bus)

    async def main() -> None:
        async with (
            WorkerRuntime(
                worker=load_worker(worker.folder / "worker.yaml"), model=scripted_model(), bus=bus
            ) as runtime,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(runtime.converse)
            await anyio.wait_all_tasks_blocked()
            assert (await runtime.invoke("add", {"a": 2})).value.text() == "3"
            leave(bus)

    anyio.run(main)
    assert len(ui.of("toolResult")) == 1
    (invoked,) = ui.of("manualToolInvoke")
    assert invoked.tool_call_id == ui.of("toolResult")[0].tool_call_id


def test_interrupt_ends_the_task_but_not_the_conversation(worker: Project) -> None:
    bus = EventBus()
    ui = UI(bus, toolStarted=lambda event: bus.emit("interrupt", {"reason": "enough"}))
    result = converse(
        worker,
        bus,
        calls(call("wait")),
        "{task}",
        begin=lambda: say(bus, "go", "again") or leave(bus),
    )
    assert [event.status for event in ui.of("toolResult")] == ["interrupted"]
    assert ui.answers == ["again"]
    assert result
    assert result.success


def test_failed_task_is_reported(worker: Project) -> None:
    bus = EventBus()
    ui = UI(bus)
    result = converse(worker, bus, "{task}", begin=lambda: say(bus, "go", "again") or leave(bus))
    assert ui.answers == ["go"]
    assert result
    assert result.status == "failed"
    assert [event.message for event in ui.of("status") if event.level == "error"] == [result.error]


def test_clear_starts_a_new_history_also_after_resume(worker: Project) -> None:
    bus, loaded = EventBus(), load_worker(worker.folder / "worker.yaml")

    def begin() -> None:
        say(bus, "one")
        bus.emit("command", {"name": "clear"})
        say(bus, "two")
        leave(bus)

    with open_session(loaded) as session:
        converse(worker, bus, "first", "second", begin=begin, session=session)
    with open_session(loaded, resume=session.id, task="three") as resumed:
        assert resumed.resumed
        assert [message.text for message in resumed.resumed.past.messages] == ["two", "second"]


@pytest.mark.parametrize("name", ["nope", "exti"])
def test_unknown_command_is_reported(worker: Project, name: str) -> None:
    bus = EventBus()
    ui = UI(bus)
    converse(worker, bus, begin=lambda: bus.emit("command", {"name": name}) or leave(bus))
    (warning,) = [event.message for event in ui.of("status") if event.level == "warning"]
    assert warning.startswith(f"there is no command '{name}'; ")


@pytest.mark.long
def test_example_ui_converses_calls_and_denies_without_a_terminal() -> None:
    said = "What is honey?\nSell one\n/price item=bread\n/nope\n"
    done = subprocess.run(
        [sys.executable, EXAMPLE / "ui.py", EXAMPLE],
        input=said,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert "< honey costs 7." in lines
    assert "[price: success] bread costs 2" in lines
    assert any(line.startswith("[sell: denied]") for line in lines)
    assert any(line.startswith("[nope: not_found]") for line in lines)


def test_every_handled_input_is_reported_with_its_result(worker: Project) -> None:
    bus, done = EventBus(), list[tuple[object, str | None]]()

    async def main() -> None:
        loaded = load_worker(worker.folder / "worker.yaml")
        async with WorkerRuntime(
            worker=loaded, model=scripted_model("{task} 1"), bus=bus
        ) as runtime:
            with anyio.fail_after(30):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(
                        lambda: runtime.converse(
                            on_done=lambda said, result: done.append(
                                (said, result and result.response)
                            )
                        )
                    )
                    await anyio.wait_all_tasks_blocked()
                    say(bus, "one")
                    bus.emit("command", {"name": "clear"})
                    bus.emit("command", {"name": "mode", "args": ["readOnly"]})
                    leave(bus)

    anyio.run(main)
    named = [
        (getattr(said, "content", None) or getattr(said, "name", None), answer)
        for said, answer in done
    ]
    assert named == [("one", "one 1"), ("clear", None), ("exit", None)]
