"""Drafts in a conversation: /draft, /review, /apply and /drop, after which it continues.

Covers forge_cli.apps.chat.command, forge_cli.cli.drafting, forge_cli.engine.runtime.commands.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from forge_cli.testing import Project, call, calls
from tests.support.keyboard import Keyboard
from tests.support.logs import script as write_script
from tests.support.logs import sessions

pytestmark = [pytest.mark.needs("overlay")]

WORKER = """
name: talker
model: script:script.yaml
sandbox: {zones: [{name: code, path: ., mode: rw}]}
toolsets: {filesystem: {}}
"""
ONE = calls(call("write_file", path="one.txt", content="1\n"))
TWO = calls(call("write_file", path="two.txt", content="2\n"))


@pytest.fixture
def talker(writer: Project) -> Project:
    writer.write("worker.yaml", WORKER)
    return writer


def chat(project: Project, *lines: str, flags: tuple[str, ...] = ("--draft",)) -> Any:
    """Say these lines in a conversation without a terminal."""
    typed = "".join(f"{line}\n" for line in lines)
    done = project.forge("chat", "worker.yaml", *flags, stdin=typed)
    assert done.returncode == 0, done
    return done


def texts(project: Project) -> list[str]:
    return sorted(path.name for path in project.folder.glob("*.txt"))


def test_applied_changes_are_real_and_the_conversation_goes_on(talker: Project) -> None:
    write_script(talker, ONE, "wrote one", TWO, "wrote two")
    done = chat(talker, "write", "/draft", "/apply one.txt", "more", "/draft")
    assert "created  one.txt" in done.stderr
    assert "applied 1 change" in done.stderr
    assert "wrote two" in done.stdout
    assert "created  two.txt" in done.stderr
    assert texts(talker) == ["one.txt"]
    [log] = sessions(talker)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    told = [each for each in events if each["type"] == "draft"]
    assert [each["state"] for each in told] == ["open", "ready", "applied", "open", "ready"]
    assert [each["path"] for each in told[2]["changes"]] == ["one.txt"]
    assert talker.forge("drafts", "apply", "last").returncode == 0
    assert texts(talker) == ["one.txt", "two.txt"]
    assert talker.forge("undo", "last").returncode == 0
    assert texts(talker) == []


def test_dropped_changes_are_gone_for_the_worker_too(talker: Project) -> None:
    look = calls(call("read_file", path="one.txt"))
    write_script(talker, ONE, "wrote one", look, "read: {result}")
    done = chat(talker, "write", "/drop", "look")
    assert "dropped 1 change" in done.stderr
    assert "wrote" not in done.stdout.splitlines()[-1]
    assert "one.txt" in done.stdout.splitlines()[-1]
    [log] = sessions(talker)
    assert "the user dropped what you changed in the draft" in log.read_text()
    assert texts(talker) == []


def test_conversation_on_the_real_files_goes_on_in_a_draft(talker: Project) -> None:
    write_script(talker, ONE, "wrote one", TWO, "wrote two")
    done = chat(talker, "write", "/draft", "more", flags=("-y",))
    assert "the real files stay as they are" in done.stderr
    assert "wrote two" in done.stdout
    assert texts(talker) == ["one.txt"]
    assert "two.txt" in talker.forge("drafts", "show", "--stat").stdout


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("/review", "not a terminal"),
        ("/apply nothing.txt", "the draft changed nothing at"),
        ("/apply --all", "/apply has no option 'all'"),
        ("/drop now", "usage: /drop"),
    ],
)
def test_command_that_fails_leaves_the_draft_as_it_is(
    talker: Project, line: str, sentence: str
) -> None:
    write_script(talker, ONE, "wrote one", "still here")
    done = chat(talker, "write", line, "more")
    assert sentence in done.stderr
    assert "still here" in done.stdout
    assert texts(talker) == []


@pytest.mark.parametrize("line", ["/review", "/apply", "/drop"])
def test_commands_of_a_draft_name_the_way_to_one(talker: Project, line: str) -> None:
    write_script(talker, "hello")
    done = chat(talker, line, "hi", flags=())
    assert "this session works on the real files" in done.stderr
    assert "/draft begins one" in done.stderr
    assert "hello" in done.stdout


def test_session_of_a_worker_that_wants_drafts_resumes_in_one(talker: Project) -> None:
    talker.write("worker.yaml", WORKER.replace("sandbox: {", "sandbox: {draft: true, "))
    write_script(talker, ONE, "wrote one", TWO, "wrote two")
    chat(talker, "write", "/apply", flags=())
    chat(talker, "more", flags=("-c",))
    assert texts(talker) == ["one.txt"]


def test_review_in_a_conversation_sends_a_message_and_begins_again(
    talker: Project, terminal: Callable[..., Keyboard]
) -> None:
    write_script(talker, ONE, "wrote one", TWO, "wrote two", "bye")
    keyboard = terminal("chat", "worker.yaml", "--draft")
    keyboard.expect("Ctrl+D leaves")
    for text, line in [
        ("> ", "write"),
        ("wrote one", "/review"),
        ("1/1  made     one.txt", "t"),
        ("message to the model", "two, too"),
        ("wrote two", ""),
        ("1/2  made     one.txt", "a"),
        ("2/2  made     two.txt", "s"),
        ("applied 1 change", ""),
    ]:
        keyboard.expect(text)
        if line:
            if text != "> ":
                keyboard.expect("> ")
            keyboard.type(f"{line}\n")
    keyboard.expect("> ")
    keyboard.type("/drop\n")
    keyboard.expect("dropped 1 change")
    keyboard.expect("> ")
    keyboard.type("\x04")
    assert keyboard.end() == 0, keyboard.seen
    assert texts(talker) == ["one.txt"]
