"""The record: each event becomes one redacted, numbered, hash-chained line before any file, screen or pipe sees it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from forge_cli.core.events import Event
from forge_cli.record.line import Line, Prove
from forge_cli.record.places import SessionLost
from forge_cli.record.writer import RecordLog
from forge_cli.sandbox.secrets import Redactor

Sink = Callable[[Line], None]
WAIT = 1.0
"""Seconds after which a thread that records does not let go any more."""


class Recorder:
    """Turns the events of one session into lines and hands them to its sinks, in order."""

    def __init__(self, *, session: str, worker: str, depth: int, redactor: Redactor, after: Line | None = None) -> None:
        """``after`` is the last line of a session that is resumed."""
        self._session, self._worker, self._depth = session, worker, depth
        self._redactor = redactor
        self._sinks: list[Sink] = []
        self._last = after
        self.shows = False
        """Does a sink take what is sent only?"""
        self._prove: Prove | None = None
        """Proves the consent in the log, where there is one."""
        self._busy = threading.RLock()

    def add_sink(self, sink: Sink) -> None:
        self._sinks.append(sink)
        self.shows = self.shows or not getattr(sink, "only_keeps", False)
        if isinstance(sink, RecordLog):
            self._prove = sink.proofs.prove

    def __call__(self, event: Event) -> None:
        if not self._busy.acquire(timeout=WAIT):
            raise SessionLost("the record is held up by another thread")
        try:
            self._take(event)
        finally:
            self._busy.release()

    def take_over(self, events: Iterable[Event], wait: float = WAIT) -> bool:
        """Record these from another thread and let nothing be recorded after them, since the process is to end.

        False when the thread that works does not let go in time: then nothing was recorded.
        """
        if not self._busy.acquire(timeout=wait):
            return False
        for event in events:
            self._take(event)
        return True

    def _take(self, event: Event) -> None:
        if event.transient and not self.shows:
            return
        line = Line.of(
            event,
            session=self._session,
            worker=self._worker,
            depth=self._depth,
            redactor=self._redactor,
            after=self._last,
            prove=self._prove,
        )
        if not line.transient:
            self._last = line
        for sink in self._sinks:
            sink(line)
