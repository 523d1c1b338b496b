"""The record: each event becomes one redacted, numbered, hash-chained line before any file, screen or pipe sees it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from forge_cli.core.events import VERSION, Event
from forge_cli.core.signature import JsonObject
from forge_cli.sandbox.secrets import Redactor

Sink = Callable[[JsonObject], None]


class Recorder:
    """Turns the events of one session into lines and hands them to its sinks, in order."""

    def __init__(
        self, *, session: str, worker: str, depth: int, redactor: Redactor, after: JsonObject | None = None
    ) -> None:
        """``after`` is the last line of a session that goes on."""
        self._session, self._worker, self._depth = session, worker, depth
        self._redactor = redactor
        self._sinks: list[Sink] = []
        self._seq: int = after["seq"] if after else 0
        self._prev: str | None = after["hash"] if after else None

    def add_sink(self, sink: Sink) -> None:
        self._sinks.append(sink)

    def __call__(self, event: Event) -> None:
        line = self._transient(event) if event.transient else self._recorded(event)
        for sink in self._sinks:
            sink(line)

    def _envelope(self, event: Event) -> JsonObject:
        found: JsonObject = {"time": _now(), "session": self._session}
        if event.origin is None:
            return {**found, "worker": self._worker, "depth": self._depth}
        origin = event.origin
        return {**found, "worker": origin.worker, "depth": origin.depth, "delegation": origin.delegation}

    def _transient(self, event: Event) -> JsonObject:
        return {"v": VERSION, **self._envelope(event), "type": event.type, **self._payload(event)}

    def _recorded(self, event: Event) -> JsonObject:
        self._seq += 1
        line: JsonObject = {"v": VERSION, "seq": self._seq, **self._envelope(event), "type": event.type}
        line.update(self._payload(event))
        line["prev"] = self._prev
        self._prev = line["hash"] = line_hash(line)
        return line

    def _payload(self, event: Event) -> Any:
        return self._redactor.redact(event.payload())


def line_hash(line: JsonObject) -> str:
    """The hash that seals a line: over everything in it but the hash itself, ``prev`` included."""
    sealed = {key: value for key, value in line.items() if key != "hash"}
    text = json.dumps(sealed, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
