"""Codex, Gemini CLI and opencode: inputs as they give them, and answers in the words that they take.

The inputs are those of codex 0.169, Gemini CLI 0.61 and opencode 1.18, recorded with a model from a script.
"""

import json
from typing import Any

import pytest

from .conftest import Machine

POLICY = """
  guard:
    hosts: {docs.python.org: preApproved, "*.example.com": preApproved, evil.example.com: blocked}
    mcp: {"github/get_*": preApproved, "github/delete_*": blocked}
"""


@pytest.fixture
def guarded(machine: Machine) -> Machine:
    machine.use_preset("tests")
    for tool in ("claude", "codex", "gemini"):
        machine.guard("install", tool, "--project")
    text = machine.policy.read_text()
    machine.policy.write_text(text.partition("\n  guard:\n")[0] + POLICY)
    return machine


def test_codex_calls_are_judged(guarded: Machine) -> None:
    transcript = guarded.home / "rollout.jsonl"
    transcript.write_text(
        json.dumps({"type": "session_meta", "payload": {"cwd": str(guarded.project)}}) + "\n{}\n"
    )

    def ask(name: str, given: Any, event: str = "PreToolUse", **more: Any) -> Any:
        data = {
            "session_id": "01a1ea08-eaa0-7880-b494-320b268cae72",
            "turn_id": "01a1ea08-ead6-7f40-a4b1-f912563f0d32",
            "transcript_path": str(transcript),
            "cwd": str(guarded.project),
            "hook_event_name": event,
            "model": "m",
            "permission_mode": "bypassPermissions",
            "tool_name": name,
            "tool_input": given,
            "tool_use_id": "call_1",
        }
        code, out, err = guarded.hook("codex", {**data, **more}, event)
        assert (code, err) == (0, "")
        return json.loads(out)["hookSpecificOutput"] if out else None

    def refused(said: Any) -> str:
        assert (said["hookEventName"], said["permissionDecision"]) == ("PreToolUse", "deny")
        return str(said["permissionDecisionReason"])

    assert ask("Bash", {"command": "git status"}) is None
    assert ask("Bash", {"command": "git status"}, "PermissionRequest")["decision"] == {
        "behavior": "allow"
    }
    assert (
        ask("Bash", {"command": "sudo ls"}, "PermissionRequest")["decision"]["behavior"] == "deny"
    )
    assert "codex cannot ask about it" in refused(ask("Bash", {"command": "git commit -m x"}))
    assert "matches the blocked rule 'sudo'" in refused(ask("Bash", {"command": "sudo ls"}))
    assert "cd may leave the working directory" in refused(
        ask("Bash", {"command": "ls"}, cwd="/etc")
    )
    assert "cannot be found" in refused(
        ask("Bash", {"command": "ls"}, cwd="/etc", transcript_path=None)
    )
    assert "is not known here" in refused(ask("spawn_everything", {}))
    patch = "*** Begin Patch\n*** Add File: {}\n+hi\n*** End Patch\n"
    assert ask("apply_patch", {"command": patch.format("new.txt")}) is None
    assert "protected name" in refused(
        ask("apply_patch", {"command": patch.format(".git/hooks/new")})
    )
    assert "is in no zone" in refused(ask("apply_patch", {"command": patch.format("../new.txt")}))
    for path in ("/etc/new.txt", "/project/new.txt", "~/new.txt"):
        assert "begin in the project's folder" in refused(
            ask("apply_patch", {"command": patch.format(path)})
        )
    assert ask("mcp__github__get_me", {}) is None
    assert "github/delete_*" in refused(ask("mcp__github__delete_repo", {}))
    assert ask("update_plan", {}) is None


