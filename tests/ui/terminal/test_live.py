"""The live lines: below the text, never in it, and removed when a prompt needs the terminal.

Covers forge_cli.ui.wrap, forge_cli.ui.terminal.live.
"""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from forge_cli.core.notify import RetryNotice
from forge_cli.ui.terminal.live import LiveLines, Status, compact, dim, duration
from forge_cli.ui.wrap import fit
from tests.support.screen import Screen


class Terminal:
    """A pseudo-terminal with live lines, and its screen."""

    def __init__(self, columns: int = 20, rows: int = 5) -> None:
        self.master, self.slave = os.openpty()
        os.set_blocking(self.master, False)
        self.resize(columns, rows)
        self.shown = ["one", "two"]
        self.live = LiveLines(self.slave, lambda seconds: self.shown, since=time.monotonic() - 1)
        self.seen = Screen(columns, rows)

    def resize(self, columns: int, rows: int) -> None:
        import fcntl
        import struct
        import termios

        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def write(self, text: str) -> None:
        with self.live.writing(text):
            os.write(self.slave, text.encode())

    @property
    def lines(self) -> list[str]:
        try:
            while data := os.read(self.master, 65536):
                self.seen.feed(data.decode())
        except BlockingIOError:
            pass
        return self.seen.lines


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    made.live.close()
    os.close(made.master)
    os.close(made.slave)


def test_live_lines_stay_below_the_text(terminal: Terminal) -> None:
    terminal.live.refresh()
    assert terminal.lines == ["one", "two"]
    terminal.write("a\n")
    assert terminal.lines == ["a", "one", "two"]
    terminal.write("b\nc\nd\ne\nf\n")
    assert terminal.lines == ["a", "b", "c", "d", "e", "f", "one", "two"]
    terminal.shown = ["three"]
    terminal.live.refresh()
    assert terminal.lines == ["a", "b", "c", "d", "e", "f", "three"]
    terminal.live.close()
    assert terminal.lines == ["a", "b", "c", "d", "e", "f"]
    terminal.live.refresh()
    assert terminal.lines == ["a", "b", "c", "d", "e", "f"]


def test_live_lines_are_below_an_unfinished_line(terminal: Terminal) -> None:
    terminal.write("1\n2\n3\n4\nthis is")
    terminal.live.refresh()
    assert terminal.lines == ["1", "2", "3", "4", "this is", "one", "two"]
    terminal.write(" the end\n")
    assert terminal.lines == ["1", "2", "3", "4", "this is the end", "one", "two"]


def test_full_line_is_not_changed(terminal: Terminal) -> None:
    terminal.write("x" * 20)
    terminal.live.refresh()
    assert terminal.lines == ["x" * 20]


def test_live_lines_make_room_for_a_prompt(terminal: Terminal) -> None:
    terminal.live.refresh()
    with terminal.live.paused():
        terminal.live.refresh()
        assert terminal.lines == [""]
        os.write(terminal.slave, b"really? y\n")
        terminal.live.refresh()
        assert terminal.lines == ["really? y"]
    terminal.live.refresh()
    assert terminal.lines == ["really? y", "one", "two"]


def test_live_lines_fit_a_resized_terminal(terminal: Terminal) -> None:
    terminal.shown = [f"line {number} of many" for number in range(9)]
    terminal.live.refresh()
    assert terminal.lines == ["line 6 of many", "line 7 of many", "line 8 of many"]
    terminal.resize(10, 4)
    terminal.live.refresh()
    assert terminal.lines == ["line 7 o…", "line 8 o…"]


def test_ctrl_z_leaves_a_clean_terminal_and_continuing_draws_again(terminal: Terminal) -> None:
    terminal.live.refresh()
    terminal.write("text\n")
    stopped: list[list[str]] = []
    before = signal.getsignal(signal.SIGTSTP)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "kill", lambda pid, number: stopped.append(terminal.lines))
            terminal.live._stop(signal.SIGTSTP, None)
        assert stopped == [["text"]]
        assert signal.getsignal(signal.SIGTSTP) == terminal.live._stop
    finally:
        signal.signal(signal.SIGTSTP, before)
    terminal.live.refresh()
    assert terminal.lines == ["text", "one", "two"]


def test_shortened_text_keeps_its_colours() -> None:
    assert fit("\x1b[2mabcdef\x1b[0m", 4) == "\x1b[2mabc…\x1b[0m"


def test_numbers_and_durations_are_shortened() -> None:
    assert [compact(number) for number in (0, 112, 999, 1000, 2468, 12345, 999_949, 1_234_567)] == [
        *("0", "112", "999", "1.0k", "2.5k", "12.3k", "1.0M", "1.2M")
    ]
    assert [duration(seconds) for seconds in (0.44, 9.9, 14.2, 59.4, 125, 34_980)] == [
        "0.4 s",
        "9.9 s",
        "14 s",
        "59 s",
        "2 min 5 s",
        "9 h 43 min",
    ]


def test_reason_for_a_retry_has_its_own_row() -> None:
    status = Status()
    status.model = "m:1"
    assert status.problem == []
    status.wait(RetryNotice("m:1: it is overloaded", 5, 2, 5))
    assert (status.doing, status.problem) == (
        "waiting 5 s, try 2 of 5",
        [dim("  it is overloaded")],
    )
    assert "overloaded" not in status.line(1.0)
    status.wait(RetryNotice("m:1: it is overloaded", 0.4, 2, 5))
    assert status.doing == "waiting 1 s, try 2 of 5"
    status.wait(RetryNotice("m:1: it is overloaded", 0, 2, 5))
    assert status.doing == "try 2 of 5"
