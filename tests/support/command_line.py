"""The command line in tests: in this process if possible, else in a separate one."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from forge_cli.cli.app import carry_out
from forge_cli.cli.failure import explain
from forge_cli.process.launch import Launch
from forge_cli.testing import Project
from tests.models.openai.server import ChatServer

from .deadline import deadline
from .distributions import write_distribution
from .warm import Warm

TOOLS = '''
"""Tools that do a little of everything."""

import os
import subprocess
from pathlib import Path

from forge_cli import Custom, ToolContext, tool
from forge_cli.results import DisplayHints


def echo(text: str, times: int = 1, loud: bool | None = None) -> str:
    """Say something back.

    Args:
        text: What to say.
        times: How often to say it.
    """
    return (text.upper() if loud else text) * times


def report(rows: list[int] | None = None, ratio: float = 0.5) -> Custom:
    """Report in a table."""
    data = [{"row": row, "ratio": ratio} for row in rows or ()]
    return Custom("test.report", data, summary="a report", display=DisplayHints("table"))


def reserved(worker: str, json: bool = False, timeout: float = 1, y: str = "", read_only: bool = False) -> dict:
    """Take arguments that are called like options of forge."""
    return {"worker": worker, "json": json, "timeout": timeout, "y": y, "read_only": read_only}


def chatty() -> str:
    """Print where only data belongs, the way naive code does."""
    print("printed")
    subprocess.run(["echo", "from a child"], check=True)
    os.write(1, b"written\\n")
    return "quiet words"


def boom() -> str:
    """Fail."""
    raise ValueError("it broke\\x1b[2J")


def hold() -> str:
    """Wait for somebody to write into the pipe, and listen to nobody else."""
    print("holding", flush=True)
    return Path("gate").read_text()


async def block() -> str:
    """Wait like hold, and hold up the event loop as well."""
    return hold()


@tool(needs_approval=True, manual="manual")
def deploy() -> str:
    """Only a person deploys."""
    return "deployed"


@tool(manual="both")
def peek(context: ToolContext) -> str:
    """Tell where it works."""
    return str(context.workspace)
'''

WORKER = """
name: tester
description: Tries things
instructions: You try things.
model: script:script.yaml
sandbox:
  zones:
    - {name: notes, mode: rw, approval: {write: preApproved, delete: blocked}}
    - {name: output, mode: rw}
    - {name: src, mode: ro}
toolsets:
  filesystem: {}
  custom:
    module: ./tools.py
    tools: [echo, report, reserved, chatty, boom, hold, block, deploy, peek]
    approval:
      default: preApproved
      tools: {echo: ask}
"""

SCRIPT = """
turns:
  - text: "First words. "
    calls: [{tool: report, input: {rows: [1, 2]}}]
  - text: "Last words: {task}"
"""


@dataclass(frozen=True)
class Done:
    """The result of a command."""

    code: int
    out: str
    err: str


@pytest.fixture
def cli(
    project: Project, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Done]:
    """Return a function that runs a command in this process, in the project's folder and home."""
    monkeypatch.chdir(project.folder)
    monkeypatch.setenv("FORGE_HOME", str(project.home))

    def forge(*words: str) -> Done:
        capfd.readouterr()
        launch = Launch()
        try:
            with deadline():
                code = carry_out(list(words), launch)
        except pytest.fail.Exception:
            raise
        except BaseException as error:
            code = explain(error, report=launch.report)
        sys.stdout.flush()
        return Done(code, *capfd.readouterr())

    return forge


@pytest.fixture
def tester(project: Project) -> Project:
    """Return a project with a worker that has many tools; its script has two turns."""
    project.write("worker.yaml", WORKER)
    project.write("tools.py", TOOLS)
    project.write("script.yaml", SCRIPT)
    project.write("src/a.txt", "one\ntwo\n")
    project.write("output/old.md", "old\n")
    return project


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    """Yield a server for models of the provider openai."""
    with ChatServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        yield server
    assert server.complaints == []


class Started:
    """A running forge process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def wait_for(self, text: str) -> None:
        """Read standard error up to a line with this text."""
        assert self.process.stderr
        seen = []
        with deadline():
            for line in self.process.stderr:
                seen.append(line)
                if text in line:
                    return
        raise AssertionError(f"{text!r} never came: {''.join(seen)}")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> Done:
        out, err = self.process.communicate(timeout=60)
        return Done(self.process.returncode, out, err)


@pytest.fixture
def start(project: Project, warm: Warm) -> Iterator[Callable[..., Started]]:
    """Yield a function that starts forge in a process with pipes; it is killed after the test.

    A ``cold`` process imports everything itself, for tests of what happens meanwhile.
    """
    started: list[subprocess.Popen[str]] = []

    def forge(
        *words: str, stdin: int = subprocess.DEVNULL, cold: bool = False, **env: str
    ) -> Started:
        process = subprocess.Popen(
            [sys.executable if cold else str(warm.python), "-m", "forge_cli", *words],
            cwd=project.folder,
            env={**os.environ, "FORGE_HOME": str(project.home), **env},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return Started(process)

    yield forge
    for process in started:
        with process:
            process.kill()


@pytest.fixture
def install(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that installs a package with entry points, and returns its folder."""

    def package(name: str, module: str, code: str, *entries: str) -> Path:
        return write_distribution(
            tmp_path / "site", name, entries, version="1.2", **{module: code}
        ).parent

    return package
