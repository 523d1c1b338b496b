"""Child workers on a terminal: indented, by name, asked about by their path, and never as the answer."""

import io
import json

import pytest
from rich.console import Console

from forge_cli import EventBus, Text
from forge_cli.core.events import Event, Origin, StatusEvent, Streaming, ToolResult, ToolStarted, WorkerUpdate
from forge_cli.events import Usage
from forge_cli.process.signals import in_loop
from forge_cli.terminal import trace_formatter
from forge_cli.testing import Project
from forge_cli.ui.terminal.terminal import TerminalUI

LEAF = Origin("leaf", 2, "task_2", ("boss", "helper", "leaf"))
ENDED = WorkerUpdate("completed", "helper", "c1", turns=2, usage=Usage(5, 7), origin=LEAF)

BOSS = "name: boss\nmodel: script:boss.script.yaml\ntoolsets: {workers: {allowed: [writer]}}\n"
BOSS_SCRIPT = "turns: [{text: First., calls: [{tool: writer, input: {input: x}}]}, {text: 'It said: {result}'}]\n"
SCRIPT = ("{text: Words of my own., calls: [{tool: echo, input: {text: hello}}]}", '{text: "I said {result}"}')


def traced(*events: Event) -> list[str]:
    file = io.StringIO()
    trace = trace_formatter("normal", Console(file=file, width=80, soft_wrap=True, color_system=None))
    for event in events:
        trace(event)
    return file.getvalue().splitlines()


def test_the_trace_is_further_in_and_names_the_worker() -> None:
    assert traced(
        WorkerUpdate("started", "helper", "c1", origin=LEAF),
        ToolStarted("c1", "echo", {"n": 1}, origin=LEAF),
        ToolResult("c1", "echo", "success", Text("one\ntwo"), 3, origin=LEAF),
        ENDED,
        StatusEvent("warning", "the root speaks"),
    ) == [
        "    leaf: started by helper",
        "    leaf: ✓ echo n=1",
        "        one",
        "        two",
        "    leaf: completed · 2 turns · 5 in, 7 out",
        "warning: the root speaks",
    ]


def test_how_a_called_worker_failed_is_told() -> None:
    failed = WorkerUpdate("limit", "helper", "c1", turns=2, error="the limit of 2 turns was reached", origin=LEAF)
    assert traced(failed) == ["    leaf: limit: the limit of 2 turns was reached"]


def test_the_words_of_a_called_worker_are_not_the_answer() -> None:
    out = io.StringIO()

    async def speak() -> None:
        bus = EventBus()
        async with TerminalUI(bus, trace="quiet", output=out):
            bus.emit(Streaming("s", "mine", done=False))
            bus.emit(Streaming("t", "theirs", done=False, origin=LEAF))
            bus.emit(Streaming("t", "", done=True, origin=LEAF))
            bus.emit(Streaming("s", "", done=True))

    in_loop(speak)
    assert out.getvalue() == "mine\n"


@pytest.fixture
def boss(writer: Project, script) -> Project:
    writer.write("boss.yaml", BOSS)
    writer.write("boss.script.yaml", BOSS_SCRIPT)
    (writer.folder / "worker.yaml").rename(writer.folder / "writer.yaml")
    script(*SCRIPT)
    return writer


def test_the_prompt_shows_the_path_of_workers(terminal, boss) -> None:
    keyboard = terminal("run", "boss.yaml", "go")
    assert "boss wants to call writer (risk: high)" in keyboard.asked()
    keyboard.type("s\n")
    assert "boss > writer wants to call echo (risk: high)" in keyboard.asked()
    keyboard.type("y\n")
    assert keyboard.end() == 0
    assert "Words of my own." not in keyboard.seen
    assert "It said: I said hello" in keyboard.lines
    assert "  writer: ✓ echo hello · hello" in keyboard.lines


def test_an_interrupt_at_the_prompt_of_a_called_worker(terminal, boss) -> None:
    keyboard = terminal("run", "boss.yaml", "go", "-y", "--approval-mode", "approve_all")
    assert keyboard.end() == 0
    keyboard = terminal("run", "boss.yaml", "go")
    keyboard.asked()
    keyboard.type("y\n")
    keyboard.asked()
    keyboard.type("\x03")
    assert keyboard.end() == 130


def test_every_line_of_the_record_says_whose_it_is(boss) -> None:
    done = boss.forge("run", "boss.yaml", "go", "--json", "-y")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    called = [line for line in lines if line["worker"] == "writer"]
    assert {(line["depth"], line["delegation"]) for line in called} == {(1, called[0]["delegation"])}
    assert {line["type"] for line in called} >= {"streaming", "message", "toolResult", "workerUpdate"}
    assert lines[-1]["result"]["response"] == "It said: I said hello"


def test_only_the_answer_goes_to_standard_output(boss) -> None:
    done = boss.forge("run", "boss.yaml", "go", "-y")
    assert done.stdout == "It said: I said hello\n"
    assert "Words of my own." not in done.stderr
