"""What lists, errors and other answers of commands look like on a real terminal, wide and narrow.

Covers forge_cli.ui.table.
"""

import os
import re

import pytest
from rich.cells import cell_len

from forge_cli.core.events import MessageEvent, SessionEnd, SessionStart
from forge_cli.events import Message
from forge_cli.testing import Project

from ..lines import lines_of

WIDTHS = pytest.mark.parametrize("columns", [80, 50])
FIRST, SECOND = "20260101-100000-aaaa1111", "20251231-100000-bbbb2222"
TASKS = {FIRST: "Fit the tables, 日本語 too, so that " + "words " * 20, SECOND: "short"}


@pytest.fixture
def sessions(writer: Project) -> None:
    """Two sessions, the one of the long task worked on last."""
    for number, (session, task) in enumerate(TASKS.items()):
        lines = lines_of(
            SessionStart("script:x", "/w", "interactive"),
            MessageEvent(Message("user", task)),
            MessageEvent(Message("assistant", "far " * 50 + "the Needle " + "away " * 50)),
            SessionEnd({"status": "completed"}),
        )
        path = writer.home / "sessions" / f"{session}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(line.text() for line in lines))
        os.utime(path, (1000 - number, 1000 - number))


def screen(keyboard) -> list[str]:
    """The lines of a command that has ended, each of them checked to fit."""
    columns = keyboard.child.getwinsize()[1]
    keyboard.end()
    lines = keyboard.seen.replace("\r", "").rstrip("\n").split("\n")
    assert [line for line in lines if cell_len(re.sub(r"\x1b\[[\d;]*m", "", line)) > columns] == []
    return lines


@WIDTHS
def test_errors_are_broken_between_words(terminal, columns: int) -> None:
    lines = screen(terminal("run", "worker.yaml", "go", "-r", "no-such-session-here", columns=columns))
    assert " ".join(" ".join(lines).split()) == (
        "forge: there is no session 'no-such-session-here' forge sessions list shows them"
    )


@pytest.mark.usefixtures("sessions")
@pytest.mark.parametrize(
    ("columns", "heads", "task"),
    [
        (110, "session when worker status turns calls task", "Fit the tables, 日本語 too, so that words words words"),
        (80, "session when worker status task", "Fit the tables, 日本語 too, so that word"),
        (50, "session when status task", "Fit the tables, 日"),
    ],
)
def test_a_list_of_sessions_shows_the_task_at_any_width(terminal, columns: int, heads: str, task: str) -> None:
    head, first, second = screen(terminal("sessions", "list", "--all", columns=columns))
    assert head.split() == heads.split()
    assert first.startswith("aaaa1111  ")
    assert task in first
    assert first.endswith("…")
    assert (second[:8], second.endswith("  short")) == ("bbbb2222", True)


@pytest.mark.usefixtures("sessions")
def test_a_list_of_sessions_is_as_long_as_one_wants(terminal) -> None:
    assert len(screen(terminal("sessions", "list", "--all", "-n", "1"))) == 2


@pytest.mark.few(1)
@WIDTHS
@pytest.mark.usefixtures("sessions")
def test_a_search_shows_what_was_found_in_the_middle_and_marked(terminal, columns: int) -> None:
    lines = screen(terminal("sessions", "search", "the needle", columns=columns, TERM="xterm"))
    assert [line.removeprefix("\x1b[1m")[:8] for line in lines[::2]] == ["aaaa1111", "bbbb2222"]
    for line in lines[1::2]:
        assert line.startswith("  said     ")
        before, found, behind = re.split(r"\x1b\[1;33m(.*)\x1b\[0m", line)
        assert found == "the Needle"
        assert before.endswith("far ")
        assert behind.startswith(" away")
        assert abs(cell_len(before.partition("…")[2]) - cell_len(behind)) < 8
    plain = screen(terminal("sessions", "search", "the needle", columns=columns, TERM="xterm", NO_COLOR="1"))
    assert not any("\x1b" in line for line in plain)


