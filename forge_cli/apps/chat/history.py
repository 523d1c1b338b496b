"""Lines typed to a worker, across conversations: kept in the home, without lines that hold a secret."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from forge_cli.files.home import make_private
from forge_cli.files.regular import sync_data
from forge_cli.files.replace import replace_file

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
        if not text.strip() or text in self.entries[-1:] or len(text) > LONGEST or self._redact(text) != text:
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
