"""A line from somebody at a real pseudo-terminal: edited, pasted, taken away, and nothing of it left behind."""

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

from forge_cli.cli.signals import in_loop
from forge_cli.ui.terminal.console import new_console
from forge_cli.ui.terminal.line import ESCAPE_ALONE, LineEditor
from tests.ui.screen import Screen

PASTED = "\x1b[200~{}\x1b[201~"


class Desk:
    """A pseudo-terminal with an editor on it, and somebody at its keyboard."""

    def __init__(self, columns: int = 80) -> None:
        self.master, self.slave = os.openpty()
        self.screen = Screen(columns)
        self.resize(columns)
        self.tty = io.TextIOWrapper(io.FileIO(self.slave, "r+"), write_through=True)
        self.editor = LineEditor(new_console(self.tty), self.tty)
        self.line: str | None = "nothing was read"

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.screen.columns = columns

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
    async def asking(self, prompt: str = "> ", *more: Any) -> AsyncIterator[anyio.CancelScope]:
        """Somebody is asked; leaving waits for the line, which ``line`` is then."""

        async def ask() -> None:
            self.line = await self.editor.ask(prompt, *more)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await self.shows(prompt.rstrip())
            yield tasks.cancel_scope

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
            with anyio.fail_after(20):
                await story(made[-1])

        in_loop(within)
        return made[-1]

    yield run
    for each in made:
        each.close()


def test_a_line_is_edited_in_its_place(desk) -> None:
    async def story(desk: Desk) -> None:
        async with desk.asking("who? "):
            desk.type("wrold\x1b[D\x1b[D\x1b[D\x7f\x1b[Cr\x01Hello, \x05!")
            await desk.shows("who? Hello, world!")
            assert not desk.cooked
            assert desk.screen.modes["2004"]
            desk.type("\r")
        await desk.shows("who? Hello, world!", "")

    done = desk(story)
    assert done.line == "Hello, world!"
    assert done.cooked
    assert not done.screen.modes["2004"]


@pytest.mark.parametrize("columns", [50, 20])
def test_a_long_line_takes_several_rows(desk, columns: int) -> None:
    text = "日本語のとても長い文 and some words behind it that do not fit into one row"

    async def story(desk: Desk) -> None:
        async with desk.asking("> "):
            desk.type(text)
            await desk.until(lambda lines: "".join(lines).replace(" ", "").endswith("onerow"))
            assert len(desk.screen.lines) == -(-(len(text) + 10 + 2) // columns)
            desk.type("\x01X\x05Y\r")
        await desk.until(lambda lines: lines[-1] == "")

    done = desk(story, columns)
    assert done.line == f"X{text}Y"
    assert "".join(line.ljust(columns) for line in done.screen.lines).startswith("> X日本")
    assert done.screen.lines[-2].endswith("one rowY")


def test_what_is_pasted_is_one_line_and_answers_nothing(desk) -> None:
    async def story(desk: Desk) -> None:
        async with desk.asking():
            desk.type("n " + PASTED.format("first line\rsecond line\r\ny\n"))
            await desk.shows(r"> n first line\nsecond line\ny\n")
            desk.type("\r")

    assert desk(story).line == "n first line\nsecond line\ny\n"


def test_what_is_left_of_a_paste_without_marks_reaches_nobody(desk) -> None:
    async def story(desk: Desk) -> None:
        async with desk.asking():
            desk.type("n first line\rsecond line\ry\r")
        await desk.shows("> n first line", "")
        async with desk.asking("again? "):
            desk.type("n\r")

    done = desk(story)
    assert done.line == "n"
    os.set_blocking(done.slave, False)
    with pytest.raises(BlockingIOError):
        os.read(done.slave, 100)


def test_what_was_typed_before_does_not_count(desk) -> None:
    async def story(desk: Desk) -> None:
        desk.type("y\r")
        async with desk.asking():
            desk.type("n\r")

    assert desk(story).line == "n"


def test_earlier_lines_come_back(desk) -> None:
    async def story(desk: Desk) -> None:
        history: list[str] = []
        for number, keys in enumerate(("one\r", "two\r", "two\r", "\r", "\x1b[A\x1b[A!\r")):
            async with desk.asking(f"{number}> ", history):
                desk.type(keys)
        assert history == ["one", "two", "one!"]

    assert desk(story).line == "one!"


@pytest.mark.parametrize("keys", ["\x04", "ab\x7f\x7f\x04"])
def test_the_end_of_input_is_no_line(desk, keys: str) -> None:
    async def story(desk: Desk) -> None:
        async with desk.asking():
            desk.type(keys)
        await desk.shows(">", "")

    assert desk(story).line is None


def test_an_escape_alone_takes_no_other_key_with_it(desk) -> None:
    async def story(desk: Desk) -> None:
        async with desk.asking():
            desk.type("\x1b")
            await anyio.sleep(ESCAPE_ALONE * 4)
            desk.type("y\r")

    assert desk(story).line == "y"


def test_a_prompt_that_is_withdrawn_leaves_the_terminal_as_it_was(desk) -> None:
    async def story(desk: Desk) -> None:
        before = termios.tcgetattr(desk.slave)
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTSTP, signal.SIGWINCH)]
        async with desk.asking() as scope:
            desk.type("half an ans")
            await desk.shows("> half an ans")
            scope.cancel()
        assert termios.tcgetattr(desk.slave) == before
        assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTSTP, signal.SIGWINCH)] == handlers
        await desk.until(lambda lines: not desk.screen.modes["2004"])

    assert desk(story).line == "nothing was read"


