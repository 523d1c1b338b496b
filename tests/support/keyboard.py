"""forge on a real pseudo-terminal, with simulated key presses."""

import os
import re
from collections.abc import Callable, Iterator, Sequence

import pexpect
import pytest

from forge_cli.testing import Project

from .screen import Screen
from .warm import Warm

PROMPT = r"\[y\]es\s+once,\s+(?:\[[esa]\]\w+,\s+)*\[n\]o,\s+\[t\]ell\s+why\s+not,\s+\[\?\]\s+why\s+>(?: |(?=\x1b))"
"""A blank at the end is drawn by moving the cursor, where that can be moved."""

TOOLS = '''
from pathlib import Path

from forge_cli import Approval, Verdict, tool


def echo(text: str, times: int = 1, loud: bool = False, mood: str | None = None) -> str:
    """Say something back.

    Args:
        text: What to say.
        times: How often.
    """
    return (text.upper() if loud else text) * times


def hold() -> str:
    """Wait for somebody to write into the pipe."""
    print("holding", flush=True)
    return Path("gate").read_text()


@tool(needs_approval=lambda args: Verdict(Approval.ASK, f"it is {args['what']}"))
def careful(what: str) -> str:
    """Ask with words of its own."""
    return "done"
'''

WORKER = """
name: writer
model: script:script.yaml
sandbox:
  zones:
    - {name: output, mode: rw}
toolsets:
  filesystem: {}
  custom:
    module: ./tools.py
    tools: [echo, hold, careful]
    approval: {tools: {hold: preApproved}}
"""


@pytest.fixture
def writer(project: Project) -> Project:
    """A project whose worker has to ask before it writes or echoes."""
    project.write("worker.yaml", WORKER)
    project.write("tools.py", TOOLS)
    return project


class Keyboard:
    """A forge on a terminal: its screen, and keys to press."""

    def __init__(self, child: "pexpect.spawn[str]") -> None:
        self.child = child
        self.seen = ""

    def expect(self, text: str) -> str:
        """Wait until the screen shows this; returns what came before it."""
        self.child.expect_exact(text)
        self.seen += self.child.before + self.child.after
        return self.child.before

    def asked(self) -> str:
        """Wait for the approval prompt."""
        self.child.expect(PROMPT)
        self.seen += self.child.before + self.child.after
        return self.child.before

    def press(self, key: str, until: str) -> None:
        """Press a key again and again until the screen shows this: keys that come close together do not count."""
        for _ in range(60):
            self.type(key)
            if self.child.expect_exact([until, pexpect.TIMEOUT], timeout=1) == 0:
                self.seen += self.child.before + self.child.after
                return
        raise AssertionError(f"{until!r} is not shown after {key!r}")

    def type(self, text: str) -> None:
        self.child.send(text)

    def end(self) -> int:
        """Wait for the end; returns the exit code."""
        self.child.expect(pexpect.EOF)
        self.seen += self.child.before
        self.child.close()
        assert "Traceback" not in self.seen
        return (
            self.child.exitstatus if self.child.exitstatus is not None else -self.child.signalstatus
        )

    @property
    def lines(self) -> list[str]:
        return self.seen.replace("\r", "").split("\n")

    def screen(self, columns: int = 100, rows: int = 50) -> list[str]:
        """The visible lines of the screen."""
        return Screen(columns, rows).feed(self.seen).lines

    @property
    def text(self) -> str:
        """All shown text as one line, because a narrow terminal wraps anywhere."""
        return re.sub(r"\s+", " ", self.seen)


@pytest.fixture
def terminal(writer: Project, warm: Warm) -> Iterator[Callable[..., Keyboard]]:
    """Start forge on a terminal without colours; ``shell`` is appended to the command line, for redirections."""
    children: list[pexpect.spawn[str]] = []

    def start(
        *words: str,
        shell: str = "",
        program: Sequence[str] = (),
        columns: int = 100,
        rows: int = 50,
        **env: str,
    ) -> Keyboard:
        command = f'exec "$@" {shell}'
        child = pexpect.spawn(
            "sh",
            ["-c", command, "sh", *(program or (str(warm.forge),)), *words],
            cwd=str(writer.folder),
            env={**os.environ, "FORGE_HOME": str(writer.home), "TERM": "dumb", **env},
            encoding="utf-8",
            timeout=60,
            dimensions=(rows, columns),
        )
        child.delaybeforesend = None
        children.append(child)
        return Keyboard(child)

    yield start
    for child in children:
        child.close(force=True)


@pytest.fixture
def script(writer: Project) -> Callable[..., None]:
    """Write the turns of the model, one YAML flow mapping each."""

    def write(*turns: str) -> None:
        writer.write("script.yaml", "turns:\n" + "".join(f"  - {turn}\n" for turn in turns))

    return write
