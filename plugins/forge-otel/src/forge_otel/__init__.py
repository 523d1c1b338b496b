"""The observer ``otel``: live spans, decisions and counters for an OpenTelemetry collector."""

from __future__ import annotations

import os
import sys

from forge_cli import hookimpl
from forge_cli.hooks import HookAnswer, HookCall, Observer

__version__ = "0.3.0.dev0"


def observe(call: HookCall) -> HookAnswer | None:
    """Send a line of the record; OpenTelemetry is imported with the first one."""
    if call.line is None or os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    from forge_otel.telemetry import telemetry

    problem = telemetry().take(call.line)
    return HookAnswer(note=problem) if problem else None


def close() -> None:
    """Deliver the remaining spans and metrics."""
    if "forge_otel.telemetry" in sys.modules:
        from forge_otel.telemetry import close_telemetry

        close_telemetry()


@hookimpl
def forge_observers() -> list[Observer]:
    """Offer the observer."""
    return [Observer("otel", observe, close)]
