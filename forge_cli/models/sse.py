"""Server-sent events, read from bytes in whatever pieces they arrive."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from dataclasses import dataclass, field

LONGEST = 16 * 2**20
_TOO_LONG = f"an event of more than {LONGEST} bytes"
_LINE_END = re.compile(rb"\r\n|\n|\r")


class TooLong(ValueError):
    """An event does not end."""


@dataclass
class SseReader:
    """Collects lines into events; an event is the text of its data lines."""

    _line: list[bytes] = field(default_factory=list)
    _data: list[str] = field(default_factory=list)
    _size: int = 0
    _after_cr: bool = False

    def feed(self, piece: bytes) -> list[str]:
        """The events that these bytes complete."""
        if self._after_cr:
            piece = piece.removeprefix(b"\n")
        if not piece:
            return []
        self._after_cr = piece.endswith(b"\r")
        *lines, rest = _LINE_END.split(piece) if b"\r" in piece else piece.split(b"\n")
        events: list[str] = []
        for line in lines:
            self._size += len(line)
            if self._size > LONGEST:
                raise TooLong(_TOO_LONG)
            if self._line:
                line = b"".join((*self._line, line))
                self._line.clear()
            if line.startswith(b"data: "):
                self._data.append(line[6:].decode("utf-8", "replace"))
            elif line and line != BOM_UTF8:
                self._take(line.removeprefix(BOM_UTF8))
            else:
                self._size = 0
                if self._data:
                    events.append("\n".join(self._data))
                    self._data.clear()
        if rest:
            self._size += len(rest)
            self._line.append(rest)
            if self._size > LONGEST:
                raise TooLong(_TOO_LONG)
        return events

    def close(self) -> list[str]:
        """The event that only misses its blank line; a line that is not complete does not count."""
        data, self._data = self._data, []
        return ["\n".join(data)] if data else []

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        text = value.removeprefix(b" ").decode("utf-8", "replace")
        if name == b"data":
            self._data.append(text)
        elif name == b"error":  # llama.cpp has sent its errors in a field of their own
            self._data.append(f'{{"error":{text}}}')
