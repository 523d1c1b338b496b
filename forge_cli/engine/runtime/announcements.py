"""The announcement of a session: its start, what came up before it, and the tools that people may call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from forge_cli import schema
from forge_cli.core.bus import EventBus
from forge_cli.core.errors import StatusLevel
from forge_cli.core.events import ManualToolsAvailable, SessionStart, StatusEvent
from forge_cli.core.wire import wire
from forge_cli.schema.tool import Tool, manual_tools


class Announcer:
    """Emits events about what is found while a worker opens; at the root none before the session has started."""

    def __init__(self, bus: EventBus, *, is_root: bool) -> None:
        self._bus = bus
        self._held: list[StatusEvent] | None = [] if is_root else None
        self._offered: tuple[tuple[dict[str, Any], ...], tuple[Mapping[str, Any], ...]] = (), ()

    def notify(self, level: StatusLevel, message: str) -> None:
        status = StatusEvent(level, str(message))
        if self._held is None:
            self._bus.emit(status)
        else:
            self._held.append(status)

    def start(self, start: SessionStart, tools: Iterable[Tool], prompts: tuple[Mapping[str, Any], ...] = ()) -> None:
        """Say that the session has started, what waited for that, and what people can call and send."""
        held, self._held = self._held or (), None
        self._bus.emit(start)
        for status in held:
            self._bus.emit(status)
        self.offer(tools, prompts)

    def offer(self, tools: Iterable[Tool], prompts: tuple[Mapping[str, Any], ...] = ()) -> None:
        """Say what people may call and send, if that is not what was said before."""
        offered = tuple(_menu_entry(tool) for tool in manual_tools(list(tools))), prompts
        if offered != self._offered:
            self._offered = offered
            self._bus.emit(ManualToolsAvailable(offered[0], prompts or None))

    def stop(self) -> None:
        """After the end of the session nothing more is told."""
        self._held = []


def _menu_entry(tool: Tool) -> dict[str, Any]:
    manual = tool.manual
    return {
        "name": tool.name,
        "label": (manual.label if manual else None) or tool.name,
        "category": manual.category if manual else None,
        "description": tool.description,
        "fields": [wire(field) for field in schema.forms.derive_fields(tool.schema.json_schema)],
        "inputSchema": tool.schema.json_schema,
    }
