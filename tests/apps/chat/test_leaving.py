"""Questions in a conversation that are left by Ctrl+C or Esc: nothing is called, and the next line is a new one.

Covers forge_cli.ui.terminal.raw_mode.
"""

import json
import time
from collections.abc import Sequence

import pytest

from forge_cli.apps.chat.talk import TWICE
from forge_cli.testing import Project

from .conftest import Window

TOOLS = '''
from pydantic import BaseModel

from forge_cli import ToolContext, tool


class Order(BaseModel):
    size: int


@tool(needs_approval=False, manual="both")
async def order(context: ToolContext) -> str:
    """Order something."""
    return f"ordered {await context.ask('What shall I order?', Order)}"


@tool(needs_approval=False, manual="both")
def echo(text: str) -> str:
    """Say it back."""
    return f"said {text}"
'''
WORKER = """
name: talker
model: script:script.yaml
toolsets: {filesystem: {}, custom: {module: ./tools.py, tools: [order, echo]}}
"""
WRITE = "{calls: [{tool: write_file, input: {path: a.txt, content: x}}]}"
ORDER = "{calls: [{tool: order}]}"
BYE = '{text: "Told: {task}."}'
CTRL_C, ESCAPE = "\x03", "\x1b"
QUESTIONS = [
    ("go on", "[?] why >"),  # an approval
    ("go on", "size (a number; required):"),  # a question of a tool that the model calls
    ("/order", "size (a number; required):"),  # of one that the person calls
    ("/echo -i", "text:"),  # the form of a tool
    ("/sessions", "(Enter: stay) >"),  # a choice
]


@pytest.fixture
def clerk(talker: Project, script) -> Project:
    talker.write("tools.py", TOOLS)
    talker.write("worker.yaml", WORKER)
    script('{text: "Hello."}')
    assert talker.forge("run", "worker.yaml", "hello", "-p").returncode == 0  # a session to choose
    return talker


def leave_all(
    window: Window, keys: tuple[str, ...], questions: Sequence[tuple[str, str]] = QUESTIONS
) -> None:
    """Leave every question by every key, and type a command behind it, by Ctrl+C in the same moment."""
    count = 0
    for key in keys:
        for line, question in questions:
            count, asked = count + 1, window.text.count(question) + 1
            window.say(line)
            window.wait(
                lambda text, q=question, n=asked: text.count(q) == n,
                f"{question!r}, number {asked}",
            )
            if key == ESCAPE or "\x1b" not in window.seen:  # Esc and / at once are Alt+/
                window.type(f"half{key}")
                window.wait(window.is_idle, "the end of the question")
                window.say("/status")
            else:
                window.say(f"half{key}/status")
            window.wait(
                lambda text, n=count: text.count("approvals  interactive") == n,
                f"the status number {count}",
            )
            window.wait(window.is_idle, "a line to type in")
            time.sleep(TWICE)  # Ctrl+C again within that time leaves the conversation
    window.say("bye")
    window.see("Told: bye.")


def check_that_nothing_was_called(clerk: Project, questions: int) -> None:
    session = max((clerk.home / "sessions").glob("*.jsonl"), key=lambda log: log.stat().st_mtime_ns)
    lines = list(map(json.loads, session.read_text().splitlines()))
    assert [line["status"] for line in lines if line["type"] == "toolResult"] == [
        "interrupted"
    ] * questions
    said = [line["content"] for line in lines if line["type"] == "userInput"]
    assert said == [*["go on"] * (questions * 2 // 3), "bye"]
    assert not (clerk.folder / "a.txt").exists()


def test_input_after_a_cancelled_approval_is_not_its_answer(chat, clerk, script) -> None:
    script(WRITE, BYE)
    window = chat(columns=100, rows=500).ready()
    leave_all(window, (CTRL_C,), QUESTIONS[:1])
    window.ready().type("\x04")
    assert window.end() == 0
    assert not (clerk.folder / "a.txt").exists()


def test_ctrl_c_twice_ends_the_conversation_from_a_question(chat, clerk, script) -> None:
    script(WRITE, BYE)
    window = chat().ready()
    window.say("go on")
    window.see("[?] why >")
    window.type(CTRL_C * 2)
    assert window.end() == 130


@pytest.mark.long
def test_input_after_a_cancelled_question_is_not_its_answer(chat, clerk, script) -> None:
    script(*[WRITE, ORDER] * 2, BYE)
    window = chat(columns=100, rows=500).ready()
    leave_all(window, (CTRL_C, ESCAPE))
    window.ready().type("\x04")
    assert window.end() == 0
    check_that_nothing_was_called(clerk, 6)


@pytest.mark.long
def test_ctrl_c_cancels_questions_on_a_terminal_without_cursor_movement(
    chat, clerk, script, monkeypatch
) -> None:
    script(WRITE, ORDER, BYE)
    monkeypatch.setattr(Window, "is_idle", lambda self, screen: screen.endswith("\n>"))
    window = chat(TERM="dumb", rows=500).ready()
    leave_all(window, (CTRL_C,))
    window.ready().say("/exit")
    assert window.end() == 0
    check_that_nothing_was_called(clerk, 3)
