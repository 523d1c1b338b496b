"""Conversations inside tmux, started from its shell; the panes are read as text."""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forge_cli.testing import Project

pytestmark = pytest.mark.needs("tmux")
PATIENCE = 60
HELLO = '{text: "Hello, {task}!"}'


class Pane:
    """One shell in tmux."""

    def __init__(self, socket: Path, name: str, project: Project) -> None:
        self._tmux = ["tmux", "-S", str(socket), "-f", os.devnull]
        self._name = name
        env = {
            "FORGE_HOME": project.home,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PS1": "$ ",
        }
        settings = [f"{key}={value}" for key, value in env.items()]
        shell = shlex.join(["env", "-u", "CI", *settings, "bash", "--norc", "--noprofile"])
        self._run(
            "new-session",
            "-d",
            "-s",
            name,
            "-x",
            "80",
            "-y",
            "24",
            "-c",
            str(project.folder),
            shell,
        )
        self.see("$")

    def _run(self, *args: str) -> str:
        return subprocess.run(
            [*self._tmux, *args], check=True, capture_output=True, text=True, timeout=PATIENCE
        ).stdout

    @property
    def text(self) -> str:
        return self._run("capture-pane", "-p", "-t", self._name)

    @property
    def history(self) -> str:
        """The text with all that has scrolled away."""
        return self._run("capture-pane", "-p", "-S", "-", "-t", self._name)

    def resize(self, columns: int) -> None:
        self._run("resize-window", "-t", self._name, "-x", str(columns))

    def press(self, *keys: str) -> None:
        self._run("send-keys", "-t", self._name, *keys)

    def type(self, text: str) -> None:
        self._run("send-keys", "-t", self._name, "-l", text)

    def enter(self, text: str) -> None:
        self.type(text)
        self.press("Enter")

    def see(self, *texts: str) -> str:
        end = time.monotonic() + PATIENCE
        while not all(text in (seen := self.text) for text in texts):
            assert time.monotonic() < end, f"never saw {texts}:\n{seen}"
            time.sleep(0.05)
        return seen

    def chat(self, *args: str) -> None:
        self.enter(shlex.join(["forge", "chat", "worker.yaml", *args]))
        self.see("Ctrl+D leaves.", "· ask")


@pytest.fixture
def new_pane(
    talker: Project, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Pane]]:
    socket = tmp_path_factory.mktemp("tmux") / "socket"
    yield lambda name: Pane(socket, name, talker)
    subprocess.run(
        ["tmux", "-S", str(socket), "kill-server"],
        check=False,
        timeout=PATIENCE,
        capture_output=True,
    )


def test_session_is_picked_and_resumed(new_pane, script) -> None:
    script('{text: "**Hello**, {task}!"}')
    pane = new_pane("one")
    pane.chat()
    pane.enter("world")
    pane.see("Hello, world!")
    pane.press("C-d")
    pane.see("resume with: forge chat worker.yaml -r 2")
    pane.enter("clear; forge chat worker.yaml; echo left with $?")
    pane.see("Ctrl+D leaves.", "· ask")
    assert "starting" not in pane.history
    pane.enter("/sessions wor")
    pane.see("1. ", "(Enter: stay) >")
    pane.enter("1")
    pane.see("resuming session 2", "Ctrl+D leaves.\n\n> world\nHello, world!")
    pane.enter("/exit")
    pane.see("left with 0")


@pytest.mark.long
def test_ctrl_z_restores_the_terminal_and_fg_the_line(new_pane, script) -> None:
    script(HELLO)
    pane = new_pane("one")
    pane.chat()
    pane.type("half a li")
    pane.see("> half a li")
    pane.press("C-z")
    pane.see("Stopped")
    pane.enter("clear; echo the sh''ell; fg")
    pane.see("the shell", "> half a li", "· ask")
    pane.enter("ne")
    pane.see("Hello, half a line!")


@pytest.mark.long
def test_conversations_in_one_folder_do_not_disturb_each_other(new_pane, script, talker) -> None:
    script(HELLO, '{text: "Again {task}."}')
    panes = [new_pane("one"), new_pane("two")]
    for number, pane in enumerate(panes):
        pane.chat()
        pane.enter(f"first {number}")
    for number, pane in enumerate(panes):
        pane.see(f"Hello, first {number}!")
        pane.enter(f"second {number}")
    for number, pane in enumerate(panes):
        assert (
            f"{1 - number}"
            not in pane.see(f"Again second {number}.").partition("leaves.")[2].partition("·")[0]
        )
    assert len(list((talker.home / "sessions").glob("*.jsonl"))) == 2


@pytest.mark.long
def test_tool_is_called_by_a_form(new_pane, script) -> None:
    script(HELLO)
    pane = new_pane("one")
    pane.chat()
    pane.enter("/shell -i")
    pane.see("(A command line for bash):")
    pane.enter("echo by ha''nd")
    pane.see("[optional]:")
    pane.press("Enter")
    pane.see("[Enter] calls it")
    pane.press("Enter")
    pane.see("by hand", "· ask")


def test_terminal_that_becomes_narrower_shows_every_word_once(new_pane, words) -> None:
    pane = new_pane("one")
    pane.chat("-m", "pipe:words")
    pane.enter("go")
    words(
        "A paragraph that is longer than one row, and still grows when somebody makes the terminal narrower,"
    )
    pane.see("narrower,", "Esc interrupts")
    for columns in (60, 45):
        pane.resize(columns)
        words(f"|to {columns} columns")
        seen = pane.see(f"\nto {columns}")
    assert (seen.count("A paragraph"), seen.count("Esc interrupts"), seen.count("\n> go")) == (
        1,
        1,
        1,
    )
