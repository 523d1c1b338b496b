"""How each tool was used: a line for every creation and every call, kept beside the tools."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from forge_cli.core.wire import JsonObject
from forge_cli.files.lock import locked
from forge_cli.files.replace import replace_file
from forge_cli.files.sync import sync_data

FILE = ".stats.jsonl"
LIMIT = 1024 * 1024
"""Bytes from which on the lines of a tool become one."""


@dataclass(frozen=True)
class ToolStats:
    """How often a tool was called since it was made, and how that went."""

    created: str | None = None
    calls: int = 0
    failures: int = 0
    sessions: int = 0
    last_use: str | None = None
    duration_ms: int = 0
    timed: int = 0
    """How many of the calls got so far that they took time."""

    @property
    def success(self) -> float | None:
        return (self.calls - self.failures) / self.calls if self.calls else None

    @property
    def mean_ms(self) -> int | None:
        return round(self.duration_ms / self.timed) if self.timed else None

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


@dataclass(frozen=True)
class Creations:
    """How often a tool was made, or was to be made and was not."""

    created: int = 0
    denied: int = 0
    failed: int = 0

    def __add__(self, other: Creations) -> Creations:
        return Creations(self.created + other.created, self.denied + other.denied, self.failed + other.failed)


class Stats:
    """The file of one home, which any number of processes write to; one that cannot be used is not a failure."""

    def __init__(self, root: Path) -> None:
        self._root = root
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
        self._add({"tool": tool, "event": "called", "ok": ok, "durationMs": duration_ms, "session": self._session})

    def read(self) -> dict[str, ToolStats]:
        """Every tool that anything is known of."""
        return _usages(self._read())

    def creations(self) -> Creations:
        return _creations(self._read())

    def _read(self) -> list[Any]:
        with suppress(OSError), locked(self._file, shared=True, create=False) as descriptor:
            return list(_lines(descriptor))
        return []

    def _add(self, said: JsonObject) -> None:
        line = json.dumps({"time": datetime.now(UTC).isoformat(timespec="seconds"), **said}) + "\n"
        with suppress(OSError):
            with locked(self._file, shared=True) as descriptor:
                os.write(descriptor, line.encode())
                sync_data(descriptor)
                size = os.fstat(descriptor).st_size
            if size > LIMIT:
                self._compact()

    def _compact(self) -> None:
        """Put the sum of its lines in their place, for every tool that is still there; who comes second has no work."""
        with locked(self._file, create=False) as descriptor:
            if os.fstat(descriptor).st_size <= LIMIT:
                return
            lines = list(_lines(descriptor))
            kept = {tool: usage for tool, usage in _usages(lines).items() if (self._root / tool).is_dir()}
            totals = [{"tool": tool, "event": "total", **vars(usage)} for tool, usage in kept.items()]
            totals.append({"event": "creations", **vars(_creations(lines))})
            replace_file(self._file, "".join(f"{json.dumps(total)}\n" for total in totals), mode=0o600)


def _lines(descriptor: int) -> Iterator[Any]:
    """The content of the lines; unreadable ones are left out."""
    with open(descriptor, "rb", closefd=False) as file:
        file.seek(0)
        for line in file.read(16 * LIMIT).splitlines():
            with suppress(ValueError, RecursionError):
                yield json.loads(line)


def _creations(lines: Iterable[Any]) -> Creations:
    found = Creations()
    for line in lines:
        match line:
            case {"event": "created" | "denied" | "failed" as outcome}:
                found += Creations(**{outcome: 1})
            case {"event": "creations"}:
                found += Creations(**{name: line[name] for name in vars(found) if isinstance(line.get(name), int)})
    return found


def _usages(lines: Iterable[Any]) -> dict[str, ToolStats]:
    found: dict[str, ToolStats] = {}
    seen: set[tuple[str, str]] = set()
    for line in lines:
        match line:
            case {"tool": str() as tool, "time": str() as time, "event": "created"}:
                found[tool] = ToolStats(created=time)
                seen = {each for each in seen if each[0] != tool}
            case {"tool": str() as tool, "time": str() as time, "event": "called", "session": str() as session}:
                new = (tool, session) not in seen
                seen.add((tool, session))
                found[tool] = _with_call(found.get(tool, ToolStats()), line, time, new_session=new)
            case {"tool": str() as tool, "event": "total"}:
                found[tool] = _total(line)
    return found


def _with_call(usage: ToolStats, line: Mapping[str, Any], time: str, *, new_session: bool) -> ToolStats:
    took = line.get("durationMs")
    took = took if isinstance(took, int) else None
    return replace(
        usage,
        calls=usage.calls + 1,
        failures=usage.failures + (line.get("ok") is not True),
        sessions=usage.sessions + new_session,
        last_use=time,
        duration_ms=usage.duration_ms + (took or 0),
        timed=usage.timed + (took is not None),
    )


def _total(line: Mapping[str, Any]) -> ToolStats:
    """The sum of earlier lines; what is not of its type counts as nothing."""
    times: dict[str, Any] = {name: line[name] for name in ("created", "last_use") if isinstance(line.get(name), str)}
    names = ("calls", "failures", "sessions", "duration_ms", "timed")
    counts: dict[str, Any] = {name: line[name] for name in names if isinstance(line.get(name), int)}
    return ToolStats(**times, **counts)
