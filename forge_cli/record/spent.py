"""The tokens and dollars that all sessions of a home have used today, for the limits of a day."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from forge_cli.files.home import make_private

KEPT_DAYS = 7
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_MICRO = 1_000_000


class DayUse(Struct, frozen=True):
    """The use of a day."""

    tokens: int = 0
    cost: float = 0.0


class DayLedger:
    """A file for each day, to which every turn of every session appends a line.

    A line is one write, so processes need no lock, and a killed process leaves no half of one.
    Only lines that were added since the last call are read.
    """

    def __init__(self, home: Path) -> None:
        self._folder = home / "spent"
        self._day = ""
        self._read = 0
        self._tokens = 0
        self._micro = 0

    def add(self, tokens: int, cost: float | None) -> None:
        """Note the use of a turn; a home that cannot be written is no reason to fail."""
        with suppress(OSError):
            file = self._file()
            is_new = not file.exists()
            make_private(self._folder)
            descriptor = os.open(file, _FLAGS, 0o600)
            try:
                os.write(descriptor, f"{tokens} {round((cost or 0.0) * _MICRO)}\n".encode())
            finally:
                os.close(descriptor)
            if is_new:
                self._remove_old()

    def today(self) -> DayUse:
        """Return the use of today, by all processes."""
        file = self._file()
        if file.name != self._day:
            self._day = file.name
            self._read = self._tokens = self._micro = 0
        with suppress(OSError), open(file, "rb") as stream:
            stream.seek(self._read)
            data = stream.read()
            end = data.rfind(b"\n") + 1
            self._read += end
            for line in data[:end].splitlines():
                with suppress(ValueError):
                    tokens, micro = line.split()
                    self._tokens += int(tokens)
                    self._micro += int(micro)
        return DayUse(self._tokens, self._micro / _MICRO)

    def _file(self) -> Path:
        return self._folder / f"{datetime.now():%Y-%m-%d}"

    def _remove_old(self) -> None:
        for file in sorted(self._folder.iterdir())[:-KEPT_DAYS]:
            file.unlink(missing_ok=True)
