"""The answers of the guard are the verdicts of ``forge approve``, for every line and path of forge's own cases."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from forge_guard.judging import MEANS, Gates, answer

from .conftest import Machine

CASES = Path(__file__).parents[3] / "tests" / "cases"
LINES = ("shell_rules.jsonl", "everyday.jsonl")


def commands() -> list[str]:
    cases = [json.loads(line) for name in LINES for line in (CASES / name).read_text().splitlines()]
    found = [case.get("command") or case.get("line") for case in cases]
    return list(dict.fromkeys(each for each in found if "\0" not in each))


def paths() -> list[str]:
    cases = [json.loads(line) for line in (CASES / "paths.jsonl").read_text().splitlines()]
    found = [case["path"].lstrip("/") for case in cases]
    return list(dict.fromkeys(each for each in found if each and "\0" not in each))


async def decided(machine: Machine, asked: list[dict[str, Any]]) -> list[tuple[str, str]]:
    gates = Gates()
    try:
        said = [
            await answer("claude", json.dumps(each), machine.env, gates.judge) for each in asked
        ]
    finally:
        await gates.aclose()
    found = [json.loads(each.out)["hookSpecificOutput"] for each in said]
    return [(each["permissionDecision"], each["permissionDecisionReason"]) for each in found]


def test_guard_and_forge_approve_give_the_same_answer(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.guard("install", "claude", "--project")
    monkeypatch.setenv("HOME", str(machine.home))
    monkeypatch.delenv("FORGE_HOME", raising=False)
    calls = [("shell", {"command": line}) for line in commands()]
    calls += [("read_file", {"path": path}) for path in paths()]
    calls += [("write_file", {"path": path, "content": "x"}) for path in paths()]
    asked = [
        machine.asked("Bash", {"command": given["command"]})
        for name, given in calls
        if name == "shell"
    ]
    for name, given in calls[len(asked) :]:
        path = (
            given["path"] if given["path"].startswith("~") else f"{machine.project}/{given['path']}"
        )
        more = {"content": "x"} if name == "write_file" else {}
        asked.append(
            machine.asked("Read" if name == "read_file" else "Write", {"file_path": path, **more})
        )
    batch = "".join(json.dumps({"tool": name, "input": given}) + "\n" for name, given in calls)
    told = machine.run("forge", "approve", str(machine.policy), "--batch", "-", text=batch).stdout
    expected = [json.loads(line) for line in told.splitlines()]
    said = asyncio.run(decided(machine, asked))
    assert len(said) == len(expected) > 300
    failures = [
        (call, verdict["verdict"], verdict["reason"], decision, reason)
        for call, verdict, (decision, reason) in zip(calls, expected, said, strict=True)
        if decision != MEANS[verdict["verdict"]]
        or (verdict["where"] and verdict["where"] not in reason)
    ]
    assert failures == []
    assert {decision for decision, _ in said} == {"allow", "ask", "deny"}
