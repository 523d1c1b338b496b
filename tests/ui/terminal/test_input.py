"""A line of input at a real pseudo-terminal: typed, pasted, cancelled, withdrawn, without leftovers."""

import fcntl
import io
import os
import signal
import struct
import termios
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from forge_cli.core.text import visible
from forge_cli.process.signals import in_loop
from forge_cli.ui.terminal.console import new_console
from forge_cli.ui.terminal.input import LineReader
from forge_cli.ui.terminal.keys import QuestionLeft
from tests.support.screen import Screen

PASTED = "\x1b[200~{}\x1b[201~"
LEFT, HUNG_UP = "left", "hung up"


def squeezed(*lines: str) -> str:
    """The text without blanks, because a terminal wraps anywhere."""
    return "".join("".join(lines).split())


class Desk:
    """A pseudo-terminal on which lines are read, and its keyboard."""

    def __init__(self, columns: int = 80) -> None:
        self.master, self.slave = os.openpty()
        self.screen = Screen(columns)
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.tty = io.TextIOWrapper(io.FileIO(self.slave, "r+"), write_through=True)
        self.lines = LineReader(new_console(self.tty), self.tty)
        self.line: str | None = "nothing was read"

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    async def until(self, seen: Callable[[list[str]], bool]) -> None:
        """Wait until the screen looks like this."""
        while not seen(self.screen.lines):
            await anyio.wait_readable(self.master)
            self.screen.feed(os.read(self.master, 65536).decode())

    async def shows(self, *lines: str) -> None:
        await self.until(lambda shown: shown[-len(lines) :] == list(lines))

    @property
    def cooked(self) -> bool:
        flags = termios.tcgetattr(self.slave)[3]
        return bool(flags & termios.ICANON and flags & termios.ECHO)

    @asynccontextmanager
    async def asking(self, prompt: str = "> ") -> AsyncIterator[anyio.CancelScope]:
        """Ask a question; leaving waits for the line and stores it in ``line``."""

        async def ask() -> None:
            try:
                self.line = await self.lines.ask(prompt)
            except QuestionLeft as left:
                self.line = f"{LEFT} by Ctrl+C" if left.ctrl_c else LEFT
                self.line = HUNG_UP if left.hung_up else self.line

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await self.until(lambda shown: squeezed(*shown).endswith(squeezed(visible(prompt))))
            yield tasks.cancel_scope

    def hang_up(self) -> None:
        """Close the window."""
        os.close(self.master)
        self.master = os.open(os.devnull, os.O_RDWR)

    def close(self) -> None:
        self.tty.close()
        os.close(self.master)


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TERM", "xterm-256color")
    made: list[Desk] = []

    def run(story: Callable[[Desk], Awaitable[None]], columns: int = 80) -> Desk:
        made.append(Desk(columns))

        async def within() -> None:
            with anyio.fail_after(60):
                await story(made[-1])

        in_loop(within)
        return made[-1]

    yield run
    for each in made:
        each.close()


def test_editing_keys_change_the_line(desk) -> None:
    cases = {
        "wrold\x1b[D\x1b[D\x1b[D\x7f\x1b[Cr\x01Hello, \x05!\r": "Hello, world!",
        "yes\x15n two\x17three\r": "n three",
        "n "
        + PASTED.format("first line\rsecond line\r\ny\n")
        + "\r": "n first line\nsecond line\ny\n",
        "日本語\x1b[D\x7f文\r": "日文語",
        "n\n": "n",
        "n first line\rsecond line\ry\r": "n first line",
        "\r": "",
        "\x04": None,
        "ab\x7f\x7f\x04": None,
        "\x1b": LEFT,
        "half\x1b": LEFT,
        "\x03": f"{LEFT} by Ctrl+C",
        "half\x03y\r": f"{LEFT} by Ctrl+C",
    }
    failures = []

    async def story(desk: Desk) -> None:
        for number, (keys, line) in enumerate(cases.items()):
            async with desk.asking(f"{number} who? "):
                assert not desk.cooked
                desk.type(keys)
            if desk.line != line:
                failures.append((keys, desk.line))

    done = desk(story)
    assert failures == []
    assert done.cooked
    os.set_blocking(done.slave, False)
    with pytest.raises(BlockingIOError):
        os.read(done.slave, 100)


