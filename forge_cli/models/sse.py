"""Server-sent events, read from bytes in whatever pieces they arrive."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from dataclasses import field

from forge_cli.core.values import dataclass

LONGEST = 16 * 2**20
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
        *lines, rest = _LINE_END.split(piece)
        events = [event for line in lines if (event := self._end_line(line)) is not None]
        self._keep(rest)
        return events

    def close(self) -> list[str]:
        """The event that only misses its blank line; a line that is not complete does not count."""
        event = self._dispatch()
        return [] if event is None else [event]

    def _end_line(self, last: bytes) -> str | None:
        self._keep(last)
        line = (last if len(self._line) == 1 else b"".join(self._line)).removeprefix(BOM_UTF8)
        self._line.clear()
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" ").decode("utf-8", "replace"))
        elif name == b"error":  # llama.cpp has sent its errors in a field of their own
            self._data.append(f'{{"error":{value.removeprefix(b" ").decode("utf-8", "replace")}}}')
        return None

    def _keep(self, part: bytes) -> None:
        self._line.append(part)
        self._size += len(part)
        if self._size > LONGEST:
            raise TooLong(f"an event of more than {LONGEST} bytes")

    def _dispatch(self) -> str | None:
        event = "\n".join(self._data) if self._data else None
        self._data.clear()
        self._size = 0
        return event
