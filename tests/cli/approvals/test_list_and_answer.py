"""``forge approvals``: pending requests of parked sessions, and answers to them.

Covers forge_cli.cli.approvals.answer, forge_cli.cli.approvals.common, forge_cli.cli.approvals.list,
forge_cli.ui.transcript.terminal, forge_cli.record.pending.
"""

import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forge_cli.record.log import broken_link, read_session
from forge_cli.record.overview import INDEX
from forge_cli.testing import Project, call, calls
from tests.support.logs import script

TOOLS = '''
"""Something that somebody has to agree to."""


def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    return f"paid {amount} to {to}"
'''

WORKER = """
name: clerk
description: Pays
instructions: You pay.
model: script:script.yaml
toolsets:
  filesystem: {}
  custom: {module: ./tools.py, tools: [pay]}
"""

BOSS = """
name: boss
instructions: You tell the clerk what to pay.
model: script:boss-script.yaml
toolsets:
  workers: {allowed: [worker.yaml], approval: {default: preApproved}}
"""


@pytest.fixture
def clerk(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("tools.py", TOOLS)
    script(project, TWO, "{results[0]}; {results[1]}")
    return project


TWO = calls(
    call("pay", to="Ana\x1b[2J", amount=5),
    call("write_file", path="/workspace/a.txt", content="x\n" * 50),
)


def log(project: Project) -> Path:
    (path,) = (project.home / "sessions").glob("*.jsonl")
    return path


def pending(cli: Callable[..., Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(cli("approvals", "list", "--json").out)
    return found


@pytest.fixture
def parked(clerk: Project, cli) -> list[dict[str, Any]]:
    """The requests of a parked session."""
    done = cli("run", "worker.yaml", "go", "--on-ask", "park")
    assert done.code == 10
    assert (
        f"forge approvals list shows the pending requests; after the answers: -r {log(clerk).stem}"
        in done.err
    )
    return pending(cli)


def test_list_without_pending_requests(clerk, cli) -> None:
    done = cli("approvals", "list")
    assert (done.out, done.err, pending(cli)) == ("", "no requests wait for an answer\n", [])


def test_list_shows_everything_needed_to_decide(clerk, cli, parked) -> None:
    pay, write = parked
    assert {key: pay[key] for key in pay.keys() - {"request", "time"}} == {
        "session": log(clerk).stem,
        "worker": "clerk",
        "tool": "pay",
        "args": {"to": "Ana\x1b[2J", "amount": 5},
        "reason": "neither the tool nor the worker says anything, so it asks",
        "risk": "high",
        "rule": None,
        "where": None,
        "preview": None,
        "distribution": None,
        "pid": None,
        "heldSecret": False,
        "answer": None,
    }
    assert write["preview"]["kind"] == "diff"
    done = cli("approvals", "list")
    assert (done.code, done.err) == (0, "")
    assert "\x1b" not in done.out
    shown = done.out.splitlines()
    assert shown[0].startswith(f"{log(clerk).stem} {pay['request']} 20")
    assert shown[1:5] == [
        "  clerk wants to call pay (risk: high)",
        '    to: "Ana\\u001b[2J"',
        "    amount: 5",
        "  why: neither the tool nor the worker says anything, so it asks",
    ]
    assert "      +++ a.txt" in shown
    assert "      ... 33 more lines" in shown
    session, request = (
        log(clerk).stem.rpartition("-")[2],
        write["request"].removeprefix("approval_"),
    )
    assert shown[-2:] == [
        "  why: writing in zone 'workspace' needs your OK",
        f"  to answer, run: forge approvals answer {session} {request} yes",
    ]
    assert cli("approvals", "answer", session, request, "no").code == 0
    assert "  answered: no" in cli("approvals", "list").out.splitlines()


def test_answer_is_a_line_of_the_log(clerk, cli, parked) -> None:
    before = log(clerk).read_bytes()
    session, request = log(clerk).stem, parked[0]["request"]
    done = cli("approvals", "answer", session[:15], request, "no", "Bob, not Ana")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"no to pay ({request})",
        f"still waits: {parked[1]['request']}: write_file",
        f"then resume with: forge run {clerk.folder}/worker.yaml -r {session}",
    ]
    read = read_session(log(clerk))
    assert log(clerk).read_bytes().startswith(before)
    assert (broken_link(read), log(clerk).stat().st_mode & 0o777) == (None, 0o600)
    answer = read.lines[-1].data
    assert {
        key: answer[key] for key in ("type", "worker", "depth", "requestId", "approved", "note")
    } == {
        "type": "approvalResponse",
        "worker": "clerk",
        "depth": 0,
        "requestId": request,
        "approved": False,
        "note": "Bob, not Ana",
    }
    assert pending(cli)[0]["answer"] == {"approved": False, "note": "Bob, not Ana"}
    assert "  answered: no: Bob, not Ana\n" in cli("approvals", "list").out
    assert json.loads(cli("sessions", "list", "--json").out)[0]["status"] == "parked"
    assert sorted(os.listdir(log(clerk).parent)) == [INDEX, log(clerk).name]


def test_first_answer_counts_also_after_the_session_was_resumed(clerk, cli, parked) -> None:
    session, request = parked[0]["session"], parked[0]["request"]
    assert cli("approvals", "answer", session, request, "yes").code == 0
    for word in ("no", "yes"):
        done = cli("approvals", "answer", session, request, word)
        assert (done.code, done.out) == (1, "")
        by = f"forge: {request} is already answered: yes, by forge approvals answer, at 20"
        assert done.err.startswith(by)
    assert cli("run", "worker.yaml", "-c").out.startswith("paid 5 to Ana")
    assert cli("approvals", "answer", session, request, "no").err.startswith(by)


def test_beginning_of_a_request_id_is_sufficient(clerk, cli, parked) -> None:
    session, (first, second) = parked[0]["session"], (row["request"] for row in parked)
    done = cli("approvals", "answer", session, "approval_", "yes")
    assert done.code == 2
    assert done.err.startswith("forge: 'approval_' matches 2 requests\n")
    assert f"{first}: pay\n  {second}: write_file\n" in done.err
    assert cli("approvals", "answer", session, first[:-2], "yes").code == 0
    assert (
        cli("approvals", "answer", session, second.removeprefix("approval_")[:8], "yes").code == 0
    )
    assert [row["answer"]["approved"] for row in pending(cli)] == [True, True]


def test_only_request_needs_no_id(clerk, cli, parked) -> None:
    session, first = parked[0]["session"], parked[0]["request"]
    done = cli("approvals", "answer", session, "yes")
    assert (done.code, done.err.splitlines()[0]) == (
        2,
        f"forge: the session {session} has 2 pending requests; name one",
    )
    for words in (["perhaps"], ["pay", "perhaps"], [first, "yes", "a", "b"], []):
        assert cli("approvals", "answer", session, *words).code == 2
    assert {row["answer"] is None for row in pending(cli)} == {True}
    clerk.write(
        "one.yaml", "turns: [{calls: [{tool: pay, input: {to: Bob, amount: 1}}]}, {text: ok}]"
    )
    cli("run", "worker.yaml", "again", "--on-ask", "park", "-m", "script:one.yaml")
    done = cli("approvals", "answer", "last", "no", "not Bob")
    assert done.out.startswith("no to pay (approval_")
    assert {"approved": False, "note": "not Bob"} in [row["answer"] for row in pending(cli)]


def test_last_is_the_last_session_with_a_pending_request(clerk, cli) -> None:
    clerk.write(
        "one.yaml", "turns: [{calls: [{tool: pay, input: {to: Bob, amount: 1}}]}, {text: ok}]"
    )
    clerk.write("none.yaml", "turns: [{text: nothing}]")
    for task in ("first", "second"):
        assert (
            cli("run", "worker.yaml", task, "--on-ask", "park", "-m", "script:one.yaml").code == 10
        )
    assert cli("run", "worker.yaml", "third", "-m", "script:none.yaml").code == 0
    first, second = sorted(pending(cli), key=lambda row: row["time"])
    for request in (second["request"], first["request"]):
        assert cli("approvals", "answer", "last", "yes").out.startswith(f"yes to pay ({request})")
    done = cli("approvals", "answer", "last", "no")
    assert done.err.startswith(f"forge: {second['request']} is already answered: yes")


@pytest.mark.parametrize("request_id", ["approval_000", "pay"])
def test_unknown_request_lists_the_pending_ones(clerk, cli, parked, request_id: str) -> None:
    before = log(clerk).read_bytes()
    done = cli("approvals", "answer", parked[0]["session"], request_id, "yes")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"forge: the session {log(clerk).stem} has no pending request '{request_id}'\n"
        f"  {parked[0]['request']}: pay\n  {parked[1]['request']}: write_file\n"
    )
    assert log(clerk).read_bytes() == before


def test_unknown_session_or_answer_is_an_error(clerk, cli, parked) -> None:
    assert cli("approvals", "answer", "nothing", parked[0]["request"], "yes").code == 3
    assert (
        cli("approvals", "answer", parked[0]["session"], parked[0]["request"], "perhaps").code == 2
    )


def test_changed_log_accepts_no_answers(clerk, cli, parked) -> None:
    log(clerk).write_text(log(clerk).read_text().replace('"amount": 5', '"amount": 9'))
    before = log(clerk).read_bytes()
    done = cli("approvals", "answer", parked[0]["session"], parked[0]["request"], "yes")
    assert (done.code, done.out, log(clerk).read_bytes()) == (3, "", before)
    assert "was tampered with" in done.err
    assert pending(cli) == []


def test_incomplete_line_makes_room_for_the_answer(clerk, cli, parked) -> None:
    with log(clerk).open("a") as file:
        file.write('{"v": 1, "seq')
    assert len(pending(cli)) == 2
    assert cli("approvals", "answer", parked[0]["session"], parked[0]["request"], "yes").code == 0
    read = read_session(log(clerk))
    assert (read.dropped, broken_link(read), read.lines[-1].type) == (
        False,
        None,
        "approvalResponse",
    )


def test_feedback_is_redacted(clerk, cli, parked, monkeypatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "correct horse battery")
    cli(
        "approvals",
        "answer",
        parked[0]["session"],
        parked[0]["request"],
        "no",
        "use correct horse battery",
    )
    assert "correct horse battery" not in log(clerk).read_text()
    assert "use [redacted:SHOP_PASSWORD]" in log(clerk).read_text()


def test_next_command_can_be_copied(clerk, cli, monkeypatch, tmp_path) -> None:
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    clerk.write("other.yaml", clerk.read("script.yaml"))
    assert cli("run", "worker.yaml", "go", "--on-ask", "park", "-m", "script:other.yaml").code == 10
    parked = pending(cli)
    monkeypatch.chdir(elsewhere)
    done = cli("approvals", "answer", "last", parked[0]["request"], "yes")
    words = shlex.split(done.out.splitlines()[-1].removeprefix("then resume with: "))
    assert words[0] == "forge"
    assert words[-2:] == ["-m", "script:other.yaml"]
    assert cli(*words[1:]).out.startswith("paid 5 to Ana")


def test_child_worker_can_wait_for_an_answer(clerk, cli) -> None:
    clerk.write("boss.yaml", BOSS)
    script(
        clerk,
        calls(call("clerk", input="pay Ana")),
        "The clerk says: {result}",
        name="boss-script.yaml",
    )
    script(clerk, calls(call("pay", to="Ana", amount=5)), "I {result}")
    assert cli("run", "boss.yaml", "go", "--on-ask", "park").code == 10
    (row,) = pending(cli)
    assert (row["worker"], row["tool"]) == ("boss > clerk", "pay")
    assert "  boss > clerk wants to call pay (risk: high)\n" in cli("approvals", "list").out
    done = cli("approvals", "answer", row["session"], row["request"], "yes")
    assert done.out.endswith(
        f"then resume with: forge run {clerk.folder}/boss.yaml -r {row['session']}\n"
    )
    assert cli("run", "boss.yaml", "-c").out == "The clerk says: I paid 5 to Ana\n"
    assert pending(cli) == []


def test_answers_choose_between_several_sessions(clerk, cli) -> None:
    script(clerk, calls(call("pay", to="Ana", amount=5)), "{result}")
    for task in ("one", "two"):
        assert cli("run", "worker.yaml", task, "--on-ask", "park").code == 10
    second, first = pending(cli)
    assert second["session"] != first["session"]
    cli("approvals", "answer", first["session"], first["request"], "yes")
    assert cli("run", "worker.yaml", "-r", first["session"]).out == "paid 5 to Ana\n"
    assert [row["session"] for row in pending(cli)] == [second["session"]]
    assert cli("run", "worker.yaml", "-r", second["session"]).out.startswith(
        "pay was not called; denied"
    )


def test_session_killed_during_its_question_can_be_answered(clerk, cli, parked) -> None:
    lines = log(clerk).read_text().splitlines(keepends=True)
    assert '"sessionEnd"' in lines[-1]
    log(clerk).write_text("".join(lines[:-1]))
    assert [row["request"] for row in pending(cli)] == [row["request"] for row in parked]
    cli("approvals", "answer", parked[0]["session"], parked[0]["request"], "yes")
    assert cli("run", "worker.yaml", "-c").out.startswith("paid 5 to Ana")
