"""``forge approve --against``: the calls of a past session under the policy of today.

Covers forge_cli.inspection.past.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forge_cli.testing import Project

WORKER = """
name: clerk
model: script:script.yaml
sandbox:
  zones:
    - {name: notes, mode: rw, approval: {write: ask, delete: preApproved}}
    - {name: drafts, mode: rw, approval: {write: preApproved}}
toolsets: {filesystem: {}}
"""
SCRIPT = """
turns:
  - calls:
      - {tool: write_file, input: {path: /notes/a.txt, content: x}}
      - {tool: write_file, input: {path: /drafts/a.txt, content: x}}
      - {tool: delete_file, input: {path: /notes/a.txt}}
      - {tool: read_file, input: {path: /drafts/a.txt}}
      - {tool: nothing, input: {}}
  - text: Done.
"""
Cli = Callable[..., Any]


@pytest.fixture(autouse=True)
def clerk(project: Project, cli: Cli) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("script.yaml", SCRIPT)
    done = cli("run", "worker.yaml", "go", "-p", "-y", "--record", "record.jsonl")
    assert (done.code, done.err) == (0, "")
    return project


def change(project: Project, old: str, new: str) -> None:
    assert old in project.read("worker.yaml")
    project.write("worker.yaml", project.read("worker.yaml").replace(old, new))


def test_unchanged_worker_has_no_differences(cli: Cli, clerk: Project) -> None:
    session = next(clerk.home.glob("sessions/*.jsonl")).stem
    for name in (session, "record.jsonl"):
        done = cli("approve", "worker.yaml", "--against", name)
        assert (done.code, done.err) == (0, "")
        assert done.out.splitlines() == [
            f"{session}: 5 calls, 1 prompt before, 1 after",
            "0 newly blocked, 0 newly allowed, 0 newly asking, 0 newly refused, 5 unchanged",
        ]


def test_every_change_is_reported_with_its_reasons(cli: Cli, clerk: Project) -> None:
    change(clerk, "{write: ask, delete: preApproved}", "{write: preApproved, delete: blocked}")
    change(clerk, "{write: preApproved}}", "{write: ask}}")
    done = cli("approve", "worker.yaml", "--against", "record.jsonl")
    assert done.code == 0
    lines = done.out.splitlines()
    assert [line for line in lines if line.startswith("newly")] == [
        'newly blocked: delete_file {"path": "/notes/a.txt"}',
        'newly allowed: write_file {"path": "/notes/a.txt", "content": "x"}',
        'newly asking: write_file {"path": "/drafts/a.txt", "content": "x"}',
    ]
    assert lines[1] == "  before: preApproved: zone 'notes' pre-approves delete (worker.yaml:6:62)"
    assert lines[2] == "  after: blocked: zone 'notes' blocks delete (worker.yaml:6:70)"
    assert lines[-2].endswith("5 calls, 1 prompt before, 1 after")
    assert (
        lines[-1]
        == "1 newly blocked, 1 newly allowed, 1 newly asking, 0 newly refused, 2 unchanged"
    )
    assert clerk.read("drafts/a.txt") == "x"


def test_differences_are_printed_as_json(cli: Cli, clerk: Project) -> None:
    change(clerk, "{write: ask, delete: preApproved}", "{write: preApproved, delete: blocked}")
    done = cli("approve", "worker.yaml", "--against", "record.jsonl", "--json")
    found = json.loads(done.out)
    assert (done.code, found["worker"], found["calls"], found["unchanged"]) == (0, "clerk", 5, 3)
    assert found["prompts"] == {"before": 1, "after": 0}
    assert [len(found[f"newly{kind}"]) for kind in ("Blocked", "Allowed", "Asking", "Refused")] == [
        1,
        1,
        0,
        0,
    ]
    blocked = found["newlyBlocked"][0]
    assert (blocked["tool"], blocked["input"]) == ("delete_file", {"path": "/notes/a.txt"})
    assert (blocked["before"]["verdict"], blocked["after"]["verdict"]) == ("preApproved", "blocked")
    assert blocked["after"]["rule"] == "sandbox.zones.notes.approval.delete"


def test_removed_tool_counts_as_refused(cli: Cli, clerk: Project) -> None:
    change(clerk, "{filesystem: {}}", "{filesystem: {tools: [read_file]}}")
    found = json.loads(cli("approve", "worker.yaml", "--against", "record.jsonl", "--json").out)
    assert [entry["tool"] for entry in found["newlyRefused"]] == [
        "write_file",
        "write_file",
        "delete_file",
    ]
    assert found["unchanged"] == 2


def test_denied_calls_count_as_asking(cli: Cli, clerk: Project) -> None:
    cli("run", "worker.yaml", "go", "-p", "--record", "denied.jsonl")
    assert (
        "1 prompt before, 1 after" in cli("approve", "worker.yaml", "--against", "denied.jsonl").out
    )


def test_parked_session_is_judged(cli: Cli, clerk: Project) -> None:
    cli("run", "worker.yaml", "go", "-p", "--on-ask", "park", "--record", "parked.jsonl")
    change(clerk, "{write: ask, delete: preApproved}", "{write: preApproved, delete: preApproved}")
    done = cli("approve", "worker.yaml", "--against", "parked.jsonl")
    assert "newly allowed: write_file" in done.out
    assert "1 prompt before, 0 after" in done.out


def test_zones_of_the_session_count(cli: Cli, clerk: Project, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    done = cli("approve", "worker.yaml", "--against", "record.jsonl", "-C", str(tmp_path))
    assert done.code == 0
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--against", "nope"], 3, "there is no session 'nope'"),
        (["--against", "worker.yaml"], 3, "not a line of a session log"),
        (
            ["read_file", "--against", "record.jsonl"],
            2,
            "only one of TOOL, --batch and --against may be given",
        ),
        (
            ["--batch", "-", "--against", "record.jsonl"],
            2,
            "only one of TOOL, --batch and --against may be given",
        ),
        (
            ["--against", "record.jsonl", "--json-input", "{}"],
            2,
            "--against takes the input of each call from the session",
        ),
    ],
)
def test_invalid_arguments_are_reported(cli: Cli, words: list[str], code: int, told: str) -> None:
    done = cli("approve", "worker.yaml", *words)
    assert (done.code, done.out) == (code, "")
    assert told in done.err