def test_a_signal_gives_the_terminal_back_before_anything_else(desk) -> None:
    seen: list[bool] = []

    async def story(desk: Desk) -> None:
        handled = anyio.Event()

        def handle(number: int, frame: object) -> None:
            seen.append(desk.cooked)
            handled.set()

        before = signal.signal(signal.SIGINT, handle)
        try:
            async with desk.asking() as scope:
                os.kill(os.getpid(), signal.SIGINT)
                await handled.wait()
                scope.cancel()
        finally:
            signal.signal(signal.SIGINT, before)

    desk(story)
    assert seen == [True]


def test_what_is_written_in_between_stands_above_the_line(desk) -> None:
    async def story(desk: Desk) -> None:
        async with desk.asking():
            desk.type("half ")
            await desk.shows("> half")
            with desk.editor.aside():
                desk.editor.console.print("a warning")
            await desk.shows("a warning", "> half")
            desk.type("done\r")
        await desk.shows("a warning", "> half done", "")

    assert desk(story).line == "half done"


def test_a_terminal_that_changes_its_size_shows_the_line_again(desk) -> None:
    async def story(desk: Desk) -> None:
        async with desk.asking():
            desk.type("a line of some words")
            await desk.shows("> a line of some words")
            desk.resize(12)
            desk.screen.rows = [list("> a line of "), list("some words")]
            desk.screen.row, desk.screen.column = 1, 10
            os.kill(os.getpid(), signal.SIGWINCH)
            desk.type("!")
            await desk.shows("> a line of", "some words!")
            desk.type("\r")

    assert desk(story).line == "a line of some words!"


def test_what_is_asked_is_drawn_again_when_the_process_continues(desk) -> None:
    async def story(desk: Desk) -> None:
        async with desk.asking("> ", None, lambda: desk.editor.console.print("the question")):
            desk.type("half")
            await desk.shows("> half")
            attributes = termios.tcgetattr(desk.slave)
            attributes[3] |= termios.ICANON | termios.ECHO
            termios.tcsetattr(desk.slave, termios.TCSANOW, attributes)
            desk.screen.feed("\r\n$ fg\r\n")
            os.kill(os.getpid(), signal.SIGCONT)
            await desk.shows("$ fg", "the question", "> half")
            assert not desk.cooked
            desk.type(" done\r")

    done = desk(story)
    assert done.line == "half done"
    assert done.cooked


@pytest.mark.parametrize("term", ["dumb", "unknown", ""])
def test_a_terminal_that_cannot_move_its_cursor_reads_plain_lines(desk, monkeypatch, term: str) -> None:
    monkeypatch.setenv("TERM", term)

    async def story(desk: Desk) -> None:
        async with desk.asking():
            assert desk.cooked
            desk.type("n one\ntwo\n")

    done = desk(story)
    assert done.line == "n one"
    assert done.screen.modes == {}
