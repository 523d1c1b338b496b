"""How each tool was used: a line for every creation and every call, kept beside the tools."""

from __future__ import annotations

import json
import os
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from forge_cli.core.wire import JsonObject
from forge_cli.files.lock import hold_file_lock
from forge_cli.files.regular import read_regular, sync_data

FILE = ".stats.jsonl"


class ToolStats(Struct, frozen=True):
    """How often a tool was called since it was made, and how that went."""

    created: str | None = None
    calls: int = 0
    failures: int = 0
    sessions: int = 0
    last_use: str | None = None
    mean_ms: int | None = None
    """Of those calls that got so far that they took time."""

    @classmethod
    def of(cls, created: str | None, calls: Sequence[Mapping[str, Any]]) -> ToolStats:
        times = [took for call in calls if isinstance(took := call.get("durationMs"), int)]
        return cls(
            created,
            len(calls),
            failures=sum(call.get("ok") is not True for call in calls),
            sessions=len({call["session"] for call in calls}),
            last_use=calls[-1]["time"] if calls else None,
            mean_ms=round(sum(times) / len(times)) if times else None,
        )

    @property
    def success(self) -> float | None:
        return (self.calls - self.failures) / self.calls if self.calls else None

    def wire(self) -> JsonObject:
        return {
            "created": self.created,
            "calls": self.calls,
            "sessions": self.sessions,
            "failures": self.failures,
            "success": None if self.success is None else round(self.success, 3),
            "lastUse": self.last_use,
            "meanMs": self.mean_ms,
        }


class Creations(Struct, frozen=True):
    """How often a tool was made, or was to be made and was not."""

    created: int = 0
    denied: int = 0
    failed: int = 0


class Stats:
    """The file of one home, which any number of processes write to; one that cannot be used is not a failure."""

    def __init__(self, root: Path) -> None:
        self._file = root / FILE
        self._session = secrets.token_hex(4)

    def created(self, tool: str) -> None:
        """A tool was made; what was known of another one by its name is over."""
        self._add({"tool": tool, "event": "created"})

    def not_created(self, outcome: Literal["denied", "failed"]) -> None:
        """A tool was to be made, and somebody said no, or it could not be."""
        self._add({"event": outcome})

    def called(self, tool: str, *, ok: bool, duration_ms: int | None = None) -> None:
        """A call has ended; one that did not even start took no time."""
        self._add(
            {
                "tool": tool,
                "event": "called",
                "ok": ok,
                "durationMs": duration_ms,
                "session": self._session,
            }
        )

    def read(self) -> dict[str, ToolStats]:
        """Every tool that anything is known of."""
        created: dict[str, str] = {}
        calls: dict[str, list[Mapping[str, Any]]] = {}
        for line in self._lines():
            match line:
                case {"tool": str() as tool, "time": str() as time, "event": "created"}:
                    created[tool], calls[tool] = time, []
                case {"tool": str() as tool, "time": str(), "event": "called", "session": str()}:
                    calls.setdefault(tool, []).append(line)
        return {tool: ToolStats.of(created.get(tool), made) for tool, made in calls.items()}

    def creations(self) -> Creations:
        counts = Counter(str(line.get("event")) for line in self._lines() if isinstance(line, dict))
        return Creations(counts["created"], counts["denied"], counts["failed"])

    def _add(self, said: JsonObject) -> None:
        line = json.dumps({"time": datetime.now(UTC).isoformat(timespec="seconds"), **said}) + "\n"
        with suppress(OSError), hold_file_lock(self._file) as descriptor:
            os.write(descriptor, line.encode())
            sync_data(descriptor)

    def _lines(self) -> Iterator[Any]:
        """The content of the lines; unreadable ones are left out."""
        with suppress(OSError):
            for line in read_regular(self._file).splitlines():
                with suppress(ValueError, RecursionError):
                    yield json.loads(line)
