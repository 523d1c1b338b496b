"""Consent by kind on a real terminal: the list of rules, for the session or to be written into a file."""

import json
import os

import pytest

from forge_cli.core.approval import ApprovalRequest
from forge_cli.core.grants import THIS_CALL, GrantOffer, GrantRule
from forge_cli.ui.terminal.console import new_console
from forge_cli.ui.terminal.grants import choose_grant, explain_grants, lasting_offers, session_offers

RUN = ("run", "worker.yaml", "go", "--trace", "quiet")
WORKER = """
name: coder  # mine
model: script:script.yaml
sandbox:
  zones:
    - {name: output, mode: rw}  # where it writes
toolsets:
  filesystem: {}
  shell:
    # what it may run
    timeout: 9
"""
WHICH = "n goes back [1-2] > "


def shell(*commands: str) -> list[str]:
    return [f"{{calls: [{{tool: shell, input: {{command: {json.dumps(each)}}}}}]}}" for each in commands]


def writes(*paths: str) -> list[str]:
    return [f"{{calls: [{{tool: write_file, input: {{path: {path}, content: x}}}}]}}" for path in paths]


@pytest.fixture
def coder(writer):
    writer.write("worker.yaml", WORKER)
    return writer


def tail(keyboard, after: str) -> list[str]:
    """What stands on the screen since the last line that ends so."""
    lines = keyboard.lines
    return lines[max(at for at, line in enumerate(lines) if line.endswith(after)) + 1 :]


@pytest.mark.few(1)
@pytest.mark.parametrize("columns", [80, 50])
def test_s_lists_the_rules_and_a_number_takes_one(terminal, script, coder, columns: int) -> None:
    script(*shell("ls -l"), *shell("ls -a"), "{text: done}")
    keyboard = terminal(*RUN, columns=columns)
    keyboard.asked()
    keyboard.type("s\n")
    keyboard.expect(WHICH)
    menu = " ".join(tail(keyboard, "why > s")).replace("  ", " ")
    assert "1 this very call" in menu
    assert "2 commands that begin with ls" in menu
    keyboard.type("7\n")
    keyboard.expect(WHICH)
    keyboard.type("2\n")
    assert keyboard.end() == 0
    assert keyboard.seen.count("wants to call") == 1


def test_the_screen_of_the_list_in_full(terminal, script, coder) -> None:
    script(*shell("wc x", "wc y", "git add . && git commit -m x"), "{text: done}")
    keyboard = terminal(*RUN, columns=80)
    for answer in ("y\n", "s\n"):
        keyboard.asked()
        keyboard.type(answer)
    keyboard.expect(WHICH)
    assert tail(keyboard, "why > s") == [
        "  1  this very call",
        "  2  commands that begin with wc (would have covered 1 call so far)",
        "     toolsets.shell.rules: [{pattern: wc, approval: preApproved}]",
        f"which? Enter takes 1, {WHICH}",
    ]
    keyboard.type("\n")
    keyboard.asked()
    keyboard.type("s\n")
    keyboard.expect("[1-3] > ")
    assert "  3  commands that begin with git" in keyboard.lines
    keyboard.type("n\n")
    keyboard.asked()
    keyboard.type("n\n")
    assert keyboard.end() == 0


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "keys",
    [
        ["s\n", "\x04"],
        ["a\n", "\x04"],
        ["a\n", "w\n", "\x04"],
        ["s\n", "x\n", "9\n", "0\n"],
        ["a\n", "x\n", "y\n", "z\n"],
    ],
    ids=repr,
)
def test_the_end_of_input_and_the_third_misread_answer_are_a_no_in_a_list(terminal, script, coder, keys) -> None:
    script(*shell("ls -l"), '{text: "{result}"}')
    keyboard = terminal(*RUN)
    keyboard.asked()
    for key in keys:
        keyboard.type(key)
        if key != keys[-1]:
            keyboard.expect(" > ")
    assert keyboard.end() == 0
    assert ("that was the third time, so it is a no" in keyboard.seen) == (keys[-1] != "\x04")
    assert "shell was not called; the user said no" in keyboard.text


def test_what_could_not_be_judged_offers_this_very_call_without_a_list(terminal, script, coder) -> None:
    script(*shell("ls $(echo .)", "ls $(echo .)"), "{text: done}")
    keyboard = terminal(*RUN)
    keyboard.asked()
    assert keyboard.lines[-1] == "[y]es once, [s]ession, [n]o, [?] why > "
    keyboard.type("s\n")
    assert keyboard.end() == 0
    assert keyboard.seen.count("wants to call") == 1
    assert "which?" not in keyboard.seen


def test_always_for_the_user(terminal, script, coder) -> None:
    script(*shell("ls -l", "ls -a"), "{text: done}")
    keyboard = terminal(*RUN, columns=120)
    keyboard.asked()
    keyboard.type("a\n")
    keyboard.expect("[u]ser (config.yaml) or [w]orker (worker.yaml), n goes back > ")
    keyboard.type("x\n")
    keyboard.expect("not understood: u, w or n")
    keyboard.expect("n goes back > ")
    keyboard.type("u\n")
    keyboard.expect("write this? [y]es, [n]o > ")
    config = coder.home / "config.yaml"
    assert tail(keyboard, "n goes back > u")[1:] == [
        "  │ 1 + policy:",
        "  │ 2 +   shell:",
        "  │ 3 +     rules:",
        "  │ 4 +       - {pattern: ls, approval: preApproved}",
        "write this? [y]es, [n]o > ",
    ]
    assert not config.exists()
    keyboard.type("y\n")
    assert keyboard.end() == 0
    assert keyboard.seen.count("wants to call") == 1, "the session uses it at once"
    assert config.read_text() == "policy:\n  shell:\n    rules:\n      - {pattern: ls, approval: preApproved}\n"
    verdict = coder.forge("approve", "worker.yaml", "shell", "command=ls -l", "--json")
    assert (json.loads(verdict.stdout)["verdict"], json.loads(verdict.stdout)["rule"]) == (
        "preApproved",
        "policy.shell.rules[0]",
    )


