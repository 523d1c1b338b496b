"""What MCP servers ask for, on a terminal: a form line by line, and leave to have the model answer."""

import json
import sys
from pathlib import Path

from forge_cli.testing import Project

SERVER = str(Path(__file__).parents[1] / "toolsets" / "mcp" / "server.py")


def write_worker(writer: Project, script, mode: str) -> None:
    server = {"command": sys.executable, "args": [SERVER, mode], "sampling": True, "elicitation": True}
    section = {"servers": {"s": server}, "approval": {"default": "preApproved"}}
    worker = {"name": "w", "model": "script:script.yaml", "toolsets": {"mcp": section}}
    writer.write("worker.yaml", json.dumps(worker))
    answer = ["{text: hi from the model}"] if mode == "samples" else []
    script("{calls: [{tool: s__echo, input: {text: x}}]}", *answer, '{text: "{result}"}')


def test_a_form_is_filled_in(terminal, writer: Project, script) -> None:
    write_worker(writer, script, "elicits")
    asked = terminal("run", "worker.yaml", "Go.")
    asked.expect("the MCP server s asks: Which one? Answer it? [y/N] ")
    asked.type("y\r")
    asked.expect("size, How large (a number; required): ")
    asked.type("3\r")
    asked.expect("colour (red|blue; empty: 'red'): ")
    asked.type("\r")
    assert asked.end() == 0
    assert '{"action": "accept", "content": {"size": 3, "colour": "red"}}' in asked.text


def test_the_model_answers_after_a_yes(terminal, writer: Project, script) -> None:
    write_worker(writer, script, "samples")
    asked = terminal("run", "worker.yaml", "Go.")
    shown = asked.asked()
    assert "the MCP server s wants script:script.yaml to answer" in shown
    assert 'messages: "user: Say hi."' in shown
    assert "system: " in shown
    asked.type("y\r")
    assert asked.end() == 0
    assert "hi from the model" in asked.text
