"""The telemetry of one process, until it exits."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

from forge_otel.delivery import Delivery
from forge_otel.spans import Meters, SessionSpans

PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


class Telemetry:
    """Passes lines to the spans of their sessions, and reports lost spans once."""

    def __init__(self, delivery: Delivery, *, content: bool) -> None:
        self._delivery, self._content = delivery, content
        self._meters = Meters(delivery.meter, delivery.lost)
        self._sessions: dict[str, SessionSpans] = {}
        self._told = False

    def take(self, line: Mapping[str, Any]) -> str | None:
        """Handle a line of the record; return a message if spans were lost for the first time."""
        session = str(line["session"])
        spans = self._sessions.get(session)
        if spans is None:
            spans = SessionSpans(
                session, self._delivery.tracer, self._meters, content=self._content
            )
            self._sessions[session] = spans
        spans.take(line)
        if line["type"] == "sessionEnd":
            del self._sessions[session]
        return self._problem()

    def close(self) -> None:
        """Deliver the remaining spans and metrics, within the time limit."""
        self._delivery.close()
        if problem := self._problem():
            sys.stderr.write(f"forge-otel: {problem}\n")

    def _problem(self) -> str | None:
        lost = self._delivery.lost()
        if self._told or not lost:
            return None
        self._told = True
        return f"{lost} of {self._delivery.ended} spans did not reach {self._delivery.whereto}"


@cache
def telemetry() -> Telemetry:
    """Return the telemetry of this process; raise ValueError for an unsupported protocol."""
    protocol = os.environ.get(PROTOCOL) or "http/protobuf"
    if protocol != "http/protobuf":
        raise ValueError(f"{PROTOCOL} is {protocol}, but only http/protobuf is supported")
    content = os.environ.get(CONTENT, "").strip().lower() in (
        "true",
        "1",
        "span_only",
        "span_and_event",
    )
    return Telemetry(Delivery(), content=content)


def close_telemetry() -> None:
    """Deliver the remaining spans and metrics, if there was any telemetry."""
    if telemetry.cache_info().currsize:
        telemetry().close()
