"""Questions of a tool during its call: on a terminal, declined, and without a person."""

import json
from pathlib import Path

import pytest

from forge_cli.testing import Project
from tests.support.interpreter import PYTHON

TOOLS = '''
from pydantic import BaseModel, Field

from forge_cli import ToolContext, tool


class Order(BaseModel):
    size: int = Field(description="How large", ge=1)
    colour: str = "red"
    gift: bool = False


@tool(needs_approval=False)
async def order(context: ToolContext) -> str:
    """Order something."""
    wanted = await context.ask("What shall I order?", Order)
    return f"ordered {wanted.size} {wanted.colour} {wanted.gift}" if wanted else "nothing ordered"


@tool(needs_approval=False)
async def plain(context: ToolContext) -> str:
    """Ask with a schema."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    return str(await context.ask("Name somebody", schema))
'''
WORKER = """
name: clerk
model: script:script.yaml
toolsets: {custom: {module: ./tools.py, tools: [order, plain]}}
"""


@pytest.fixture
def clerk(writer: Project, script) -> Project:
    writer.write("tools.py", TOOLS)
    writer.write("worker.yaml", WORKER)
    script("{calls: [{tool: order}]}", '{text: "{result}"}')
    return writer


def test_person_answers_and_an_invalid_answer_is_asked_again(terminal, clerk: Project) -> None:
    asked = terminal("run", "worker.yaml", "Go.")
    asked.expect("the tool order asks: What shall I order? size, How large (a number; required): ")
    asked.type("0\r")
    asked.expect("colour (empty: 'red'): ")
    asked.type("blue\r")
    asked.expect("gift (true or false; empty: false): ")
    asked.type("Yes\r")
    asked.expect("that does not fit: size: must be")
    asked.expect("size, How large (a number; required): ")
    asked.type("3\r")
    assert asked.end() == 0
    assert "ordered 3 blue True" in asked.text


def test_empty_line_for_a_required_answer_declines(terminal, clerk: Project) -> None:
    asked = terminal("run", "worker.yaml", "Go.")
    asked.expect("(a number; required): ")
    asked.type("\r")
    assert asked.end() == 0
    assert "nothing ordered" in asked.text


def test_question_without_a_person_fails_the_call(clerk: Project) -> None:
    done = clerk.forge("run", "worker.yaml", "Go.", "-p")
    said = "order has a question, and no one is there to answer it: What shall I order?\n"
    assert (done.stdout, done.returncode) == (said, 0)


def test_question_with_a_schema_gets_data(terminal, clerk: Project, script) -> None:
    script("{calls: [{tool: plain}]}", '{text: "{result}"}')
    asked = terminal("run", "worker.yaml", "Go.")
    asked.expect("the tool plain asks: Name somebody: name (required): ")
    asked.type("Ana\r")
    assert asked.end() == 0
    assert "{'name': 'Ana'}" in asked.text


SERVER = str(Path(__file__).parents[1] / "toolsets" / "mcp" / "server.py")


def write_worker(writer: Project, script, mode: str) -> None:
    server = {
        "command": PYTHON,
        "args": [SERVER, mode],
        "sampling": True,
        "elicitation": True,
    }
    section = {"servers": {"s": server}, "approval": {"default": "preApproved"}}
    worker = {"name": "w", "model": "script:script.yaml", "toolsets": {"mcp": section}}
    writer.write("worker.yaml", json.dumps(worker))
    answer = ["{text: hi from the model}"] if mode == "samples" else []
    script("{calls: [{tool: s__echo, input: {text: x}}]}", *answer, '{text: "{result}"}')


def test_form_can_be_filled_in(terminal, writer: Project, script) -> None:
    write_worker(writer, script, "elicits")
    asked = terminal("run", "worker.yaml", "Go.")
    assert "the MCP server s asks: Which one?" in asked.asked()
    asked.type("y\r")
    asked.expect("size, How large (a number; required): ")
    asked.type("3\r")
    asked.expect("colour (red|blue; empty: 'red'): ")
    asked.type("\r")
    assert asked.end() == 0
    assert '{"action": "accept", "content": {"size": 3, "colour": "red"}}' in asked.text


def test_model_answers_after_a_yes(terminal, writer: Project, script) -> None:
    write_worker(writer, script, "samples")
    asked = terminal("run", "worker.yaml", "Go.")
    shown = asked.asked()
    assert "the MCP server s wants script:script.yaml to answer" in shown
    assert 'messages: "user: Say hi."' in shown
    assert "system: " in shown
    asked.type("y\r")
    assert asked.end() == 0
    assert "hi from the model" in asked.text