def test_always_for_the_worker_keeps_its_file_as_it_was(terminal, script, coder) -> None:
    script(*writes("/output/a", "/output/b"), *shell("ls -l"), "{text: done}")
    keyboard = terminal(*RUN, columns=120)
    keyboard.asked()
    keyboard.type("always\n")
    assert "[u]ser" not in keyboard.expect("[w]orker (worker.yaml), n goes back > "), "zones are the worker's"
    keyboard.type("w\n")
    keyboard.expect("write this? [y]es, [n]o > ")
    keyboard.type("y\n")
    keyboard.asked()
    keyboard.type("a\n")
    keyboard.expect("n goes back > ")
    keyboard.type("worker\n")
    keyboard.expect("[n]o > ")
    keyboard.type("y\n")
    assert keyboard.end() == 0
    assert (
        coder.read("worker.yaml")
        == WORKER.replace("mode: rw}", "mode: rw, approval: {write: preApproved}}")
        + "    rules:\n      - {pattern: ls, approval: preApproved}\n"
    )
    for call in (["write_file", "path=/output/a", "content=x"], ["shell", "command=ls -l"]):
        assert json.loads(coder.forge("approve", "worker.yaml", *call, "--json").stdout)["verdict"] == "preApproved"


@pytest.mark.few(2)
@pytest.mark.parametrize("keys", [["n\n"], ["\n"], ["w\n", "n\n"], ["w\n", "\n"]])
def test_whoever_goes_back_is_asked_again_and_nothing_is_written(terminal, script, coder, keys: list[str]) -> None:
    script(*writes("/output/a"), "{text: done}")
    keyboard = terminal(*RUN)
    keyboard.asked()
    keyboard.type("a\n")
    for key in keys:
        keyboard.expect(" > ")
        keyboard.type(key)
    keyboard.asked()
    keyboard.type("n\n")
    assert keyboard.end() == 0
    assert coder.read("worker.yaml") == WORKER


def test_a_file_that_cannot_be_edited_gets_lines_to_paste(terminal, script, coder) -> None:
    script(*writes("/output/a"), "{text: done}")
    coder.write("worker.yaml", WORKER.replace("name: coder", "name: coder\r\n#", 1))
    keyboard = terminal(*RUN, columns=150)
    keyboard.asked()
    keyboard.type("a\n")
    keyboard.asked()
    assert "its lines end in different ways" in keyboard.text
    assert "    - {name: output, approval: {write: preApproved}}" in "\n".join(keyboard.lines)
    keyboard.type("n\n")
    assert keyboard.end() == 0


def test_the_log_shows_what_was_given_and_what_it_covered(terminal, script, coder) -> None:
    script(*shell("ls -l", "ls -a", "ls"), "{text: done}")
    keyboard = terminal(*RUN)
    keyboard.asked()
    keyboard.type("s\n")
    keyboard.expect(WHICH)
    keyboard.type("2\n")
    assert keyboard.end() == 0
    session = next(name for name in os.listdir(coder.home / "sessions") if name.endswith(".jsonl"))
    shown = coder.forge("sessions", "show", session.removesuffix(".jsonl"), env={"COLUMNS": "200"}).stdout
    rule = "toolsets.shell.rules: [{pattern: ls, approval: preApproved}]"
    assert shown.count(f"allowed in this session by {rule}") == 2
    assert shown.endswith(f"-- allowed for the session: {rule}; 2 calls covered\n")


# --- without a terminal


RULE = GrantRule(("toolsets", "web", "hosts", "-"), "a.org\x1b[2J", "pages of a.org\x1b[2J")
REQUEST = ApprovalRequest(
    request_id="r1",
    tool_call_id="c1",
    tool_name="fetch",
    args={},
    description="w wants to call fetch",
    reason="it asks",
    risk="high",
    rule=None,
    where=None,
    offers=(THIS_CALL, GrantOffer.of([RULE])),
    policy_files={"user": "/nonexistent/config.yaml", "elsewhere": "/nonexistent/other.yaml"},
)


def test_what_may_be_remembered_and_what_may_be_written() -> None:
    assert list(session_offers(REQUEST)) == list(REQUEST.offers or ())
    assert lasting_offers(REQUEST) == [], "the rule has no place in the user's file, and there is no worker's"
    assert [line.split()[0] for line in explain_grants(REQUEST)] == ["s", "this", "pages"]


@pytest.mark.anyio
async def test_what_a_rule_says_cannot_repaint_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    async def first(question: str) -> str:
        return "2\n"

    decision = await choose_grant(REQUEST, first, new_console())
    assert decision
    assert decision.grant == GrantOffer.of([RULE])
    assert "\x1b" not in capsys.readouterr().err
