"""Warnings of a session on standard error, for commands without a trace."""

from __future__ import annotations

import sys

from forge_cli.core.bus import EventBus
from forge_cli.core.events import Event, StatusEvent
from forge_cli.core.text import visible
from forge_cli.ui.wrap import wrap_for


def warn_of_events(bus: EventBus) -> None:
    """Print the warnings and errors that are published on the bus."""

    def hear(event: Event) -> None:
        if isinstance(event, StatusEvent) and event.level in ("warning", "error"):
            sys.stderr.write(
                wrap_for(sys.stderr, f"{event.level}: {visible(event.message)}") + "\n"
            )

    bus.subscribe(hear)
