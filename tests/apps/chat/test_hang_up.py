"""A terminal closed during a question: there is no answer, and the log and the next conversation say so.

Covers forge_cli.core.hangup and forge_cli.ui.terminal.keys.
"""

import json
import sys
from contextlib import suppress
from typing import Any

import pytest

from forge_cli.testing import Project
from tests.support.keyboard import Keyboard

from .conftest import Window

WRITE = "{calls: [{tool: write_file, input: {path: a.txt, content: x}}]}"
DEAF = 'trap "" HUP; exec "$@"'
"""As nohup does it: only what is read tells that the terminal is gone."""


def hang_up(keyboard: Keyboard) -> int:
    keyboard.child.ptyproc.fileobj.close()
    return int(keyboard.child.wait())


def recorded(project: Project) -> list[dict[str, Any]]:
    [session] = (project.home / "sessions").glob("*.jsonl")
    return [json.loads(line) for line in session.read_text().splitlines()]


@pytest.mark.parametrize(
    ("shell", "term"),
    [
        (DEAF, "xterm"),
        pytest.param('exec "$@"', "xterm", marks=pytest.mark.long),
        pytest.param(DEAF, "dumb", marks=pytest.mark.long),
    ],
)
def test_hang_up_answers_no_question_and_the_next_conversation_reports_it(
    talker, terminal, chat, script, shell: str, term: str
) -> None:
    script(WRITE, '{text: "Never said."}')
    program = ("sh", "-c", shell, "sh", sys.executable, "-m", "forge_cli")
    keyboard = terminal("chat", "worker.yaml", program=program, TERM=term, NO_COLOR="1")
    keyboard.expect("Ctrl+D leaves.")
    keyboard.expect(">")
    keyboard.type("go on\r")
    keyboard.expect("why >")
    assert hang_up(keyboard) == 129
    lines = recorded(talker)
    assert [line["reason"] for line in lines if line["type"] == "interrupt"] == ["hung up"]
    assert [line["status"] for line in lines if line["type"] == "toolResult"] == ["interrupted"]
    assert [line["type"] for line in lines if line["type"].startswith("approval")] == [
        "approvalRequired"
    ]
    window: Window = chat("-c")
    window.see("> go on", "write_file a.txt", "interrupted before it ran")
    window.ready().type("\x04")
    assert window.end() == 0
    assert not (talker.folder / "a.txt").exists()


@pytest.mark.few(2)
@pytest.mark.parametrize("command", ["chat", "run"])
@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_hang_up_at_an_empty_line_has_its_exit_code(
    talker, terminal, script, command: str, term: str
) -> None:
    script('{text: "Here I am."}')
    more = ("go on", "-i") if command == "run" else ()
    program = ("sh", "-c", DEAF, "sh", sys.executable, "-m", "forge_cli")
    keyboard = terminal(command, "worker.yaml", *more, program=program, TERM=term, NO_COLOR="1")
    keyboard.expect("Ctrl+D leaves.")
    keyboard.expect("Here I am." if more else ">")
    assert hang_up(keyboard) == 129


@pytest.mark.parametrize("command", ["chat", "run"])
def test_hang_up_while_the_model_answers_is_not_a_failure(
    talker, terminal, words, command: str
) -> None:
    program = ("sh", "-c", DEAF, "sh", sys.executable, "-m", "forge_cli")
    arguments = ("worker.yaml", *(("go on",) if command == "run" else ()), "-m", "pipe:words")
    keyboard = terminal(command, *arguments, program=program, TERM="xterm", NO_COLOR="1")
    if command == "chat":
        keyboard.expect("Ctrl+D leaves.")
        keyboard.expect(">")
        keyboard.type("go on\r")
    words("Words that were|seen.|")
    keyboard.expect("Words that were")
    keyboard.child.ptyproc.fileobj.close()
    with suppress(BrokenPipeError):  # it may have ended already, and the model with it
        words("Words that nobody|can see.|")
    words.stop()
    assert keyboard.child.wait() == 129
    ended = recorded(talker)[-1]
    assert ended["type"] == "sessionEnd"
    assert command == "chat" or ended["result"]["exitCode"] == 129


def test_hang_up_ends_a_question_before_the_work(talker, terminal) -> None:
    program = ("sh", "-c", DEAF, "sh", sys.executable, "-m", "forge_cli")
    keyboard = terminal("worker", "new", program=program, TERM="xterm", NO_COLOR="1")
    keyboard.expect(">")
    assert hang_up(keyboard) == 129