@pytest.mark.parametrize("term", ["xterm", "dumb"])
@pytest.mark.parametrize("typed", ["", "half a line"])
def test_closed_terminal_is_a_hang_up_not_an_end_of_input(
    desk, monkeypatch, term: str, typed: str
) -> None:
    monkeypatch.setenv("TERM", term)

    async def story(desk: Desk) -> None:
        async with desk.asking("who? "):
            desk.type(typed)
            desk.hang_up()

    assert desk(story).line == HUNG_UP


@pytest.mark.parametrize("columns", [50, 20])
def test_long_question_and_long_line_take_several_rows(desk, columns: int) -> None:
    question = "what, after all that was said, is to be done? "
    text = "日本語のとても長い文 and some words behind it that do not fit into one row"

    async def story(desk: Desk) -> None:
        async with desk.asking(question):
            desk.type(text)
            await desk.until(lambda lines: squeezed(*lines).endswith("onerow"))
            desk.type("\x01X\x05Y\r")
        await desk.until(lambda lines: squeezed(*lines).endswith("rowY"))

    done = desk(story, columns)
    assert done.line == f"X{text}Y"
    assert squeezed(*done.screen.lines) == squeezed(question, "X", text, "Y")


def test_input_before_the_prompt_is_ignored_and_lines_typed_ahead_are_kept(desk) -> None:
    async def story(desk: Desk) -> None:
        desk.type("y\r")
        async with desk.asking():
            desk.type("n\r")
        assert desk.line == "n"
        desk.type("one\rtwo\rthree\r")
        assert [await desk.lines.read(f"{number}> ") for number in range(3)] == [
            "one\n",
            "two\n",
            "three\n",
        ]

    desk(story)


def test_history_recalls_earlier_lines(desk) -> None:
    async def story(desk: Desk) -> None:
        for number, keys in enumerate(("one\r", "two\r", "two\r", "\r", "\x1b[A\x1b[A!\r")):
            async with desk.asking(f"{number}> "):
                desk.type(keys)

    assert desk(story).line == "one!"


def test_prompt_text_cannot_control_the_terminal(desk) -> None:
    async def story(desk: Desk) -> None:
        async with desk.asking("a\x1b[2J\x07\u202e > "):
            await desk.shows(r"a\x1b[2J\x07\u202e >")
            desk.type("n\r")

    assert desk(story).screen.bells == 0


def test_withdrawn_prompt_restores_the_terminal(desk) -> None:
    numbers = (signal.SIGINT, signal.SIGTSTP, signal.SIGWINCH)

    async def story(desk: Desk) -> None:
        before, handlers = (
            termios.tcgetattr(desk.slave),
            [signal.getsignal(number) for number in numbers],
        )
        async with desk.asking() as scope:
            desk.type("half an ans")
            await desk.shows("> half an ans")
            assert desk.screen.modes["2004"]
            desk.lines.take_away()
            scope.cancel()
        assert termios.tcgetattr(desk.slave) == before
        assert [signal.getsignal(number) for number in numbers] == handlers
        await desk.until(lambda lines: not desk.screen.modes["2004"])
        assert desk.screen.lines == [""]

    assert desk(story).line == "nothing was read"


def test_output_during_input_is_above_the_line(desk) -> None:
    async def story(desk: Desk) -> None:
        async with desk.asking():
            desk.type("half ")
            await desk.shows("> half")
            with desk.lines.aside():
                desk.lines.console.print("a warning")
            await desk.shows("a warning", "> half")
            desk.type("done\r")
        await desk.shows("a warning", "> half done", "")

    assert desk(story).line == "half done"


@pytest.mark.parametrize("term", ["dumb", "unknown", ""])
def test_terminal_without_cursor_movement_reads_plain_lines(desk, monkeypatch, term: str) -> None:
    monkeypatch.setenv("TERM", term)

    async def story(desk: Desk) -> None:
        async with desk.asking():
            assert desk.cooked
            desk.type("n one\ntwo\n")

    done = desk(story)
    assert done.line == "n one"
    assert done.screen.modes == {}
