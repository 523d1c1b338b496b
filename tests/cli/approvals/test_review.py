"""``forge approvals review``: parked requests, answered one after the other on a terminal.

Covers forge_cli.cli.approvals.review.
"""

import json
from typing import Any

import pytest

from forge_cli.testing import Project

ECHO = "{{tool: echo, input: {{text: {}}}}}"
REVIEW = ("approvals", "review")


@pytest.fixture
def parked(writer: Project, script) -> str:
    """A session that waits for three answers."""
    script(
        f"{{calls: [{', '.join(map(ECHO.format, ('one', 'two', 'three')))}]}}",
        '{text: "{results[1]}"}',
    )
    done = writer.forge("run", "worker.yaml", "go", "-p", "--on-ask", "park")
    assert done.returncode == 10
    (log,) = writer.home.glob("sessions/*.jsonl")
    return log.stem


def answers(writer: Project) -> list[bool | None]:
    rows: list[dict[str, Any]] = json.loads(writer.forge("approvals", "list", "--json").stdout)
    return [row["answer"] and row["answer"]["approved"] for row in rows]


def test_each_request_is_answered_as_at_a_prompt(parked: str, terminal, writer: Project) -> None:
    keyboard = terminal(*REVIEW)
    for number, (text, answer) in enumerate([("one", "y"), ("two", "n"), ("three", "y")], 1):
        shown = keyboard.asked()
        assert f"{number}/3  {parked}" in shown
        assert "writer wants to call echo" in shown
        assert f'text: "{text}"' in shown
        keyboard.type(f"{answer}\n")
    assert keyboard.end() == 0
    assert answers(writer) == [True, False, True]
    assert keyboard.text.count("yes to echo (approval_") == 2
    assert f"then resume with: forge run {writer.folder}/worker.yaml -r {parked}" in keyboard.text
    done = writer.forge("run", "worker.yaml", "-r", parked, "-p")
    assert done.returncode == 0
    assert "the user said no" in done.stdout
    again = terminal(*REVIEW)
    assert again.end() == 0
    assert "no requests wait for an answer" in again.seen


@pytest.mark.long
@pytest.mark.parametrize("term", ["dumb", "xterm"])
def test_ctrl_c_stops_and_the_rest_stays_parked(
    term: str, parked: str, terminal, writer: Project
) -> None:
    keyboard = terminal(*REVIEW)
    keyboard.asked()
    keyboard.type("y\n")
    keyboard.expect("yes to echo")
    keyboard.asked()
    keyboard.type("\x03")
    assert keyboard.end() == 0
    assert "\n2 requests still waiting" in keyboard.seen
    assert answers(writer) == [True, None, None]
    left = terminal(*REVIEW, TERM=term)
    left.asked()
    left.type("\x03" if term == "dumb" else "\x1b")
    assert left.end() == 0
    assert "\n2 requests still waiting" in left.seen
    assert answers(writer) == [True, None, None]


def test_review_without_a_terminal_names_the_command_that_answers(
    parked: str, writer: Project
) -> None:
    done = writer.forge(*REVIEW)
    assert (done.returncode, done.stdout) == (2, "")
    assert "forge approvals answer SESSION REQUEST yes|no" in done.stderr
    assert answers(writer) == [None, None, None]


@pytest.mark.long
def test_answer_from_elsewhere_during_the_review_is_replaced(
    parked: str, terminal, writer: Project
) -> None:
    keyboard = terminal(*REVIEW)
    keyboard.asked()
    first = json.loads(writer.forge("approvals", "list", "--json").stdout)[0]["request"]
    assert writer.forge("approvals", "answer", parked, first, "no").returncode == 0
    keyboard.type("y\n")
    keyboard.expect("yes to echo")
    keyboard.asked()
    keyboard.type("\x03")
    assert keyboard.end() == 0
    assert answers(writer) == [True, None, None]
