"""The way to the collector: bounded queues that threads empty, so that no session ever waits for it."""

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
    """Spans and metrics of this process on their way; what did not arrive is counted."""

    def __init__(self) -> None:
        logging.getLogger("opentelemetry").addHandler(
            logging.NullHandler()
        )  # else they go to standard error
        self._closing, self._closed = threading.Event(), threading.Event()
        self._session = _Session(self._closing)
        self._exporter = _CountingExporter(self._session)
        self._processor = _CountingProcessor(self._exporter)
        self._dropped, self._room = 0, _number("OTEL_BSP_MAX_QUEUE_SIZE", 2048)
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
        # it waits from now on, since no thread can be started while the interpreter exits
        threading.Thread(target=self._flush, name="forge-otel flush", daemon=True).start()

    @property
    def ended(self) -> int:
        """How many spans there were."""
        return self._processor.ended

    @property
    def failed(self) -> int:
        """How many spans the collector was offered in vain."""
        return self._exporter.failed

    def lost(self) -> int:
        """How many spans did not arrive, and will not: refused, dropped by a full queue, or left at the end.

        A queue does not report what it drops: all that exceeds it and the portion under way.
        """
        missing = self.ended - self._exporter.delivered
        if self._closing.is_set():
            return missing
        self._dropped = max(self._dropped, missing - self.failed - self._room)
        return self.failed + self._dropped

    @property
    def whereto(self) -> str:
        """The collector, with what it said last."""
        return f"{self._session.address}: {self._session.problem}"

    def close(self) -> None:
        """Deliver what is left, as far as that is possible within the limit."""
        self._closing.set()
        self._closed.wait(FLUSH_LIMIT)

    def _flush(self) -> None:
        self._closing.wait()
        self._tracers.shutdown()
        self._meters.shutdown()
        self._closed.set()


class _Session(requests.Session):
    """Notes what goes wrong; a collector that cannot be reached is not tried again while the process exits."""

    def __init__(self, closing: threading.Event) -> None:
        super().__init__()
        self._closing = closing
        self.address, self.problem = "the collector", "it was too slow"

    def request(self, method: Any, url: Any, *args: Any, **kwargs: Any) -> requests.Response:
        parts = urlsplit(str(url))
        self.address = (
            f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"
        )
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
    """The exporter of OpenTelemetry, with a count of what it was given."""

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
    """The queue of OpenTelemetry, which drops the oldest span where it is full, with a count of what came in."""

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
