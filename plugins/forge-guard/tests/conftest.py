"""A home of its own for every test, a project in it, and hooks that are run as the tools run them."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from forge_guard.command import app
from forge_guard.policy import PRESETS
from typer.testing import CliRunner

LIMIT = 60.0


@dataclass
class Machine:
    """A user with a home and a project, whose tools ask forge."""

    home: Path
    project: Path
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def env(self) -> dict[str, str]:
        kept = {
            name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ
        }
        own = {"HOME": str(self.home), "SHELL": "/bin/bash", "FORGE_GUARD_IDLE": "20"}
        return {**kept, **own, "CLAUDE_PROJECT_DIR": str(self.project), **self.extra}

    def run(self, *command: str, text: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            input=text,
            text=True,
            capture_output=True,
            cwd=self.project,
            env={**self.env, **env},
            timeout=LIMIT,
            check=False,
        )

    def forge(self, *args: str) -> str:
        done = self.run("forge", *args)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def use_preset(self, name: str) -> None:
        """Write the policy of a preset, which an installation leaves as it is."""
        self.policy.parent.mkdir(exist_ok=True)
        self.policy.write_text(PRESETS[name].text)

    def guard(self, *args: str) -> str:
        """``forge guard``, in this process."""
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.project)
            done = CliRunner().invoke(app, args, env={**dict.fromkeys(os.environ), **self.env})
        assert done.exit_code == 0, done.exception
        return done.stdout

    @property
    def policy(self) -> Path:
        return self.home / ".forge" / "guard.yaml"

    def hook(
        self, tool: str, data: dict[str, Any], event: str = "PreToolUse", **env: str
    ) -> tuple[int, str, str]:
        """Run the command of the installed hook with this input."""
        settings = json.loads(self.settings(tool).read_text())
        line = settings["hooks"][event][0]["hooks"][0]["command"]
        done = self.run("sh", "-c", line, text=json.dumps(data), **env)
        return done.returncode, done.stdout, done.stderr

    def settings(self, tool: str) -> Path:
        return self.project / {
            "claude": ".claude/settings.local.json",
            "codex": ".codex/hooks.json",
        }.get(tool, f".{tool}/settings.json")

    def asked(self, name: str, given: dict[str, Any], **more: Any) -> dict[str, Any]:
        """The input that Claude Code passes to its hook."""
        return {
            "session_id": "5f0c1a52-7f7d-4f7e-a6cc-3f1a3e0f6f0b",
            "transcript_path": str(self.home / ".claude/projects/p/5f0c1a52.jsonl"),
            "cwd": str(self.project),
            "permission_mode": "default",
            "hook_event_name": "PreToolUse",
            "tool_name": name,
            "tool_input": given,
            "tool_use_id": "toolu_01A",
            **more,
        }

    def claude(self, name: str, given: dict[str, Any], **more: Any) -> tuple[str | None, str]:
        """The decision that Claude Code gets, and the reason."""
        code, out, err = self.hook("claude", self.asked(name, given, **more))
        assert (code, err) == (0, "")
        said = json.loads(out)["hookSpecificOutput"] if out else {}
        return said.get("permissionDecision"), said.get("permissionDecisionReason", "")

    def end_residents(self) -> None:
        for process in residents(self.home):
            os.kill(process, signal.SIGTERM)


def residents(home: Path) -> list[int]:
    """The resident gates in this home, found by their open session locks."""
    if not (home / ".forge" / "sessions").exists():
        return []
    listed = subprocess.run(
        ["forge", "sessions", "list", "--all", "--json"],
        env={**os.environ, "HOME": str(home), "FORGE_HOME": ""},
        capture_output=True,
        check=False,
        timeout=LIMIT,
    )
    return [row["pid"] for row in json.loads(listed.stdout or "[]") if row.get("pid")]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path / "home", tmp_path / "project")
    made.home.mkdir()
    made.project.mkdir()
    made.run("git", "init", "-q", ".")
    yield made
    made.end_residents()
