"""The surroundings of the line that is typed: text above it, a status line, earlier lines, and notices."""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from forge_cli.core.text import cut, dollars, visible
from forge_cli.files.home import make_private
from forge_cli.files.regular import sync_data
from forge_cli.files.replace import replace_file
from forge_cli.ui.facts import Facts
from forge_cli.ui.terminal.live import compact
from forge_cli.ui.views import near_home
from forge_cli.ui.wrap import cell_width, fit


class TextAbove(io.TextIOBase):
    """A stream that stands for the terminal: while ``held``, text waits for ``take``; otherwise it is written at once.

    The last line is kept back until it has its end: ``partial`` is what there is of it.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.on_text: Callable[[], object] = lambda: None
        """Called when there is something to take, perhaps by another thread."""
        self._held = False
        self._pieces: list[str] = []
        self.partial = ""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def isatty(self) -> bool:
        return self.stream.isatty()

    def fileno(self) -> int:
        return self.stream.fileno()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self._held:
            self._pieces.append(text)
            self.on_text()
        else:
            self.stream.write(text)
        return len(text)

    def flush(self) -> None:
        if not self._held and not self.stream.closed:
            self.stream.flush()

    def hold(self) -> None:
        """From now on there is a line being typed."""
        self._held = True

    def release(self) -> None:
        """Write what waits, and everything after it at once."""
        self._held = False
        text = self.take() + self.partial
        self.partial = ""
        if text:
            self.stream.write(text if text.endswith("\n") else f"{text}\n")
            self.stream.flush()

    def take(self) -> str:
        """The lines that are complete; they are the caller's to write now."""
        count = len(self._pieces)
        text = self.partial + "".join(self._pieces[:count])
        del self._pieces[:count]
        lines, newline, self.partial = text.rpartition("\n")
        return lines + newline


class TypedLine:
    """The line that the person types, which may be edited and drawn again; one that is read whole is neither."""

    async def run(self) -> None:
        """Read until ``end`` is called, or nothing more can come."""

    def end(self) -> None: ...

    def hint(self, text: str) -> None:
        """Show a word for a moment."""

    def clear_input(self) -> bool:
        """Drop what is typed so far; was there something?"""
        return False

    def edit(self, text: str) -> None:
        """Put a text before what is being typed."""

    def redraw(self) -> None: ...


FOCUS_ON, FOCUS_OFF = "\x1b[?1004h", "\x1b[?1004l"
"""Have the terminal tell when it comes to the front, and when it leaves it."""
LONG = 10.0
"""Seconds of work after which somebody may look elsewhere; only asked where the terminal does not tell."""
_PROGRAMS = frozenset({"iTerm.app", "WezTerm", "ghostty"})
_TERMS = frozenset({"xterm-kitty", "xterm-ghostty", "foot", "foot-extra"})


def has_messages(env: Mapping[str, str]) -> bool:
    """Is the terminal known to show OSC 9? Inside of tmux and screen it does not arrive."""
    if env.get("TMUX") or env.get("STY"):
        return False
    return env.get("TERM_PROGRAM") in _PROGRAMS or env.get("TERM") in _TERMS


class Notice:
    """Rings where the terminal is known to be behind others, or where nothing is known and it took long."""

    def __init__(self, write: Callable[[str], object], env: Mapping[str, str] = os.environ) -> None:
        self._write = write
        self._messages = has_messages(env)
        self.in_front: bool | None = None
        """None until the terminal has told."""

    def give(self, text: str, since: float) -> None:
        """Tell that something waits for the person, who has waited since then, a time of the monotonic clock."""
        if self.in_front or (self.in_front is None and time.monotonic() - since < LONG):
            return
        self._write(f"\x1b]9;{cut(visible(text), 100, 'end')}\a" if self._messages else "\a")


_DROPPED = ("tokens", "folder", "cost", "window")
"""Parts that are left out where there is no room, in this order; the mode says what happens unasked, and stays."""


def status_line(facts: Facts, columns: int) -> str:
    """The facts on one line, as many of them as have room."""
    used = facts.usage
    read = used.sent_tokens
    parts = {
        "model": visible(facts.model),
        "tokens": f"{compact(read)} in, {compact(used.output_tokens)} out" if read else "",
        "cost": dollars(facts.cost) if facts.cost else "",
        "window": f"{facts.used / facts.window:.0%} of the window"
        if facts.window and facts.used
        else "",
        "folder": visible(near_home(facts.workspace)),
        "mode": facts.mode_title,
    }
    for count in range(len(_DROPPED) + 1):
        line = " · ".join(
            text for name, text in parts.items() if text and name not in _DROPPED[:count]
        )
        if cell_width(line) < columns:
            return line
    mode = f" · {parts['mode']}"
    return fit(parts["model"], max(columns - 1 - cell_width(mode), 1)) + mode


KEPT = 1000
"""Entries of a history; the older ones are forgotten."""
LONGEST = 20_000
"""Characters of an entry; what is longer was pasted, and stays in its session only."""
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class InputHistory:
    """A file with one JSON string a line, appended to by every conversation with the worker; without a file, a list."""

    def __init__(self, file: Path | None, redact: Callable[[str], str] = str) -> None:
        self._file = file
        self._redact = redact
        self.entries = self._read()
        """The oldest first."""

    def add(self, text: str) -> None:
        """Remember a line, unless it is the last one again, is too long, or holds a secret."""
        if (
            not text.strip()
            or text in self.entries[-1:]
            or len(text) > LONGEST
            or self._redact(text) != text
        ):
            return
        self.entries.append(text)
        if self._file is not None:
            with suppress(OSError):  # a history is worth no error
                make_private(self._file.parent)
                with open(os.open(self._file, _FLAGS, 0o600), "a", encoding="utf-8") as stream:
                    stream.write(json.dumps(text) + "\n")
                    stream.flush()
                    sync_data(stream.fileno())

    def _read(self) -> list[str]:
        try:
            lines = self._file.read_text("utf-8", "replace").splitlines() if self._file else []
        except OSError:
            return []
        entries = [text for line in lines if isinstance(text := _parse(line), str)]
        if self._file is not None and len(lines) > 2 * KEPT:
            with suppress(OSError):
                kept = "".join(json.dumps(text) + "\n" for text in entries[-KEPT:])
                replace_file(self._file, kept, mode=0o600)
        return entries[-KEPT:]


def _parse(line: str) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None