@pytest.mark.few(1)
@WIDTHS
def test_a_list_of_tools_says_what_decides(terminal, columns: int) -> None:
    head, *lines = screen(terminal("tools", "list", "worker.yaml", columns=columns, TERM="xterm"))
    assert (head.split()[0].endswith("name"), "description" in head, "toolset" in head) == (True, True, columns == 80)
    rows = {line.split()[0]: line for line in lines}
    assert "\x1b[33mby zone" in rows["write_file"]
    assert "\x1b[33mby rule" in rows["careful"]
    assert "\x1b[32mpreApproved" in rows["hold"]


@pytest.mark.few(1)
@WIDTHS
def test_the_doctor_says_what_to_do_below_and_ends_with_a_verdict(terminal, columns: int) -> None:
    lines = screen(terminal("doctor", columns=columns, TERM="xterm", ANTHROPIC_API_KEY=""))
    assert lines[0].startswith("\x1b[32mok     \x1b[0m python: ")
    missing = next(place for place, line in enumerate(lines) if "model.anthropic: ANTHROPIC_API_KEY is not" in line)
    assert lines[missing].startswith("\x1b[33mmissing\x1b[0m ")
    assert "        forge keys set anthr" in [line[:28] for line in lines[missing + 1 : missing + 4]]
    assert any(line.startswith("\x1b[32mall that forge needs is there; ") for line in lines[-5:])
    assert any("one thing to do: set up a model" in line for line in lines[-4:])


@pytest.mark.few(1)
@WIDTHS
def test_a_verdict_has_its_colour(terminal, columns: int) -> None:
    lines = screen(terminal("approve", "worker.yaml", "hold", columns=columns, TERM="xterm"))
    assert lines[0] == "\x1b[32mpreApproved\x1b[0m: hold"
    assert screen(terminal("approve", "worker.yaml", "hold", columns=columns))[0] == "preApproved: hold"


PLAIN = ["# Title", "", "Some **bold** words, and many more of them, so", "that the line is wrapped."]
"""The marks of Markdown stay where there are no styles."""


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"TERM": "xterm"}, ["Title", "", "Some bold words, and many more of them, so that", "the line is wrapped."]),
        ({"TERM": "xterm", "NO_COLOR": "1"}, PLAIN),
        ({"TERM": "dumb"}, PLAIN),
    ],
)
def test_the_words_of_the_model_are_drawn_as_markdown(terminal, script, env: dict[str, str], expected) -> None:
    words = "Some **bold** words, and many more of them, so that the line is wrapped."
    script(f'{{text: "# Title\\n\\n{words} \\e[2J"}}')
    keyboard = terminal("run", "worker.yaml", "go", "--trace", "summary", columns=50, **env)
    assert keyboard.end() == 0
    lines = keyboard.screen(50)
    at = lines.index(expected[0])
    assert lines[at : at + 4] == [*expected[:-1], f"{expected[-1]} \\x1b[2J"]
    assert ("\x1b[1mbold\x1b[0m" in keyboard.seen) == (env == {"TERM": "xterm"})
    piped = terminal("run", "worker.yaml", "go", "--trace", "summary", shell="| cat", columns=50, **env)
    assert piped.end() == 0
    assert f"# Title\n\n{words} " in piped.seen.replace("\r", "")


@pytest.mark.long
@pytest.mark.few(1)
@WIDTHS
def test_a_tool_is_described_in_the_width_of_the_terminal(terminal, columns: int) -> None:
    lines = screen(terminal("tools", "show", "echo", "--worker", "worker.yaml", columns=columns))
    assert "description: Say something back." in lines
    assert screen(terminal("worker", "show", "worker.yaml", columns=columns))[0].startswith("writer")


def test_the_outcome_of_a_test_has_its_colour(terminal, script, writer: Project) -> None:
    script("{text: Done.}")
    writer.folder.joinpath("tests").mkdir()
    assert terminal("run", "worker.yaml", "go", "-p", "--record", "tests/one.jsonl").end() == 0
    lines = screen(terminal("test", TERM="xterm"))
    assert lines[0].startswith("\x1b[32mok   \x1b[0m tests/one.jsonl")
