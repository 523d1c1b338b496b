"""The text above the line that is being typed, held until it is drawn there."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TextIO


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