@pytest.mark.long
def test_gemini_calls_are_judged(guarded: Machine) -> None:
    (guarded.project / "docs").mkdir()
    (guarded.project / "docs/.env.py.local").write_text("KEY=1\n")
    expected: list[tuple[str, dict[str, Any], str, str]] = [
        ("run_shell_command", {"command": "git status"}, "allow", ""),
        ("run_shell_command", {"command": "git status", "dir_path": "/etc"}, "deny", "may leave"),
        ("run_shell_command", {"command": "git commit -m x"}, "deny", "gemini cannot ask about it"),
        ("read_file", {"file_path": "a.txt"}, "allow", ""),
        ("read_file", {"file_path": "../b.txt"}, "deny", "is in no zone"),
        ("read_many_files", {"include": ["src/*.py", "a.txt"]}, "allow", ""),
        ("read_many_files", {"include": ["/etc/*"]}, "deny", "is in no zone"),
        ("read_many_files", {"include": ["docs/**"]}, "deny", ".env"),
        ("grep_search", {"pattern": "x", "include": ".env*"}, "deny", ".env"),
        ("read_file", {"file_path": "a.txt", "absolute_path": "b.txt"}, "deny", "differ"),
        ("write_file", {"file_path": "b.txt", "content": "hi"}, "", ""),
        (
            "replace",
            {"file_path": ".env", "old_string": "a", "new_string": "b", "instruction": "x"},
            "deny",
            ".env",
        ),
        ("grep_search", {"pattern": "x"}, "allow", ""),
        ("glob", {"pattern": "*"}, "allow", ""),
        ("list_directory", {"dir_path": "."}, "allow", ""),
        ("web_fetch", {"prompt": "get https://docs.python.org/3/ now"}, "allow", ""),
        (
            "web_fetch",
            {"prompt": "get https://docs.python.org/ and https://evil.example.com/"},
            "deny",
            "evil",
        ),
        ("web_fetch", {"prompt": "get ftp://docs.python.org/"}, "deny", "host cannot be told"),
        ("save_memory", {"fact": "x"}, "deny", "is not known here"),
    ]
    failures = []
    for name, given, decision, reason in expected:
        data = {
            "session_id": "f80ec7d1-669c-418a-b082-934856c433f2",
            "transcript_path": "",
            "cwd": str(guarded.project),
            "hook_event_name": "BeforeTool",
            "timestamp": "2026-11-17T15:03:50.268Z",
            "tool_name": name,
            "tool_input": given,
        }
        code, out, err = guarded.hook("gemini", data, "BeforeTool")
        said = json.loads(out) if out else {"decision": "", "reason": ""}
        if (code, err, said["decision"]) != (0, "", decision) or reason not in said["reason"]:
            failures.append((name, given, said))
    assert failures == []
    context = {"server_name": "github", "tool_name": "delete_repo"}
    data = {**data, "tool_name": "mcp_github_delete_repo", "tool_input": {}, "mcp_context": context}
    assert json.loads(guarded.hook("gemini", data, "BeforeTool")[1])["decision"] == "deny"


@pytest.mark.long
def test_opencode_calls_are_judged(guarded: Machine) -> None:
    (guarded.project / ".env").write_text("KEY=1\n")
    servers = '{"mcp": {"a": {}, "a.b": {}, "git_hub": {}}} // a comment'
    (guarded.project / "opencode.json").write_text(servers)
    expected: list[tuple[str, dict[str, Any], int, str]] = [
        ("bash", {"command": "git status", "description": "x"}, 0, ""),
        ("bash", {"command": "ls", "workdir": "/etc"}, 2, "may leave"),
        ("bash", {"command": "git commit -m x"}, 2, "opencode cannot ask about it"),
        ("read", {"filePath": f"{guarded.project}/a.txt"}, 0, ""),
        ("write", {"filePath": "/etc/b.txt", "content": "hi"}, 2, "is in no zone"),
        (
            "edit",
            {"filePath": f"{guarded.project}/.git/config", "oldString": "a", "newString": "b"},
            2,
            "protected",
        ),
        ("glob", {"pattern": "*"}, 0, ""),
        ("grep", {"pattern": "x"}, 0, ""),
        ("webfetch", {"url": "https://docs.python.org/", "format": "text"}, 0, ""),
        (
            "webfetch",
            {"url": "https://evil.example.com\\@docs.python.org/"},
            2,
            "host cannot be told",
        ),
        ("webfetch", {"url": "https://docs.python.org.evil.org/"}, 2, "nothing is said"),
        ("todowrite", {"todos": []}, 0, ""),
        ("github_get_me", {}, 0, ""),
        ("github_delete_repo", {}, 2, "github/delete_*"),
        ("a_b_c", {}, 2, "may be a tool of a or a_b"),
        ("git_hub_get_me", {}, 2, "nothing is said of git_hub/get_me"),
        ("grep", {"pattern": "x", "include": "*"}, 2, ".env"),
        ("grep", {"pattern": "x", "include": "*.py"}, 0, ""),
        ("unheard", {}, 2, "is not known here"),
    ]
    failures = []
    for name, given, code, reason in expected:
        data = {
            "hook_event_name": "tool.execute.before",
            "session_id": "ses_e15f5e148ffekEIoOeBVVdpdEK",
            "cwd": str(guarded.project),
            "tool_name": name,
            "tool_input": given,
        }
        done = guarded.run("forge", "guard", "check", "opencode", text=json.dumps(data))
        if (done.returncode, done.stdout) != (code, "") or reason not in done.stderr:
            failures.append((name, given, done))
    assert failures == []
