"""A conversation on a real pseudo-terminal: its screen as text, and keys to press."""

import os
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import pytest

from forge_cli.testing import Project
from tests.support.keyboard import Keyboard
from tests.support.screen import Screen

PATIENCE = 60
MODELS = '''
"""A model that says what somebody writes into a pipe, line by line, until that is closed."""

import os

import anyio

from forge_cli import hookimpl
from forge_cli.hooks import ModelFactory, TextDelta, TurnEnd


class PipeModel:
    name = "pipe:words"
    context_window = 1000

    async def stream(self, request):
        words = os.open("words", os.O_RDONLY | os.O_NONBLOCK)
        try:
            while True:
                await anyio.wait_readable(words)
                if not (said := os.read(words, 65536).decode()):
                    break
                yield TextDelta(said.replace("\\n", "").replace("|", "\\n"))
        finally:
            os.close(words)  # at once, so that nobody writes to a model that was interrupted
        yield TurnEnd("end")

    async def aclose(self):
        pass


@hookimpl
def forge_models():
    return [ModelFactory("pipe", lambda name, env: PipeModel(), needs="a pipe")]
'''
WORKER = """
name: talker
description: Talks
model: script:script.yaml
plugins: [./models.py]
toolsets:
  filesystem: {}
  shell: {rules: [{pattern: echo, approval: preApproved}]}
  custom:
    module: ./tools.py
    tools: [echo, hold]
    approval: {tools: {hold: preApproved}}
"""


class Window:
    """The visible screen of a conversation, and its keyboard."""

    def __init__(self, child: "pexpect.spawn[str]", columns: int, rows: int) -> None:
        self.child, self.columns, self.rows = child, columns, rows
        self.seen = ""

    @property
    def lines(self) -> list[str]:
        return Screen(self.columns, self.rows).feed(self.seen).lines

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def wait(self, is_there: Callable[[str], bool], what: str) -> str:
        """Read until the screen is as wanted."""
        end = time.monotonic() + PATIENCE
        while not is_there(self.text):
            left = end - time.monotonic()
            try:
                self.seen += self.child.read_nonblocking(65536, timeout=max(0.01, left))
            except (pexpect.TIMEOUT, pexpect.EOF):
                raise AssertionError(f"never saw {what}:\n{self.text}") from None
        return self.text

    def see(self, *texts: str) -> str:
        return self.wait(
            lambda screen: all(text in screen for text in texts), " and ".join(map(repr, texts))
        )

    def miss(self, text: str) -> str:
        return self.wait(lambda screen: text not in screen, f"the end of {text!r}")

    def ready(self) -> "Window":
        """Wait until the input line is shown and nothing runs."""
        self.wait(lambda screen: self.is_idle(screen), "an empty line to type in")
        return self

    def is_idle(self, screen: str) -> bool:
        return screen.split("\n")[-2:-1] == [">"] and "interrupts" not in screen

    def type(self, keys: str) -> None:
        self.child.send(keys)

    def say(self, text: str) -> None:
        self.type(f"{text}\r")

    def end(self) -> int:
        """Wait for the end; returns the exit code."""
        self.child.expect(pexpect.EOF, timeout=PATIENCE)
        self.seen += self.child.before or ""
        usual = termios.ICANON | termios.ECHO | termios.ISIG
        assert termios.tcgetattr(self.child.child_fd)[3] & usual == usual
        self.child.close()
        assert "Traceback" not in self.seen
        assert self.seen.count("\x1b[?2004h") <= self.seen.count("\x1b[?2004l")
        return (
            self.child.exitstatus if self.child.exitstatus is not None else -self.child.signalstatus
        )


@pytest.fixture
def talker(writer: Project) -> Project:
    writer.write("worker.yaml", WORKER)
    writer.write("models.py", MODELS)
    writer.home.mkdir()
    (writer.home / "config.yaml").write_text("titles: false\n")
    os.mkfifo(writer.folder / "words")
    os.mkfifo(writer.folder / "gate")
    return writer


@pytest.fixture
def chat(talker: Project, terminal: Callable[..., Keyboard]) -> Callable[..., Window]:
    """Start a conversation; it waits until something can be typed."""

    def start(
        *args: str, columns: int = 80, rows: int = 24, command: str = "chat", **env: str
    ) -> Window:
        given = {"TERM": "xterm", "NO_COLOR": "1", **env}
        keyboard = terminal(command, "worker.yaml", *args, columns=columns, rows=rows, **given)
        return Window(keyboard.child, columns, rows)

    return start


@pytest.fixture
def words(talker: Project) -> Iterator[Callable[[str], None]]:
    """Say something as the model; what is written ``|`` becomes a new line."""
    pipes: list[int] = []

    def say(text: str) -> None:
        if not pipes:
            pipes.append(os.open(Path(talker.folder, "words"), os.O_WRONLY))
        os.write(pipes[0], f"{text}\n".encode())

    def stop() -> None:
        if pipes:
            os.close(pipes.pop())

    say.stop = stop  # type: ignore[attr-defined]
    yield say
    stop()
