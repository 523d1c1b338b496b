"""The parts around the input line: text above it, the status line, history and notices."""

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
    """A stream for text above the input line, which waits for ``take`` while it is held.

    An incomplete last line is kept back in ``partial``.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.on_text: Callable[[], object] = lambda: None
        """Called when text waits, possibly from another thread."""
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
        """Hold text back until it is taken, because the input line is shown."""
        self._held = True

    def release(self) -> None:
        """Write the held text, and no longer hold text back."""
        self._held = False
        text = self.take() + self.partial
        self.partial = ""
        if text:
            self.stream.write(text if text.endswith("\n") else f"{text}\n")
            self.stream.flush()

    def take(self) -> str:
        """Remove and return the complete lines."""
        count = len(self._pieces)  # another thread may add pieces during this
        text = self.partial + "".join(self._pieces[:count])
        del self._pieces[:count]
        lines, newline, self.partial = text.rpartition("\n")
        return lines + newline


class TypedLine:
    """The input line of a conversation; subclasses that can edit it override all methods."""

    async def run(self) -> None:
        """Read lines until ``end`` is called or the input ends."""

    def end(self) -> None:
        """Stop reading."""

    def hint(self, text: str) -> None:
        """Show a short text for a moment."""

    def clear_input(self) -> bool:
        """Drop the typed text; return True if there was any."""
        return False

    def edit(self, text: str) -> None:
        """Insert a text before the typed text."""

    def redraw(self) -> None:
        """Draw the line again."""


FOCUS_ON = "\x1b[?1004h"
FOCUS_OFF = "\x1b[?1004l"
"""Turn focus reports of the terminal on and off."""
NOTICE_AFTER = 10.0
"""Seconds of work after which a notice is given if the terminal reports no focus."""
_PROGRAMS = frozenset({"iTerm.app", "WezTerm", "ghostty"})
_TERMS = frozenset({"xterm-kitty", "xterm-ghostty", "foot", "foot-extra"})


def has_messages(env: Mapping[str, str]) -> bool:
    """Return True if the terminal shows OSC 9 notices, which tmux and screen do not pass on."""
    if env.get("TMUX") or env.get("STY"):  # STY is set by screen
        return False
    return env.get("TERM_PROGRAM") in _PROGRAMS or env.get("TERM") in _TERMS


class Notice:
    """A notice for a person who looks elsewhere: a bell or a desktop message."""

    def __init__(self, write: Callable[[str], object], env: Mapping[str, str] = os.environ) -> None:
        self._write = write
        self._messages = has_messages(env)
        self.in_front: bool | None = None
        """Whether the terminal has the focus; None until it reports that."""

    def give(self, text: str, since: float) -> None:
        """Show a notice unless the terminal has the focus; ``since`` is when the wait began."""
        if self.in_front or (self.in_front is None and time.monotonic() - since < NOTICE_AFTER):
            return
        if self._messages:
            self._write(f"\x1b]9;{cut(visible(text), 100, 'end')}\a")  # OSC 9: a desktop notice
        else:
            self._write("\a")


_DROP_ORDER = ("tokens", "folder", "cost", "window")
"""Parts in the order in which they are left out; the mode and the model always stay."""


def status_line(facts: Facts, columns: int) -> str:
    """Return the state of the conversation on one line that fits into ``columns``."""
    used = facts.usage
    read = used.sent_tokens
    parts = {
        "model": visible(facts.model),
        "tokens": f"{compact(read)} in, {compact(used.output_tokens)} out" if read else "",
        "cost": dollars(facts.cost) if facts.cost else "",
        "window": "",
        "folder": visible(near_home(facts.workspace)),
        "mode": facts.mode_title,
    }
    if facts.window and facts.used:
        parts["window"] = f"{facts.used / facts.window:.0%} of the window"
    for dropped in ("", *_DROP_ORDER):
        parts.pop(dropped, None)
        line = " · ".join(filter(None, parts.values()))
        if cell_width(line) < columns:
            return line
    mode = f" · {parts['mode']}"
    return fit(parts["model"], max(columns - 1 - cell_width(mode), 1)) + mode


MAX_ENTRIES = 1000
"""Entries of a history; older ones are dropped."""
MAX_ENTRY = 20_000
"""Characters of an entry; longer text was pasted and is only kept in its session."""
# A link could point to another file.
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class InputHistory:
    """Earlier input lines: a file with a JSON string per line, or only a list."""

    def __init__(self, file: Path | None, redact: Callable[[str], str] = str) -> None:
        self._file = file
        self._redact = redact
        self.entries = self._read()
        """The entries, the oldest first."""

    def add(self, text: str) -> None:
        """Add a line, unless it repeats the last one, is too long, or contains a secret."""
        if not text.strip() or text in self.entries[-1:] or len(text) > MAX_ENTRY:
            return
        if self._redact(text) != text:
            return
        self.entries.append(text)
        if self._file is not None:
            with suppress(OSError):  # a history that cannot be written is no reason to fail
                make_private(self._file.parent)
                with open(os.open(self._file, _FLAGS, 0o600), "a", encoding="utf-8") as stream:
                    stream.write(json.dumps(text) + "\n")
                    stream.flush()
                    sync_data(stream.fileno())

    def _read(self) -> list[str]:
        try:
            lines = []
            if self._file:
                lines = self._file.read_text("utf-8", "replace").splitlines()
        except OSError:
            return []
        entries = []
        for line in lines:
            with suppress(ValueError):  # a damaged line
                if isinstance(text := json.loads(line), str):
                    entries.append(text)
        # Rewrite the file rarely: an entry that another conversation appends during this is lost.
        if self._file is not None and len(lines) > 2 * MAX_ENTRIES:
            with suppress(OSError):
                kept = "".join(json.dumps(text) + "\n" for text in entries[-MAX_ENTRIES:])
                replace_file(self._file, kept, mode=0o600)
        return entries[-MAX_ENTRIES:]
