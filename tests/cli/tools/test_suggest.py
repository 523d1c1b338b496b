"""``forge tools suggest``: what recurs in the logs of sessions.

Covers forge_cli.cli.tools.suggest, forge_cli.record.sequences.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from forge_cli.cli.tools import suggest
from forge_cli.testing import Project
from tests.support.logs import script

WORKER = """
name: clerk
model: script:script.yaml
sandbox: {isolation: off}
toolsets:
  plan: {}
  shell:
    rules:
      - {pattern: "false", approval: blocked}
      - {pattern: "echo", approval: preApproved}
      - {pattern: "wc", approval: preApproved}
    default: preApproved
"""


@pytest.fixture
def clerk(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    return project


def shell(*commands: str, tool: str = "shell") -> dict[str, Any]:
    return {"calls": [{"tool": tool, "input": {"command": command}} for command in commands]}


def work(cli: Any, project: Project, *turns: Any) -> None:
    script(project, *turns, "done")
    assert cli("run", "worker.yaml", "go", "-p").code == 0


def suggested(cli: Any) -> list[dict[str, Any]]:
    done = cli("tools", "suggest", "--json")
    assert done.code == 0
    return json.loads(done.out)


def test_a_sequence_that_recurs(cli, clerk: Project) -> None:
    for number in range(3):
        work(
            cli,
            clerk,
            shell(f"echo {number}"),
            shell(f"wc -l file{number}.txt", tool="exec_command"),
        )
    assert suggested(cli) == [
        {"count": 3, "sessions": 3, "commands": ["echo <number>", "wc -l <path>"]}
    ]
    done = cli("tools", "suggest")
    lines = done.out.splitlines()
    assert lines[0].split() == ["count", "sessions", "commands"]
    assert lines[1].split(maxsplit=2) == ["3", "3", "echo <number> ; wc -l <path>"]
    assert done.err == ""


def test_nothing_recurs(cli, clerk: Project) -> None:
    work(cli, clerk, shell("echo 1", "echo 2", "echo 3"))
    done = cli("tools", "suggest")
    assert (done.code, done.out, done.err) == (0, "", "no commands recur 3 times in 2 sessions\n")
    assert suggested(cli) == []


def test_what_was_not_called_and_what_lies_between(cli, clerk: Project) -> None:
    plan = {
        "calls": [{"tool": "update_plan", "input": {"plan": [{"step": "x", "status": "pending"}]}}]
    }
    for _ in range(3):
        work(cli, clerk, shell("echo a", "false", "echo b"), plan, shell("echo c"))
    assert [row["commands"] for row in suggested(cli)] == [["echo a"], ["echo b"], ["echo c"]]


def test_the_copy_of_a_session_counts_once(cli, clerk: Project) -> None:
    work(cli, clerk, shell("echo a"))
    work(cli, clerk, shell("echo a"))
    script(clerk, "done")
    assert cli("run", "worker.yaml", "more", "-p", "-c", "--fork").code == 0
    assert suggested(cli) == []


def test_secrets_stay_redacted(cli, clerk: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_TOKEN", "hunter2hunter2")
    for _ in range(3):
        work(cli, clerk, shell("echo hunter2hunter2"))
    assert suggested(cli)[0]["commands"] == ["echo [redacted:MY_API_TOKEN]"]
    monkeypatch.delenv("MY_API_TOKEN")
    for log in (clerk.home / "sessions").glob("*.jsonl"):
        log.write_text(log.read_text().replace("[redacted:MY_API_TOKEN]", "another-secret-of-mine"))
    monkeypatch.setenv("OTHER_TOKEN", "another-secret-of-mine")
    assert suggested(cli)[0]["commands"] == ["echo [redacted:OTHER_TOKEN]"]


def test_only_so_much_is_read(cli, clerk: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(4):
        work(cli, clerk, shell("echo a"))
    assert suggested(cli)[0]["count"] == 4
    monkeypatch.setattr(suggest, "MOST_SESSIONS", 3)
    done = cli("tools", "suggest", "--json")
    assert json.loads(done.out)[0]["count"] == 3
    assert done.err == "only the last 3 of 4 sessions were read\n"
    monkeypatch.setattr(suggest, "MOST_BYTES", 100)
    assert json.loads(cli("tools", "suggest", "--json").out) == []


def test_what_is_no_log_is_passed_over(cli, clerk: Project) -> None:
    for _ in range(3):
        work(cli, clerk, shell("echo a"))
    folder: Path = clerk.home / "sessions"
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "junk.jsonl").write_bytes(
        b'\xff\n{}\n{"seq": 1, "type": "toolStarted", "toolCallId": 3}\n['
    )
    assert suggested(cli)[0]["count"] == 3
