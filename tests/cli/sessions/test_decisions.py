"""Audit: the decisions of sessions as csv, and every log verified at once.

Covers forge_cli.record.calls, forge_cli.record.reading.
"""

import csv
import io
import json
from collections.abc import Callable

from forge_cli.core.errors import ExitCode
from forge_cli.testing import Project
from tests.support.command_line import Done

Cli = Callable[..., Done]

WORKER = """
name: clerk
model: script:script.yaml
sandbox: {zones: [{name: notes, mode: rw, approval: {write: preApproved, delete: blocked}}]}
toolsets:
  filesystem: {}
  shell: {rules: [{pattern: "echo", approval: preApproved}], try: off}
"""
SCRIPT = """
turns:
  - calls:
      - {tool: write_file, input: {path: /notes/a.md, content: "=1+1"}}
      - {tool: delete_file, input: {path: /notes/a.md}}
      - {tool: shell, input: {command: "=cmd"}}
      - {tool: shell, input: {command: "echo hi"}}
  - text: done
"""


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_every_decision_is_a_row(cli: Cli, project: Project) -> None:
    project.write("worker.yaml", WORKER)
    project.write("script.yaml", SCRIPT)
    assert cli("run", "worker.yaml", "go", "-p").code == 0
    found = rows(cli("sessions", "export", "last", "--format", "csv").out)
    told = [
        (row["tool"], row["verdict"], row["approved"], row["by"], row["status"]) for row in found
    ]
    assert told == [
        ("write_file", "preApproved", "true", "rule", "success"),
        ("delete_file", "blocked", "false", "rule", "blocked"),
        ("shell", "ask", "false", "headless", "denied"),
        ("shell", "preApproved", "true", "rule", "success"),
    ]
    assert found[3]["where"].startswith("worker.yaml:7:")
    assert found[3]["rule"] == "toolsets.shell.rules[0]"
    assert len({row["fingerprint"] for row in found}) == 4
    assert json.loads(found[2]["input"]) == {"command": "=cmd"}


def test_export_puts_all_sessions_into_one_table(cli: Cli, project: Project) -> None:
    project.write("worker.yaml", WORKER)
    project.write("script.yaml", SCRIPT)
    for _ in range(2):
        cli("run", "worker.yaml", "go", "-p")
    file, killed = (
        project.folder / "audit.csv",
        project.home / "sessions" / "20261118-000000-77777777.jsonl",
    )
    killed.write_text('{"v": 1, "seq": 1, "ti')
    done = cli("sessions", "export", "--all", "-o", str(file))
    assert (done.code, done.err.splitlines()[0]) == (
        0,
        f"forge: {killed}:1:1: not a session log; skipped",
    )
    found = rows(file.read_text())
    assert len(found) == 8
    assert len({row["session"] for row in found}) == 2
    assert found[0]["time"] <= found[-1]["time"]
    project.write("script.yaml", "turns: [{text: again}]\n")
    assert cli("run", "worker.yaml", "more", "-r", found[0]["session"], "--fork", "-p").code == 0
    killed.unlink()
    assert rows(cli("sessions", "export", "--all", "--format", "csv").out) == found
    assert len(rows(cli("sessions", "export", "last", "--format", "csv").out)) == 4
    for wrong in (["--all"], ["last", "--all", "--format", "csv"], ["--format", "csv"]):
        assert cli("sessions", "export", *wrong).code == ExitCode.USAGE


def test_verify_checks_all_logs(cli: Cli, project: Project) -> None:
    project.write("worker.yaml", WORKER)
    project.write("script.yaml", SCRIPT)
    for _ in range(2):
        cli("run", "worker.yaml", "go", "-p")
    assert [row["ok"] for row in json.loads(cli("sessions", "verify", "--all", "--json").out)] == [
        True,
        True,
    ]
    log = sorted((project.home / "sessions").glob("*.jsonl"))[0]
    log.write_text(log.read_text().replace('"preApproved"', '"blocked"', 1))
    done = cli("sessions", "verify", "--all", "--json")
    assert (done.code, sorted(row["ok"] for row in json.loads(done.out))) == (1, [False, True])
    assert cli("sessions", "verify", "last", "--all").code == ExitCode.USAGE
