"""A cache in a file, whose entries are valid until their stamps change; for speed only."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from forge_cli.files.replace import replace_file


class StampedCache:
    """A JSON file of entries with stamps; errors of reading or writing it are ignored."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._entries: dict[str, Any] = {}
        self._changed = False

    def __enter__(self) -> Self:
        with suppress(OSError, ValueError, RecursionError):
            entries = json.loads(self._file.read_bytes())
            self._entries = entries if isinstance(entries, dict) else {}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # After an error the entries may be incomplete.
        if self._changed and kind is None:
            with suppress(OSError):
                replace_file(self._file, json.dumps(self._entries), mode=0o600, durable=False)

    def find(self, name: str, stamp: str) -> Any:
        """Return the value of an entry with this stamp; else None."""
        entry = self._entries.get(name)
        if isinstance(entry, dict) and entry.get("stamp") == stamp:
            return entry.get("value")
        return None

    def retain(self, names: Iterable[str]) -> None:
        """Remove all entries except these."""
        gone = self._entries.keys() - names
        self._changed = self._changed or bool(gone)
        for name in gone:
            del self._entries[name]

    def put(self, name: str, stamp: str, value: Any) -> None:
        """Store the value of an entry."""
        self._entries[name] = {"stamp": stamp, "value": value}
        self._changed = True
