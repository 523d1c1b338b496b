"""Events around a session: its start, earlier notices, and the ends of everything still open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from forge_cli.core.bus import EventBus
from forge_cli.core.calls import OutcomeStatus
from forge_cli.core.errors import StatusLevel
from forge_cli.core.events import (
    Event,
    ManualToolsAvailable,
    SessionEnd,
    SessionStart,
    StatusEvent,
    ToolResult,
    ToolStarted,
    WorkerUpdate,
)
from forge_cli.core.phrases import INTERRUPTED_CALL
from forge_cli.core.results import Text
from forge_cli.core.wire import wire
from forge_cli.record.recorder import Recorder
from forge_cli.schema.tool import Tool, manual_tools


class Announcer:
    """An emitter of notices; at the root, they wait until the session has started."""

    def __init__(self, bus: EventBus, *, is_root: bool) -> None:
        self._bus = bus
        self._held: list[StatusEvent] | None = [] if is_root else None
        self._offered: tuple[tuple[dict[str, Any], ...], tuple[Mapping[str, Any], ...]] = (), ()

    def notify(self, level: StatusLevel, message: str) -> None:
        status = StatusEvent.of(level, message)
        if self._held is None:
            self._bus.emit(status)
        else:
            self._held.append(status)

    def start(
        self,
        start: SessionStart,
        tools: Iterable[Tool],
        prompts: tuple[Mapping[str, Any], ...] = (),
    ) -> None:
        """Emit the start of the session, earlier notices, and what people can call and send."""
        held = self._held or ()
        self._held = None
        self._bus.emit(start)
        for status in held:
            self._bus.emit(status)
        self.offer(tools, prompts)

    def offer(self, tools: Iterable[Tool], prompts: tuple[Mapping[str, Any], ...] = ()) -> None:
        """Emit what people can call and send, if that has changed."""
        entries = tuple(_menu_entry(tool) for tool in manual_tools(list(tools)))
        offered = (entries, prompts)
        if offered != self._offered:
            self._offered = offered
            self._bus.emit(ManualToolsAvailable(offered[0], prompts or None))

    def stop(self) -> None:
        """Emit nothing more, because the session has ended."""
        self._held = []


def _menu_entry(tool: Tool) -> dict[str, Any]:
    from forge_cli.schema.json.forms import derive_fields

    manual = tool.manual
    return {
        "name": tool.name,
        "label": (manual.label if manual else None) or tool.name,
        "category": manual.category if manual else None,
        "description": tool.description,
        "fields": [wire(field) for field in derive_fields(tool.schema.json_schema)],
        "inputSchema": tool.schema.json_schema,
    }


Key = tuple[str | None, str]


class OpenCalls:
    """A subscriber that knows what has started and not ended, and passes events to the log."""

    def __init__(self, record: Recorder | None = None) -> None:
        self._record = record
        self._open: dict[Key, ToolStarted | WorkerUpdate] = {}
        self._over = False

    def __call__(self, event: Event) -> None:
        if self._over:
            return
        if isinstance(event, (ToolStarted, ToolResult, WorkerUpdate)):
            self._note(event)
        if self._record:
            self._record(event)

    def _note(self, event: ToolStarted | ToolResult | WorkerUpdate) -> None:
        task = event.origin.delegation if event.origin else None
        match event:
            case ToolStarted():
                self._open[task, event.tool_call_id] = event
            case ToolResult():
                self._open.pop((task, event.tool_call_id), None)
            case WorkerUpdate(status="started" | "resumed"):
                self._open[task, ""] = event
            case WorkerUpdate():
                self._open.pop((task, ""), None)

    @property
    def line(self) -> int | None:
        """The number of the last recorded line."""
        return self._record.line if self._record else None

    @property
    def count(self) -> int:
        """The number of open calls, without those that tools made."""
        found = 0
        # A copy, because ``force`` reads this from another thread.
        for event in list(self._open.values()):
            if isinstance(event, ToolStarted) and event.parent_call_id is None:
                found += 1
        return found

    def ends(self, late: str | None = None) -> Iterator[Event]:
        """Yield the ends of everything open, the innermost first; tool ``late`` timed out."""
        for event in sorted(self._open.values(), key=_inside_out):
            if isinstance(event, WorkerUpdate):
                yield replace(event, status="interrupted")
            else:
                status: OutcomeStatus = "interrupted"
                sentence = INTERRUPTED_CALL
                if event.tool_name == late:
                    status = "timeout"
                    sentence = f"{late} did not end, and was abandoned"
                result = ToolResult(
                    event.tool_call_id, event.tool_name, status, Text(sentence), 0, sentence
                )
                yield replace(result, parent_call_id=event.parent_call_id, origin=event.origin)

    def close(self, end: SessionEnd, late: str | None) -> None:
        """Write all ends to the log directly, because a subscriber of the bus may be blocked."""
        ends = list(self.ends(late))
        self._over = True
        if self._record:
            self._record.take_over([*ends, end])


def _inside_out(event: ToolStarted | WorkerUpdate) -> tuple[int, bool, bool]:
    # First calls inside of others, then the calls of a child worker, the child, and its parent.
    is_inner = isinstance(event, ToolStarted) and event.parent_call_id is not None
    depth = event.origin.depth if event.origin else 0
    return (-depth, isinstance(event, WorkerUpdate), not is_inner)
