"""A gate for calls that another program makes: the verdicts of forge approve, and a record of each.

Covers forge_cli.engine.runtime.judging.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from forge_cli import load_worker
from forge_cli.embedding import open_gate
from forge_cli.testing import Project

WORKER = """
name: keeper
toolsets:
  filesystem: {}
  shell: {rules: [{use: reading}, {pattern: git push, approval: blocked, reason: for people}]}
"""
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("shell", {"command": "git status"}),
    ("shell", {"command": "git push"}),
    ("shell", {"command": "git commit -m x"}),
    ("read_file", {"path": "/etc/hosts"}),
    ("read_file", {}),
    ("nothing", {"a": 1}),
]


@pytest.fixture(autouse=True)
def same_home(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_HOME", str(project.home))


async def judged(
    folder: Path, *, maker: str | None = None, made: bool = False
) -> list[dict[str, Any]]:
    async with open_gate(
        load_worker(folder / "worker.yaml"), workspace=folder, maker=maker
    ) as gate:
        return [await gate.judge(name, args, made=made) for name, args in CALLS]


def test_judgement_equals_that_of_forge_approve(project: Project) -> None:
    project.write("worker.yaml", WORKER)
    batch = "".join(json.dumps({"tool": name, "input": args}) + "\n" for name, args in CALLS)
    project.write("batch.jsonl", batch)
    told = project.forge(
        "approve", str(project.folder / "worker.yaml"), "--batch", "batch.jsonl"
    ).stdout
    said = asyncio.run(judged(project.folder))
    assert said == [json.loads(line) for line in told.splitlines()]
    assert [each["verdict"] for each in said] == [
        "preApproved",
        "blocked",
        "ask",
        "refused",
        "refused",
        "refused",
    ]
    assert json.loads(project.forge("sessions", "list", "--json").stdout) == []


@pytest.mark.long
def test_every_judged_call_is_logged_and_only_executed_ones_as_approved(project: Project) -> None:
    project.write("worker.yaml", WORKER)
    asyncio.run(judged(project.folder, maker="mine"))
    asyncio.run(judged(project.folder, maker="mine", made=True))
    rows = json.loads(project.forge("sessions", "list", "--json").stdout)
    assert [(row["toolCalls"], row["title"], row["status"]) for row in rows] == [
        (len(CALLS), "mine", "completed")
    ] * 2
    for row in rows:
        assert "ok, " in project.forge("sessions", "verify", row["session"]).stdout
    second, first = (row["session"] for row in rows)  # the last comes first
    shown = project.forge("sessions", "show", first).stdout
    assert "ask -> no by headless" in shown
    assert "mine decides whether it is made" in shown
    assert "ask -> yes by user (mine)" in project.forge("sessions", "show", second).stdout
    assert "saves 1 of 1 question" in project.forge("approvals", "suggest").stdout
    assert json.loads(project.forge("approvals", "list", "--json").stdout) == []


@pytest.mark.long
def test_judgement_is_stale_after_a_policy_file_changes(project: Project) -> None:
    project.write("worker.yaml", WORKER)

    async def changed(name: str, text: str) -> tuple[bool, bool]:
        async with open_gate(
            load_worker(project.folder / "worker.yaml"), workspace=project.folder
        ) as gate:
            before = gate.stale
            project.write(name, text)
            return before, gate.stale

    failures = []
    for name, stale in (("worker.yaml", True), (".forge/config.yaml", True), ("notes.txt", False)):
        if (found := asyncio.run(changed(name, WORKER if name == "worker.yaml" else "{}\n"))) != (
            False,
            stale,
        ):
            failures.append((name, found))
    assert failures == []
