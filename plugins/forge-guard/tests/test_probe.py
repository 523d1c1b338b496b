"""Probes: a hook that is installed is in force, or ``forge guard status`` says so and fails."""

import os
import sys
from pathlib import Path

import pytest

from .conftest import Machine

TOOL = """#!{python}
import json, os, pathlib, subprocess, sys
settings = json.loads((pathlib.Path.home() / {file!r}).read_text())
question = {{
    "hook_event_name": "PreToolUse", "session_id": "1", "cwd": os.getcwd(),
    "tool_name": "Bash", "tool_input": {{"command": "touch probe.txt"}},
}}
refused = False
interactive = {flag!r} not in sys.argv
if {obeys}:
    entry = settings["hooks"]["PreToolUse"][-1]["hooks"][0]
    env = {{**os.environ, "CLAUDE_PROJECT_DIR": os.getcwd()}}
    done = subprocess.run(
        ["sh", "-c", entry["command"]], input=json.dumps(question), text=True, env=env,
        capture_output=True,
    )
    refused = '"allow"' not in done.stdout
if not refused:
    pathlib.Path("probe.txt").touch()
"""
"""A tool that runs the command of its model, or asks its hook before."""


def _add_tool(machine: Machine, name: str, obeys: str) -> None:
    folder = machine.home / "bin"
    folder.mkdir(exist_ok=True)
    flag, file = {
        "claude": ("-p", ".claude/settings.json"),
        "codex": ("exec", ".codex/hooks.json"),
    }[name]
    text = TOOL.format(python=sys.executable, flag=flag, obeys=obeys, file=file)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)
    machine.extra["PATH"] = f"{folder}:{os.environ['PATH']}"


def _rows(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.startswith("   ")]


@pytest.mark.parametrize(
    ("obeys", "code", "rows"),
    [
        ("True", 0, ["-p: in force", "interactive: in force"]),
        (
            "interactive",
            1,
            ["-p: not in force: hooks do not run in claude -p", "interactive: in force"],
        ),
    ],
)
def test_a_hook_is_in_force_or_the_status_fails(
    machine: Machine, obeys: str, code: int, rows: list[str]
) -> None:
    machine.guard("install", "claude", "--user")
    _add_tool(machine, "claude", obeys)
    shown = machine.run("forge", "guard", "status", "claude", "--user")
    assert (shown.returncode, _rows(shown.stdout)) == (code, rows), shown
    assert "probing claude" in shown.stderr
    again = machine.run("forge", "guard", "status", "claude", "--user")
    assert (again.returncode, again.stdout, again.stderr) == (code, shown.stdout, "")


def test_codex_runs_no_hook_that_is_not_trusted(machine: Machine) -> None:
    _add_tool(machine, "codex", "True")
    shown = machine.guard("install", "codex", "--user", "--preset", "tests")
    assert _rows(shown) == [
        "exec: not in force: codex runs no hook that you do not trust; type /hooks in codex",
        "interactive: not in force: codex runs no hook that you do not trust; type /hooks in codex",
    ]
    hooks = Path(machine.home) / ".codex/hooks.json"
    (machine.home / ".codex/config.toml").write_text(
        "".join(
            f'[hooks.state."{hooks}:{event}:0:0"]\ntrusted_hash = "sha256:1"\n'
            for event in ("pre_tool_use", "permission_request")
        )
    )
    done = machine.run("forge", "guard", "status", "codex", "--user")
    assert (done.returncode, _rows(done.stdout)) == (0, ["exec: in force", "interactive: in force"])
    (machine.home / ".codex/config.toml").write_text("[features]\nhooks = false\n")
    done = machine.run("forge", "guard", "status", "codex", "--user")
    assert (done.returncode, "hooks are off in" in done.stdout) == (1, True)


def test_a_tool_that_is_missing_was_never_seen(machine: Machine) -> None:
    machine.extra["PATH"] = str(Path(sys.executable).parent)
    machine.guard("install", "gemini", "--project", "--preset", "tests")
    (row,) = machine.guard("status", "gemini", "--project").splitlines()[1:]
    assert row.endswith("(gemini is not on PATH, and the hook was never seen)")
