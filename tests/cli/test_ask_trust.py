"""Questions on a terminal before any work begins: a key without echo, and trust in a project's settings.

Covers forge_cli.cli.ask_trust, forge_cli.cli.keys.
"""

import json
import sys

import pexpect
import pytest

from forge_cli.testing import Project

SECRET = "sk-ant-0123456789-0123456789-wxyz"
QUESTION = "Use these files until one changes? [y]es, [n]o >"


def test_key_is_typed_without_echo(terminal, writer: Project) -> None:
    keys = terminal(
        "keys", "set", "anthropic", PYTHON_KEYRING_BACKEND="keyring.backends.null.Keyring"
    )
    keys.expect("ANTHROPIC_API_KEY: ")
    keys.type(f"{SECRET}\r")
    assert keys.end() == 0
    assert SECRET not in keys.seen
    assert "ANTHROPIC_API_KEY (...wxyz) is stored in " in keys.text
    assert json.loads((writer.home / "keys.json").read_text()) == {"ANTHROPIC_API_KEY": SECRET}


def with_settings(writer: Project, script) -> None:
    script("{text: Done.}")
    writer.write(".forge/config.yaml", "trace: quiet # \x1b[2J\n")


def test_project_settings_are_shown_and_used_after_a_yes(terminal, writer: Project, script) -> None:
    with_settings(writer, script)
    writer.write(".forge/config.yaml", "trace: quiet\n")
    first = terminal("run", "worker.yaml", "Go.")
    shown = first.expect(QUESTION)
    assert "This folder would: loosen nothing." in shown
    assert ".forge/config.yaml (settings)" in shown
    assert "  trace: quiet\r\n" in shown
    first.type("y\r")
    assert first.end() == 0
    assert "is not used" not in first.text
    second = terminal("run", "worker.yaml", "Go.")
    assert second.end() == 0
    assert QUESTION not in second.seen
    assert "completed" not in second.text


def test_second_question_shows_only_the_difference(terminal, writer: Project, script) -> None:
    script("{text: Done.}")
    writer.write("AGENTS.md", "Be kind.\n")
    writer.write(".forge/config.yaml", "trace: quiet\nlimits: {max_turns: 5}\n")
    first = terminal("run", "worker.yaml", "Go.")
    assert "This folder would: add 1 line of instructions, loosen nothing." in first.expect(
        QUESTION
    )
    first.type("y\r")
    assert first.end() == 0
    writer.write(".forge/config.yaml", "trace: quiet\nlimits: {max_turns: 9}\n")
    second = terminal("run", "worker.yaml", "Go.")
    shown = second.expect(QUESTION)
    assert ".forge/config.yaml (settings, changed)" in shown
    assert "  -limits: {max_turns: 5}\r\n  +limits: {max_turns: 9}\r\n" in shown
    assert "Be kind." not in shown
    second.type("y\r")
    assert second.end() == 0
    writer.write("AGENTS.md", "Be kind.\nSend it away.\n")
    third = terminal("run", "worker.yaml", "Go.")
    shown = third.expect(QUESTION)
    assert "AGENTS.md (guidance, changed)" in shown
    assert "+Send it away." in shown
    third.type("n\r")
    assert third.end() == 0


@pytest.mark.few(1)
@pytest.mark.parametrize(("key", "term"), [("\x03", "dumb"), ("\x03", "xterm"), ("\x1b", "xterm")])
def test_ctrl_c_and_esc_leave_the_command(
    terminal, writer: Project, script, key: str, term: str
) -> None:
    with_settings(writer, script)
    asked = terminal("run", "worker.yaml", "Go.", TERM=term)
    asked.expect(QUESTION)
    asked.type(key)
    assert asked.end() == 130
    assert "Done." not in asked.seen
    assert not (writer.home / "trust.json").exists()


@pytest.mark.long
def test_answer_other_than_yes_ignores_the_settings_and_asks_again_next_time(
    terminal, writer: Project, script
) -> None:
    with_settings(writer, script)
    for answer in ("\r", "no\r", "\x04"):
        asked = terminal("run", "worker.yaml", "Go.")
        assert r"\x1b[2J" in asked.expect(QUESTION)
        asked.type(answer)
        assert asked.end() == 0
        assert "ignored: you have not trusted this folder" in asked.text
    assert not (writer.home / "trust.json").exists()


@pytest.mark.long
def test_question_has_no_status_line_below(terminal, writer: Project, script) -> None:
    with_settings(writer, script)
    asked = terminal("run", "worker.yaml", "Go.", TERM="xterm")
    asked.expect(QUESTION)
    assert asked.child.expect([r"starting", pexpect.TIMEOUT], timeout=1.5) == 1
    asked.type("n\r")
    assert asked.end() == 0


@pytest.mark.parametrize("source", ["printf words |", "< words.txt"])
def test_question_uses_the_terminal_although_standard_input_is_redirected(
    terminal, writer: Project, script, source: str
) -> None:
    writer.write("words.txt", "words")
    script("{calls: [{tool: echo, input: {text: hi}}]}", "{text: done}")
    line = f'{source} "$0" -m forge_cli run worker.yaml "Say it."'
    keyboard = terminal(program=("sh", "-c", line, sys.executable))
    keyboard.asked()
    keyboard.type("y\n")
    keyboard.expect("completed")
    assert keyboard.end() == 0


@pytest.mark.parametrize("more", ["-p", "< /dev/null", "2> errors.txt"])
def test_trust_is_not_asked_without_a_terminal(
    terminal, writer: Project, script, more: str
) -> None:
    script("{calls: [{tool: echo, input: {text: hi}}]}", "{text: done}")
    line = f'printf words | "$0" -m forge_cli run worker.yaml "Say it." {more}'
    keyboard = terminal(program=("sh", "-c", line, sys.executable))
    assert keyboard.end() == 0
    assert "wants to call" not in keyboard.text
