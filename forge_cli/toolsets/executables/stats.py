"""Statistics of tools: a line for every creation and call, kept beside the tools."""

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
    """The number of calls of a tool since it was made, and their outcomes."""

    created: str | None = None
    calls: int = 0
    failures: int = 0
    sessions: int = 0
    last_use: str | None = None
    mean_ms: int | None = None
    """The mean duration of the calls that started the program."""

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
    """The number of tools that were made, denied and failed."""

    created: int = 0
    denied: int = 0
    failed: int = 0


class Stats:
    """The statistics file of one home, shared by all processes; failures to use it are ignored."""

    def __init__(self, root: Path) -> None:
        self._file = root / FILE
        self._session = secrets.token_hex(4)

    def created(self, tool: str) -> None:
        """Count the creation of a tool; the calls of an earlier tool of this name are forgotten."""
        self._add({"tool": tool, "event": "created"})

    def not_created(self, outcome: Literal["denied", "failed"]) -> None:
        """Count a creation that was denied, or that failed."""
        self._add({"event": outcome})

    def called(self, tool: str, *, ok: bool, duration_ms: int | None = None) -> None:
        """Count a call; ``duration_ms`` is None if the program did not start."""
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
        """Return the statistics of every known tool."""
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
        """Yield the decoded lines; skip unreadable ones."""
        with suppress(OSError):
            for line in read_regular(self._file).splitlines():
                with suppress(ValueError, RecursionError):
                    yield json.loads(line)
