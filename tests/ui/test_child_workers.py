"""Child workers on a terminal: indented, by name, asked about by their path, and never as the answer."""

import json

import pytest

from forge_cli.testing import Project

BOSS = "name: boss\nmodel: script:boss.script.yaml\ntoolsets: {workers: {allowed: [writer]}}\n"
BOSS_SCRIPT = "turns: [{text: First., calls: [{tool: writer, input: {input: x}}]}, {text: 'It said: {result}'}]\n"
SCRIPT = (
    "{text: Words of my own., calls: [{tool: echo, input: {text: hello}}]}",
    '{text: "I said {result}"}',
)


@pytest.fixture
def boss(writer: Project, script) -> Project:
    writer.write("boss.yaml", BOSS)
    writer.write("boss.script.yaml", BOSS_SCRIPT)
    (writer.folder / "worker.yaml").rename(writer.folder / "writer.yaml")
    script(*SCRIPT)
    return writer


def test_prompt_shows_the_path_of_workers(terminal, boss) -> None:
    keyboard = terminal("run", "boss.yaml", "go")
    assert "boss wants to call writer (risk: high)" in keyboard.asked()
    keyboard.type("s2\n")
    assert "boss > writer wants to call echo (risk: high)" in keyboard.asked()
    keyboard.type("y\n")
    assert keyboard.end() == 0
    assert "Words of my own." not in keyboard.seen
    assert "It said: I said hello" in keyboard.lines
    assert "  writer: ✓ echo hello · hello" in keyboard.lines


def test_interrupt_at_the_prompt_of_a_child_ends_the_work(terminal, boss) -> None:
    keyboard = terminal("run", "boss.yaml", "go", "-y", "--approval-mode", "approve_all")
    assert keyboard.end() == 0
    keyboard = terminal("run", "boss.yaml", "go")
    keyboard.asked()
    keyboard.type("y\n")
    keyboard.asked()
    keyboard.type("\x03")
    assert keyboard.end() == 130


def test_every_logged_line_names_its_worker(boss) -> None:
    done = boss.forge("run", "boss.yaml", "go", "--json", "-y")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    called = [line for line in lines if line["worker"] == "writer"]
    assert {(line["depth"], line["delegation"]) for line in called} == {
        (1, called[0]["delegation"])
    }
    assert {line["type"] for line in called} >= {
        "streaming",
        "message",
        "toolResult",
        "workerUpdate",
    }
    assert lines[-1]["result"]["response"] == "It said: I said hello"


def test_only_the_answer_of_the_parent_goes_to_standard_output(boss) -> None:
    done = boss.forge("run", "boss.yaml", "go", "-y")
    assert done.stdout == "It said: I said hello\n"
    assert "Words of my own." not in done.stderr
