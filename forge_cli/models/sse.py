"""Server-sent events, read from bytes in whatever pieces they arrive.

That of httpx2 takes no field but ``data``, no mark at the beginning, and no last event without its blank line.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8

LONGEST = 16 * 2**20
_TOO_LONG = f"an event of more than {LONGEST} bytes"
_LINE_END = re.compile(rb"\r\n|\n|\r")


class TooLong(ValueError):
    """An event does not end."""


class SseReader:
    """Collects lines into events; an event is the text of its data lines."""

    def __init__(self) -> None:
        self._line: list[bytes] = []
        """The pieces of the line that has not ended."""
        self._data: list[str] = []
        self._size = 0
        self._after_cr = False

    def feed(self, piece: bytes) -> list[str]:
        """The events that these bytes complete."""
        if self._after_cr:
            piece = piece.removeprefix(b"\n")
        self._after_cr = piece.endswith(b"\r")
        *lines, rest = _LINE_END.split(piece)
        events: list[str] = []
        for line in lines:
            self._grow(line)
            whole = b"".join(self._line).removeprefix(BOM_UTF8)
            self._line.clear()
            if whole:
                self._take(whole)
            else:
                self._size = 0
                events += self.close()
        self._grow(rest)
        return events

    def _grow(self, piece: bytes) -> None:
        self._line.append(piece)
        self._size += len(piece)
        if self._size > LONGEST:
            raise TooLong(_TOO_LONG)

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
