"""Lines that somebody types, read one by one in the event loop, without a thread."""

from __future__ import annotations

import os
import sys
import termios
from contextlib import suppress
from typing import TextIO

import anyio


class LineInput:
    """Where answers come from: a terminal, a pipe, a file, or any other stream of text."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """Standard input, as it is when it is read, unless a ``stream`` is given."""
        self._stream = stream
        self._rest = b""
        """What came with the line before; there is none on a terminal, which gives line by line."""

    def forget_typed(self) -> None:
        """What was typed on a terminal so far does not count; what a program wrote is still to be read."""
        with suppress(termios.error, ValueError, OSError):
            termios.tcflush(self._file.fileno(), termios.TCIFLUSH)
            self._rest = b""

    async def read(self) -> str | None:
        """The next line, the last one perhaps without its end; None at the end of input."""
        try:
            fd = self._file.fileno()
        except (OSError, ValueError):
            return self._file.readline() or None
        while b"\n" not in self._rest:
            piece = await _read_piece(fd)
            if not piece:
                break
            self._rest += piece
        line, end, self._rest = self._rest.partition(b"\n")
        return (line + end).decode(errors="replace") or None

    @property
    def _file(self) -> TextIO:
        return self._stream or sys.stdin


async def _read_piece(fd: int) -> bytes:
    try:
        with suppress(PermissionError):  # a file and /dev/null cannot be waited for: they are always ready
            await anyio.wait_readable(fd)
        return os.read(fd, 4096)
    except OSError:
        return b""
