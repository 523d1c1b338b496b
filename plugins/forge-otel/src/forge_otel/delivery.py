"""The delivery to the collector: bounded queues and threads, so that no session has to wait."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import requests
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

import forge_otel

FLUSH_LIMIT = 2.0
"""Seconds that the exit of a process waits for a collector."""


class Delivery:
    """The delivery of this process's spans and metrics; counts lost spans."""

    def __init__(self) -> None:
        # Without a handler, OpenTelemetry's warnings would go to standard error.
        logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
        self._closing = threading.Event()
        self._closed = threading.Event()
        self._session = _Session(self._closing)
        self._exporter = _CountingExporter(self._session)
        self._processor = _CountingProcessor(self._exporter)
        self._dropped = 0
        self._room = _number("OTEL_BSP_MAX_QUEUE_SIZE", 2048)
        self._room += _number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)
        resource = Resource.create(
            {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: "forge"}
        )
        self._tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        if _is_wanted("OTEL_TRACES_EXPORTER"):
            self._tracers.add_span_processor(self._processor)
        readers = []
        if _is_wanted("OTEL_METRICS_EXPORTER"):
            readers = [
                PeriodicExportingMetricReader(OTLPMetricExporter(session=_Session(self._closing)))
            ]
        self._meters = MeterProvider(
            metric_readers=readers, resource=resource, shutdown_on_exit=False
        )
        self.tracer = self._tracers.get_tracer("forge", forge_otel.__version__)
        self.meter = self._meters.get_meter("forge", forge_otel.__version__)
        # It waits from the start, because no thread can be started while the interpreter exits.
        threading.Thread(target=self._flush, name="forge-otel flush", daemon=True).start()

    @property
    def ended(self) -> int:
        """The number of finished spans."""
        return self._processor.ended

    @property
    def failed(self) -> int:
        """The number of spans that the collector rejected or did not get."""
        return self._exporter.failed

    def lost(self) -> int:
        """Return the number of lost spans: rejected, dropped by a full queue, or left at the end.

        The queue does not report what it drops, so that the number is derived from its size:
        everything beyond the queue and one batch is lost.
        """
        missing = self.ended - self._exporter.delivered
        if self._closing.is_set():
            return missing
        self._dropped = max(self._dropped, missing - self.failed - self._room)
        return self.failed + self._dropped

    @property
    def whereto(self) -> str:
        """The URL of the collector, and its last problem."""
        return f"{self._session.address}: {self._session.problem}"

    def close(self) -> None:
        """Deliver the remaining spans and metrics, within FLUSH_LIMIT."""
        self._closing.set()
        self._closed.wait(FLUSH_LIMIT)

    def _flush(self) -> None:
        self._closing.wait()
        self._tracers.shutdown()
        self._meters.shutdown()
        self._closed.set()


class _Session(requests.Session):
    """An HTTP session that records problems.

    While the process exits, it does not retry an unreachable collector.
    """

    def __init__(self, closing: threading.Event) -> None:
        super().__init__()
        self._closing = closing
        self.address, self.problem = "the collector", "it was too slow"

    def request(self, method: Any, url: Any, *args: Any, **kwargs: Any) -> requests.Response:
        parts = urlsplit(str(url))
        port = f":{parts.port}" if parts.port else ""
        # Without the user name, the password and the query, which may contain keys.
        self.address = f"{parts.scheme}://{parts.hostname}{port}{parts.path}"
        try:
            response = super().request(method, url, *args, **kwargs)
        except requests.Timeout:
            self.problem = "it was too slow"
            raise
        except requests.ConnectionError as error:
            self.problem = "it cannot be reached"
            if self._closing.is_set():
                raise requests.RequestException(self.problem) from error
            raise
        if not response.ok:
            self.problem = f"it answered {response.status_code} {response.reason}"
        return response


class _CountingExporter(SpanExporter):
    """The exporter of OpenTelemetry with counters."""

    def __init__(self, session: requests.Session) -> None:
        self._inner = OTLPSpanExporter(session=session)
        self.delivered = self.failed = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._inner.export(spans)
        if result is SpanExportResult.SUCCESS:
            self.delivered += len(spans)
        else:
            self.failed += len(spans)
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()  # type: ignore[no-untyped-call]


class _CountingProcessor(BatchSpanProcessor):
    """The queue of OpenTelemetry, which drops the oldest span if it is full, with a counter."""

    ended = 0

    def on_end(self, span: ReadableSpan) -> None:
        if span.context and span.context.trace_flags.sampled:
            self.ended += 1
        super().on_end(span)


def _number(variable: str, default: int) -> int:
    try:
        return int(os.environ.get(variable, default))
    except ValueError:
        return default


def _is_wanted(variable: str) -> bool:
    return os.environ.get(variable, "otlp").strip().lower() != "none"
