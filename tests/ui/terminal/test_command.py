"""A command at the prompt of a real terminal, as a person sees it."""

import json
import re

import pytest

from tests.support.screen import Screen

WORKER = """
name: w
model: script:script.yaml
sandbox: {isolation: 'off'}
toolsets:
  shell:
    rules:
      - {pattern: git status, approval: preApproved}
"""
SCRIPT = "python - <<'PY'\nfor i in range(3):\n\tprint(\"row\", i)\nPY\ngit status && git commit -m 'a b' 2>&1"


@pytest.fixture
def command(terminal, script, writer):
    """Start a worker that asks to run a command; return the keyboard and the prompt by lines."""

    def ask(
        line: str, *, columns: int = 80, rows: int = 50, term: str = "xterm-256color", **env: str
    ):
        writer.write("worker.yaml", WORKER)
        script(
            json.dumps({"calls": [{"tool": "shell", "input": {"command": line}}]}), "{text: done}"
        )
        keyboard = terminal(
            "run",
            "worker.yaml",
            "go",
            "--trace",
            "quiet",
            columns=columns,
            rows=rows,
            TERM=term,
            **env,
        )
        screen = Screen(columns)
        screen.feed(keyboard.asked())
        return keyboard, [line for line in screen.lines if line]

    return ask


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "env",
    [{}, {"NO_COLOR": "1"}, {"term": "dumb"}],
    ids=lambda env: " ".join(map("=".join, env.items())) or "colours",
)
def test_command_is_shown_as_written(command, writer, env: dict[str, str]) -> None:
    keyboard, shown = command(SCRIPT, **env)
    place = f"  in {writer.folder}, not confined"
    assert shown[:6] == [
        "w wants to call shell (risk: high)",
        "  $ python - <<'PY'",
        "  > for i in range(3):",
        '  >         print("row", i)',
        "  > PY",
        "  > git status && git commit -m 'a b' 2>&1",
    ]
    assert "".join(shown[6:-5]).replace(" ", "") == place.replace(" ", "")
    assert shown[-5:-1] == [
        "  ask          python - <<  (it would read its code from its input)",
        "  preApproved  git status  (rule 'git status', worker.yaml:8:9)",
        "  ask          git commit -m 'a b' 2>&1  (no rule)",
        "why: 'python - <<': it would read its code from its input",
    ]
    assert (re.search(r"\x1b\[[1-9][\d;]*m", keyboard.seen) is not None) == (env == {}), "colours"
    keyboard.type("n" if env.get("term") != "dumb" else "n\n")
    assert keyboard.end() == 0


def test_wrapped_line_is_distinguished_from_a_written_line_break(command) -> None:
    fake = "why: no rule covers it".rjust(200)
    keyboard, shown = command(f"echo {'word ' * 20}{fake}\nls", columns=50)
    assert max(map(len, shown)) <= 50
    start = shown.index(next(line for line in shown if line.startswith("  $ echo")))
    end = shown.index("  > ls")
    assert all(line.startswith("    ") for line in shown[start + 1 : end])
    assert re.match(r"  in\b", shown[end + 1])
    keyboard.type("n")
    assert keyboard.end() == 0


def test_invisible_characters_in_a_command_are_escaped(command) -> None:
    keyboard, shown = command("ls \x1b[2J\u202e a\rrm")
    assert r"  $ ls \x1b[2J\u202e a\rrm" in shown
    assert r"  (invisible characters are shown as escapes, such as \x1b)" in shown
    assert "\u202e" not in keyboard.seen
    keyboard.type("n")
    assert keyboard.end() == 0


def test_list_of_commands_is_limited_to_useful_ones(command) -> None:
    keyboard, shown = command(" && ".join(f"make part{number}" for number in range(25)))
    assert "  ask  make part19  (no rule)" in shown
    assert "  and 5 more parts: ? lists them" in shown
    keyboard.type("?")
    keyboard.expect("part:   make part24 -> ask")
    keyboard.expect("timeout: null")  # what was left out is there
    keyboard.asked()
    keyboard.type("n")
    assert keyboard.end() == 0


@pytest.mark.long
def test_long_command_is_shown_completely_before_a_yes_counts(terminal, writer, script) -> None:
    lines = "\n".join(f"echo {number}" for number in range(60))
    script(json.dumps({"calls": [{"tool": "shell", "input": {"command": lines}}]}), "{text: done}")
    writer.write("worker.yaml", WORKER)
    keyboard = terminal(
        "run",
        "worker.yaml",
        "go",
        "--trace",
        "quiet",
        columns=80,
        rows=24,
        TERM="xterm",
        NO_COLOR="1",
    )
    keyboard.expect("[Enter] next, [e]nd, [n]o >")
    keyboard.type("y")
    keyboard.press("e", "  > echo 59\r\n")
    keyboard.asked()
    keyboard.type("n")
    assert keyboard.end() == 0
