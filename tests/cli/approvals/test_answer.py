"""A prompt that is answered from another terminal: the first answer counts, and both report it.

Covers forge_cli.cli.approvals.answer, forge_cli.cli.approvals.list, forge_cli.record.control.
"""

import json
import os
import signal
import subprocess
from collections.abc import Callable

import pytest

from forge_cli.record.log import read_session
from forge_cli.testing import Project

WRITE = '{text: "I write.", calls: [{tool: write_file, input: {path: /output/a.md, content: "one\\n"}}]}'
TOLD = '{text: "Told: {result}"}'

Forge = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def other(writer: Project) -> Forge:
    """Run forge in another terminal."""
    return writer.forge


def waiting(other: Forge) -> dict:
    (row,) = json.loads(other("approvals", "list", "--json").stdout)
    return row


@pytest.mark.few(1)
@pytest.mark.parametrize("argv", [("run", "worker.yaml", "go"), ("chat", "worker.yaml")])
@pytest.mark.parametrize("term", ["dumb", "xterm"])
def test_prompt_accepts_an_answer_from_elsewhere(
    argv, term, terminal, script, other, writer
) -> None:
    script(WRITE, TOLD)
    keyboard = terminal(*argv, TERM=term)
    if argv[0] == "chat":
        keyboard.expect("> ")
        keyboard.type("go\r")
    keyboard.asked()
    keyboard.type("n do")  # half an answer
    row = waiting(other)
    assert (row["tool"], row["answer"]) == ("write_file", None)
    os.kill(row["pid"], 0)
    assert (
        f"process {row['pid']} asks this at its prompt now; the first"
        in other("approvals", "list").stdout
    )
    done = other("approvals", "answer", "last", row["request"], "yes")
    said = f"yes to write_file ({row['request']}): the session {row['session']} has taken it\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, said, "")
    keyboard.expect("answered by forge approvals answer: yes")
    keyboard.expect("Told: ")
    if argv[0] == "chat":
        keyboard.type("\x04")
    assert keyboard.end() == 0
    assert writer.read("output/a.md") == "one\n"
    (log,) = map(read_session, session_files_of(writer))
    decided = [
        line.data for line in log.lines if line.type in ("approvalResponse", "approvalDecided")
    ]
    assert [(line["type"], line["approved"], line["via"]) for line in decided] == [
        ("approvalResponse", True, "forge approvals answer"),
        ("approvalDecided", True, "forge approvals answer"),
    ]
    assert "yes by user (forge approvals answer)" in other("sessions", "show", "last").stdout
    assert json.loads(other("approvals", "list", "--json").stdout) == []


def session_files_of(writer: Project):
    return (writer.home / "sessions").glob("*.jsonl")


@pytest.mark.long
def test_no_from_elsewhere_carries_a_reason_for_the_model(terminal, script, other, writer) -> None:
    script(WRITE, TOLD)
    keyboard = terminal("run", "worker.yaml", "go")
    keyboard.asked()
    row = waiting(other)
    assert other("approvals", "answer", "last", row["request"], "no", "use scratch").returncode == 0
    keyboard.expect("answered by forge approvals answer: no")
    keyboard.expect("Told: write_file was not called; the user said no: use scratch")
    assert keyboard.end() == 0
    shown = [line for line in keyboard.lines if line.strip()]
    place = shown.index("answered by forge approvals answer: no")
    assert "write_file" in shown[place + 1]
    assert not (writer.folder / "output/a.md").exists()


@pytest.mark.long
def test_late_answer_is_told_that_one_exists(terminal, script, other) -> None:
    script(
        WRITE,
        '{text: "And again.", calls: [{tool: write_file, input: {path: /output/b.md, content: x}}]}',
        TOLD,
    )
    keyboard = terminal("run", "worker.yaml", "go")
    keyboard.asked()
    first = waiting(other)
    keyboard.type("n\n")
    keyboard.asked()
    late = other("approvals", "answer", "last", first["request"], "yes")
    second = waiting(other)
    assert late.returncode == 2
    assert (
        f"has no pending request '{first['request']}'\n  {second['request']}: write_file\n"
        in late.stderr
    )
    keyboard.type("n\n")
    assert keyboard.end() == 0


@pytest.mark.long
def test_process_that_cannot_accept_an_answer_is_named(terminal, script, other) -> None:
    script(WRITE, TOLD)
    keyboard = terminal("run", "worker.yaml", "go")
    keyboard.asked()
    row = waiting(other)
    os.kill(row["pid"], signal.SIGSTOP)
    try:
        done = other("approvals", "answer", "last", row["request"], "yes")
    finally:
        os.kill(row["pid"], signal.SIGCONT)
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        f"process {row['pid']} of the session {row['session']} did not take the answer"
        in done.stderr
    )
    keyboard.type("n\n")
    assert keyboard.end() == 0


def test_hook_reports_the_request_and_sends_its_answer(terminal, script, other, writer) -> None:
    script(WRITE, TOLD)
    writer.write("output/here", "")
    writer.home.mkdir(exist_ok=True)
    tell = "{on: approval, run: [sh, -c, 'cat > output/told.part && mv output/told.part output/told.json']}"
    (writer.home / "config.yaml").write_text(f"hooks: [{tell}]\n")
    keyboard = terminal("run", "worker.yaml", "go", "--trace", "quiet")
    keyboard.asked()
    while not (told := writer.folder / "output/told.json").exists():
        assert keyboard.child.isalive()
    request = json.loads(told.read_text())
    done = other("approvals", "answer", request["session"], request["request"], "yes")
    assert done.returncode == 0, done.stderr
    keyboard.expect("answered by forge approvals answer: yes")
    keyboard.expect("Told: ")
    assert keyboard.end() == 0
