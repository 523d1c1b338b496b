"""Sessions in the background for tests, which are killed at the end of each test."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from forge_cli.record.log import broken_link, read_session
from forge_cli.record.places import lock_holder
from forge_cli.testing import Project

TOOLS = '''
import os
from pathlib import Path

from forge_cli import tool


@tool(needs_approval=True)
def clear(reason: str) -> str:
    """Throw all notes away."""
    with open("cleared.txt", "a") as file:
        file.write(f"{reason}\\n")
    return "all notes are gone"


@tool(needs_approval=False)
def hold() -> str:
    """Wait for somebody to write into the pipe."""
    with open("session.txt", "w") as file:
        file.write(f"{os.getsid(0)} {os.getpid()} {os.isatty(0)}")
    return Path("gate").read_text()
'''
WORKER = """
name: noter
instructions: You keep notes.
model: script:script.yaml
toolsets:
  custom: {module: ./tools.py, tools: [clear, hold]}
"""
CLEAR = "{calls: [{tool: clear, input: {reason: old}}]}"
HOLD = "{calls: [{tool: hold, input: {}}]}"
DEADLINE = 60.0


class Background:
    """A project with sessions in the background, which are killed at the end of the test."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.worker = WORKER

    def start(self, *turns: str, task: str = "Go.", more: tuple[str, ...] = ()) -> str:
        self.project.write("worker.yaml", self.worker)
        self.project.write("tools.py", TOOLS)
        self.project.write("script.yaml", f"turns: [{', '.join(turns)}]")
        done = self.project.forge("run", "worker.yaml", task, "-b", *more)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.count("\n") == 1
        return done.stdout.strip()

    def forge(self, *words: str) -> str:
        done = self.project.forge(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def log(self, session: str) -> Path:
        return self.project.home / "sessions" / f"{session}.jsonl"

    def row(self, session: str) -> dict[str, Any]:
        rows = json.loads(self.forge("sessions", "list", "--json"))
        return next(row for row in rows if row["session"] == session)

    def until(self, session: str, state: str) -> dict[str, Any]:
        """Wait until a session has a state."""
        seen = {}
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            seen = self.row(session)
            if seen["state"] == state:
                return seen
            time.sleep(0.2)
        raise AssertionError(f"{state} is never reached: {seen}")

    def ended(self, session: str) -> None:
        """Wait until no process works on a session."""
        wait_for(lambda: lock_holder(self.log(session)) is None)

    def texts(self, session: str) -> list[str]:
        log = read_session(self.log(session))
        assert broken_link(log) is None
        said = [line.event.message.text for line in log.lines if line.type == "message"]
        return [text for text in said if text]

    def answers(self, session: str) -> list[dict[str, Any]]:
        lines = read_session(self.log(session)).lines
        return [line.data for line in lines if line.type == "approvalResponse"]


def wait_for(is_so: Callable[[], object]) -> None:
    end = time.monotonic() + DEADLINE
    while not is_so():
        assert time.monotonic() < end, "it never happens"
        time.sleep(0.02)


@pytest.fixture
def background(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Background]:
    monkeypatch.setenv("FORGE_HOME", str(project.home))
    found = Background(project)
    yield found
    for log in (project.home / "sessions").glob("*.jsonl"):
        if pid := lock_holder(log):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
