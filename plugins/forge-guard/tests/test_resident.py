"""The resident gate: started once, ended when idle, renewed with its files, and never trusted blindly."""

import json
import os
import re
import signal
import stat
import time
from pathlib import Path

import pytest

from .conftest import Machine, residents

LIMIT = 30.0


def until(done: object, what: str) -> None:
    end = time.monotonic() + LIMIT
    while not done():  # type: ignore[operator]
        assert time.monotonic() < end, what
        time.sleep(0.05)


def has_ended(process: int) -> bool:
    """Return True if the process is gone, or is a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


@pytest.fixture
def guarded(machine: Machine) -> Machine:
    machine.guard("install", "claude", "--project")
    return machine


def test_resident_process_answers_and_logs_every_decision(guarded: Machine) -> None:
    for command in ("git status", "git commit -m x", "sudo ls"):
        guarded.claude("Bash", {"command": command})
    guarded.claude("NewTool", {"a": 1})
    guarded.claude(
        "Bash", {"command": "git commit -m x"}, hook_event_name="PostToolUse", tool_response={}
    )
    guarded.claude(
        "Bash",
        {"command": "git tag x"},
        hook_event_name="PostToolUse",
        permission_mode="bypassPermissions",
    )
    (process,) = residents(guarded.home)
    folder = guarded.home / ".forge" / "guard"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert len(list(folder.glob("*.sock"))) == 1
    os.kill(process, signal.SIGTERM)
    until(lambda: not list(folder.glob("*.sock")), "the resident gate does not end")
    (row,) = json.loads(guarded.forge("sessions", "list", "--all", "--worker", "guard", "--json"))
    assert (row["status"], row["toolCalls"], row["title"], row["model"]) == (
        "completed",
        5,
        "claude",
        "other tools",
    )
    assert "ok, " in guarded.forge("sessions", "verify", row["session"])
    assert "git commit -m x" in guarded.forge("sessions", "search", "git commit")
    suggested = guarded.forge("approvals", "suggest")
    assert '{pattern: "git commit", approval: preApproved}' in suggested
    assert "git tag" not in suggested


@pytest.mark.needs("root")
def test_required_lock_of_an_organisation_applies(guarded: Machine) -> None:
    policy = guarded.home / "organisation.yaml"
    policy.write_text("require: {lock: true}\n")
    guarded.extra["FORGE_POLICY"] = str(policy)
    asked = [guarded.claude("Bash", {"command": "git log"})]
    guarded.forge("lock", str(guarded.policy))
    asked.append(guarded.claude("Bash", {"command": "git log"}))
    policy.write_text("requires: {lock: true}\n")
    asked.append(guarded.claude("Bash", {"command": "git log"}))
    assert [decision for decision, _ in asked] == ["ask", "allow", "ask"], asked
    assert "guard.lock" in asked[0][1]
    assert "'requires'; did you mean 'require'?" in asked[2][1]
    data = json.dumps(guarded.asked("Bash", {"command": "git log"}))
    own = guarded.run("sh", "-c", "forge guard check || exit 2", text=data)
    assert (own.returncode, own.stdout) == (2, "")
    assert "did you mean 'require'?" in own.stderr


def test_changed_policy_applies_at_once(guarded: Machine) -> None:
    assert guarded.claude("Bash", {"command": "git commit -m x"})[0] == "ask"
    policy = guarded.policy.read_text()
    guarded.policy.write_text(
        policy.replace("pattern: git push, approval: ask", "pattern: git, approval: blocked")
    )
    assert guarded.claude("Bash", {"command": "git commit -m x"})[0] == "deny"
    guarded.policy.write_text("name: guard\nnonsense: 1\n")
    decision, reason = guarded.claude("Bash", {"command": "git status"})
    assert decision == "ask"
    assert "forge guard failed: " in reason
    assert "guard.yaml:2" in reason
    guarded.policy.write_text(policy)
    config = guarded.home / ".forge" / "config.yaml"
    config.write_text("policy: {shell: {rules: [{pattern: git status, approval: ask}]}}\n")
    decision, reason = guarded.claude("Bash", {"command": "git status"})
    assert (decision, "config.yaml:1" in reason) == ("ask", True)


@pytest.mark.long
def test_resident_process_ends_when_idle(guarded: Machine) -> None:
    guarded.extra["FORGE_GUARD_IDLE"] = "1"
    assert guarded.claude("Read", {"file_path": str(guarded.project / "a")})[0] == "allow"
    until(lambda: not list((guarded.home / ".forge" / "guard").glob("*.sock")), "it does not end")
    assert guarded.claude("Read", {"file_path": str(guarded.project / "a")})[0] == "allow"


@pytest.mark.long
def test_answers_without_the_resident_process_are_equal(guarded: Machine) -> None:
    folder = guarded.home / ".forge" / "guard"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)  # others can enter it, so nobody there is believed
    assert guarded.claude("Bash", {"command": "git status"})[0] == "allow"
    assert guarded.claude("Bash", {"command": "sudo ls"})[0] == "deny"
    assert list(folder.iterdir()) == []
    assert (
        len(json.loads(guarded.forge("sessions", "list", "--all", "--worker", "guard", "--json")))
        == 2
    )


@pytest.mark.long
def test_dead_socket_is_replaced(guarded: Machine) -> None:
    assert guarded.claude("Bash", {"command": "git status"})[0] == "allow"
    (process,) = residents(guarded.home)
    os.kill(process, signal.SIGKILL)
    until(lambda: has_ended(process), "it does not end")
    assert guarded.claude("Bash", {"command": "git status"})[0] == "allow"


@pytest.mark.long
def test_broken_forge_never_allows_a_call(guarded: Machine) -> None:
    for tool in ("codex", "gemini"):
        guarded.guard("install", tool, "--project")
    events = {"claude": "PreToolUse", "codex": "PreToolUse", "gemini": "BeforeTool"}
    said = {}
    for tool, event in events.items():
        file = guarded.settings(tool)
        settings = json.loads(file.read_text())
        hook = settings["hooks"][event][0]["hooks"][0]
        hook["command"] = re.sub(r"^\S+", "/nowhere/python", hook["command"])
        file.write_text(json.dumps(settings))
        code, out, _ = guarded.hook(tool, guarded.asked("Bash", {"command": "git status"}), event)
        assert code == 0
        answer = json.loads(out)
        said[tool] = answer.get("decision") or answer["hookSpecificOutput"]["permissionDecision"]
    assert said == {"claude": "ask", "codex": "deny", "gemini": "deny"}


@pytest.mark.long
def test_empty_input_asks(guarded: Machine) -> None:
    failures = []
    for text in (
        "",
        "{",
        "[]",
        "7",
        '{"tool_name": "Bash"}',
        '{"hook_event_name": "PreToolUse", "cwd": "x"}',
    ):
        done = guarded.run("forge", "guard", "check", "claude", text=text)
        said = (
            json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"]
            if done.stdout
            else None
        )
        if (done.returncode, said) != (0, "ask"):
            failures.append((text, done))
    assert failures == []
    done = guarded.run("forge", "guard", "check", "opencode", text="{")
    assert (done.returncode, done.stdout) == (2, "")
    assert "is not JSON" in done.stderr


@pytest.mark.long
def test_other_shell_asks(guarded: Machine) -> None:
    guarded.extra["SHELL"] = "/bin/zsh"
    decision, reason = guarded.claude("Bash", {"command": "git status"})
    assert (decision, "set CLAUDE_CODE_SHELL=/bin/bash" in reason) == ("ask", True)
    assert guarded.claude("Bash", {"command": "sudo ls"})[0] == "deny"
    guarded.extra["CLAUDE_CODE_SHELL"] = "/bin/bash"
    assert guarded.claude("Bash", {"command": "git status"})[0] == "allow"


def test_commands_are_judged_in_their_working_directory(guarded: Machine) -> None:
    (guarded.project / "src").mkdir()
    below, outside = str(guarded.project / "src"), str(guarded.home)
    guarded.use_preset("tests")
    assert guarded.claude("Bash", {"command": "ls"}, cwd=below)[0] == "allow"
    decision, reason = guarded.claude("Bash", {"command": "make test"}, cwd=below)
    assert (decision, "files that are written without asking" in reason) == ("ask", True)
    guarded.use_preset("careful")
    assert guarded.claude("Bash", {"command": "git status"}, cwd=below)[0] == "allow"
    assert guarded.claude("Bash", {"command": "cat a.txt"}, cwd=below)[0] == "allow"
    assert guarded.claude("Bash", {"command": "cat ../../b.txt"}, cwd=below)[0] == "ask"
    assert guarded.claude("Bash", {"command": "cat b.txt"}, cwd=outside)[0] == "ask"
    assert guarded.claude("Bash", {"command": "sudo ls"}, cwd=outside)[0] == "deny"
