"""Consent by kind on a real terminal: rules for the session, or to be written into a file."""

import json
import os

import pexpect
import pytest
import yaml

from forge_cli.core.approval import THIS_CALL, ApprovalRequest, GrantOffer, GrantRule
from forge_cli.ui.terminal.console import new_console
from forge_cli.ui.terminal.grants import (
    edits_offer,
    explain_grants,
    grant,
    lasting_offer,
    session_offers,
)

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
    try: off
    # what it may run
    timeout: 9
"""
WRITES = "Enter writes it, Esc goes back > "


def shell(*commands: str) -> list[str]:
    return [
        f"{{calls: [{{tool: shell, input: {{command: {json.dumps(each)}}}}}]}}" for each in commands
    ]


def writes(*paths: str) -> list[str]:
    return [
        f"{{calls: [{{tool: write_file, input: {{path: {path}, content: x}}}}]}}" for path in paths
    ]


@pytest.fixture
def coder(writer):
    writer.write("worker.yaml", WORKER)
    return writer


def tail(keyboard, after: str) -> list[str]:
    """The screen after the last line with this end."""
    lines = keyboard.lines
    return lines[max(at for at, line in enumerate(lines) if line.endswith(after)) + 1 :]


@pytest.mark.few(1)
@pytest.mark.parametrize("columns", [80, 50])
def test_wider_rule_is_chosen_by_a_digit(terminal, script, coder, columns: int) -> None:
    script(*shell("ls -l", "ls -a"), "{text: done}")
    keyboard = terminal(*RUN, columns=columns)
    assert "s2 for this session: commands that begin with ls" in keyboard.asked()
    keyboard.type("s\n")
    keyboard.expect("[2] as")
    keyboard.type("2\n")
    assert keyboard.end() == 0
    assert "granted for this session: commands that begin with ls" in keyboard.text
    assert keyboard.seen.count("wants to call") == 1


def test_offer_states_how_many_questions_it_would_have_saved(terminal, script, coder) -> None:
    script(*shell("wc x", "wc y", "git add . && git commit -m x"), "{text: done}")
    keyboard = terminal(*RUN, columns=80)
    for offer in (
        "commands that begin with wc",
        "commands that begin with wc (would have covered 1 call so far)",
        "commands that begin with git add and commands that begin with git commit",
    ):
        assert f"s2 for this session: {offer}" in " ".join(keyboard.asked().split())
        keyboard.type("n\n")
    assert keyboard.end() == 0


@pytest.mark.parametrize("keys", [["\x04"], ["a\n", "\x04"]], ids=repr)
def test_end_of_input_is_a_no(terminal, script, coder, keys) -> None:
    script(*shell("ls -l"), '{text: "{result}"}')
    keyboard = terminal(*RUN)
    keyboard.asked()
    for key in keys:
        keyboard.type(key)
        if key != keys[-1]:
            keyboard.expect(WRITES)
    assert keyboard.end() == 0
    assert "shell was not called; the user said no" in keyboard.text


@pytest.mark.few(2)
@pytest.mark.parametrize("command", ["ls $(echo .)", "rm -rf build", "python", "bash x.sh"])
def test_exact_call_is_offered_if_no_wider_rule_is_safe(
    terminal, script, coder, command: str
) -> None:
    script(*shell(command, command), "{text: done}")
    keyboard = terminal(*RUN)
    assert "s  for this session: this exact call" in keyboard.asked()
    assert keyboard.lines[-1] == "[y]es once, [s]ession, [n]o, [t]ell why not, [?] why > "
    keyboard.type("n\n")
    keyboard.asked()
    keyboard.type("n\n")
    assert keyboard.end() == 0


def test_written_rule_keeps_earlier_grants(terminal, script, coder) -> None:
    script(*shell("wc x", "ls -l", "wc y"), "{text: done}")
    keyboard = terminal(*RUN, columns=120)
    keyboard.asked()
    keyboard.type("s2\n")
    keyboard.asked()
    keyboard.type("a\n")
    keyboard.expect(WRITES)
    keyboard.type("\n")
    assert keyboard.end() == 0
    assert keyboard.seen.count("wants to call") == 2


def test_rule_for_all_sessions_is_written_to_the_user_config(terminal, script, coder) -> None:
    script(*shell("ls -l", "ls -a"), "{text: done}")
    keyboard = terminal(*RUN, columns=120)
    keyboard.asked()
    keyboard.type("a\n")
    keyboard.expect(WRITES)
    config = coder.home / "config.yaml"
    assert tail(keyboard, "why > a")[1:] == [
        "  │ 1 + policy:",
        "  │ 2 +   shell:",
        "  │ 3 +     rules:",
        "  │ 4 +       - {pattern: ls, approval: preApproved}",
        WRITES,
    ]
    assert not config.exists()
    keyboard.type("x\n")
    keyboard.expect("press Enter to write it")
    keyboard.expect(WRITES)
    keyboard.type("\n")
    assert keyboard.end() == 0
    assert "granted always: commands that begin with ls; written to " in keyboard.text
    assert keyboard.seen.count("wants to call") == 1, "the session uses it at once"
    assert (
        config.read_text()
        == "policy:\n  shell:\n    rules:\n      - {pattern: ls, approval: preApproved}\n"
    )
    verdict = coder.forge("approve", "worker.yaml", "shell", "command=ls -l", "--json")
    assert (json.loads(verdict.stdout)["verdict"], json.loads(verdict.stdout)["rule"]) == (
        "preApproved",
        "policy.shell.rules[0]",
    )


ALL_SETS = (
    "coder asks once: may it use builds on a copy (npm run build), requests to servers on this machine (curl 127.0.0.1), "
    "commands that show containers (docker ps), in this folder?"
)
KEPT = "[y]es, [n]o, [?] why > "


@pytest.mark.parametrize(
    ("key", "use"), [("y", ["building", "localhost", "containers"]), ("n", [])], ids=repr
)
def test_one_answer_for_all_rule_sets_of_a_folder_is_stored(
    terminal, script, coder, key: str, use: list[str]
) -> None:
    lines = ["curl -s http://127.0.0.1:9/", "docker ps"]
    script(*shell(*lines), "{text: done}")
    keyboard = terminal(*RUN, columns=120)
    keyboard.expect(KEPT)
    assert ALL_SETS in keyboard.text
    keyboard.type("?\n")
    keyboard.expect("it is not asked again")
    keyboard.expect(KEPT)
    keyboard.type(f"{key}\n")
    for _ in () if use else lines:
        keyboard.asked()
        keyboard.type("n\n")
    assert keyboard.end() == 0
    kept = yaml.safe_load((coder.home / "config.yaml").read_text())["policy"]["shell"]["folders"]
    assert kept == [{"path": str(coder.folder), "use": use}]
    judged = [
        json.loads(
            coder.forge("approve", "worker.yaml", "shell", f"command={line}", "--json").stdout
        )
        for line in lines
    ]
    assert [each["verdict"] for each in judged] == (["preApproved"] if use else ["ask"]) * len(
        lines
    )
    assert not any(
        "use:" in rule
        for each in judged
        for grant in each.get("grants", [])
        for rule in grant["rules"]
    )


def test_end_of_input_is_not_stored_as_an_answer(terminal, script, coder) -> None:
    script(*shell("docker ps"), "{text: done}")
    keyboard = terminal(*RUN, columns=120)
    keyboard.expect(KEPT)
    keyboard.type("\x04")
    keyboard.asked()
    keyboard.type("n\n")
    assert keyboard.end() == 0
    assert not (coder.home / "config.yaml").exists()


@pytest.mark.long
def test_rule_for_edits_in_this_folder_is_written(terminal, script, coder) -> None:
    script(*writes("/output/a", "/output/b", "/output/.env"), "{text: done}")
    keyboard = terminal(*RUN, columns=160)
    keyboard.asked()
    keyboard.type("?\n")
    keyboard.asked()
    folder = (coder.folder / "output").resolve()
    written = f"policy:\n  filesystem:\n    edits:\n      - {folder}\n"
    assert all(f"            {line}" in keyboard.lines for line in written.splitlines())
    keyboard.type("a\n")
    keyboard.expect(WRITES)
    keyboard.type("\n")
    assert "is a protected name" in " ".join(keyboard.asked().split())
    keyboard.type("n\n")
    assert keyboard.end() == 0
    assert coder.read("worker.yaml") == WORKER
    assert (coder.home / "config.yaml").read_text() == written

    def verdict(path: str) -> str:
        done = coder.forge(
            "approve", "worker.yaml", "write_file", f"path={path}", "content=x", "--json"
        )
        return str(json.loads(done.stdout)["verdict"])

    assert [verdict("/output/c"), verdict("/output/.env")] == ["preApproved", "ask"]
    coder.write("worker.yaml", WORKER.replace("mode: rw}", "mode: rw, approval: {write: ask}}"))
    assert verdict("/output/c") == "ask", "what the worker says itself is stricter"


def test_file_that_cannot_be_edited_gives_lines_to_paste(terminal, script, coder) -> None:
    script(*writes("/output/a"), "{text: done}")
    coder.write("worker.yaml", WORKER.replace("name: coder", "name: coder\r\n#", 1))
    coder.home.mkdir()
    (coder.home / "config.yaml").write_bytes(b"trace: quiet\r\n# mine\n")
    keyboard = terminal(*RUN, columns=150)
    keyboard.asked()
    keyboard.type("a\n")
    keyboard.asked()
    assert "its lines end in different ways" in keyboard.text
    assert "    - {name: output, approval: {write: preApproved}}" in "\n".join(keyboard.lines)
    keyboard.type("n\n")
    assert keyboard.end() == 0


@pytest.mark.long
def test_log_shows_a_grant_and_the_calls_it_covered(terminal, script, coder) -> None:
    script(*shell("ls -l", "ls -a", "ls"), "{text: done}")
    keyboard = terminal(*RUN)
    keyboard.asked()
    keyboard.type("s2\n")
    assert keyboard.end() == 0
    session = next(name for name in os.listdir(coder.home / "sessions") if name.endswith(".jsonl"))
    shown = coder.forge(
        "sessions", "show", session.removesuffix(".jsonl"), env={"COLUMNS": "200"}
    ).stdout
    rule = "toolsets.shell.rules: [{pattern: ls, approval: preApproved}]"
    assert shown.count(f"allowed in this session by {rule}") == 2
    assert shown.endswith(f"-- allowed for the session: {rule}; 2 calls covered\n")


# --- tools without a verdict of their own: the very call first, and every call only where it is chosen


REFUNDS = [
    f"{{calls: [{{tool: echo, input: {{text: {name}}}}}]}}" for name in ("ana", "ana", "ben")
]
KEYS = {"TERM": "xterm-256color", "NO_COLOR": "1"}
EVERY = "every call of echo"
WHICH = "for this session: [Enter] this exact call, [2] as listed > "


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("keys", "granted", "asked"),
    [
        (["s", "\r"], "this exact call", 2),
        (["s", "1"], "this exact call", 2),
        (["s", "x", "9", "\x1b[A", "\r"], "this exact call", 2),
        (["s", "2"], EVERY, 1),
        (["s", "\x1b", "s", "2"], EVERY, 1),
    ],
    ids=repr,
)
def test_grant_for_every_call_of_a_tool_must_be_chosen(
    terminal, script, keys, granted: str, asked: int
) -> None:
    script(*REFUNDS, "{text: done}")
    keyboard = terminal(*RUN, **KEYS)
    shown = keyboard.asked()
    assert shown.index("s  for this session: this exact call") < shown.index(
        f"s2 for this session: {EVERY}"
    )
    for key in keys:
        keyboard.type(key)
        if key == "s":
            keyboard.expect(WHICH)
        elif key == "\x1b":
            keyboard.asked()
        elif key != keys[-1]:
            with pytest.raises(pexpect.TIMEOUT):
                keyboard.child.expect_exact("granted", timeout=0.5)
    keyboard.expect(f"granted for this session: {granted}")
    if asked > 1:
        assert "ben" in keyboard.asked()
        keyboard.type("n")
    assert keyboard.end() == 0
    assert keyboard.seen.count("wants to call") == asked


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("lines", "granted", "asked"),
    [
        (["s\n", "\n"], "this exact call", 2),
        (["s\n", "2\n"], EVERY, 1),
        (["s2\n"], EVERY, 1),
        (["session 1\n"], "this exact call", 2),
        (["s\n", "3\n", "s 2\n"], EVERY, 1),
    ],
    ids=repr,
)
def test_grants_are_chosen_by_lines_on_a_plain_terminal(
    terminal, script, lines, granted: str, asked: int
) -> None:
    script(*REFUNDS, "{text: done}")
    keyboard = terminal(*RUN)
    keyboard.asked()
    for line in lines:
        keyboard.type(line)
        if line == "s\n":
            keyboard.expect(WHICH)
        elif line != lines[-1]:
            keyboard.asked()
    keyboard.expect(f"granted for this session: {granted}")
    if asked > 1:
        keyboard.asked()
        keyboard.type("n\n")
    assert keyboard.end() == 0
    assert keyboard.seen.count("wants to call") == asked


def test_end_of_input_after_s_is_a_no(terminal, script) -> None:
    script(REFUNDS[0], '{text: "{result}"}')
    keyboard = terminal(*RUN)
    keyboard.asked()
    keyboard.type("s\n")
    keyboard.expect(WHICH)
    keyboard.type("\x04")
    assert keyboard.end() == 0
    assert "the user said no" in keyboard.text


def test_single_grant_needs_one_key(terminal, script) -> None:
    script(*["{calls: [{tool: careful, input: {what: odd}}]}"] * 2, "{text: done}")
    keyboard = terminal(*RUN, **KEYS)
    assert "s2" not in keyboard.asked()
    keyboard.type("s")
    keyboard.expect("granted for this session: this exact call")
    assert keyboard.end() == 0
    assert keyboard.seen.count("wants to call") == 1


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


def test_offers_depend_on_the_places_of_rules() -> None:
    assert session_offers(REQUEST) == [THIS_CALL, GrantOffer.of([RULE])]
    assert edits_offer(REQUEST) is None
    assert lasting_offer(REQUEST) is None, (
        "the rule has no place in the user's file, and there is no worker's"
    )
    assert [line.split()[0] for line in explain_grants(REQUEST)] == ["s", "s2"]


def test_text_of_a_rule_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert grant(GrantOffer.of([RULE]), new_console()).grant == GrantOffer.of([RULE])
    assert "\x1b" not in capsys.readouterr().err
