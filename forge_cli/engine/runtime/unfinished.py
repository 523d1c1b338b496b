"""The debts of a session before it may end: a result for every call that is open, and an end of every child worker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from forge_cli.core.calls import OutcomeStatus
from forge_cli.core.events import Event, SessionEnd, ToolResult, ToolStarted, WorkerUpdate
from forge_cli.core.phrases import INTERRUPTED_CALL
from forge_cli.core.results import Text
from forge_cli.record.recorder import Recorder

Key = tuple[str | None, str]


class OpenCalls:
    """Hears every event before the record does, and knows what has started and not ended."""

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
    def count(self) -> int:
        """How many calls are open, without those that tools made."""
        events = list(self._open.values())
        return sum(isinstance(event, ToolStarted) and event.parent_call_id is None for event in events)

    def ends(self, late: str | None = None) -> Iterator[Event]:
        """How everything that is open ends, the innermost first; calls of the tool ``late`` were out of time."""
        for event in sorted(self._open.values(), key=_inside_out):
            if isinstance(event, WorkerUpdate):
                yield replace(event, status="interrupted")
            else:
                status: OutcomeStatus = "timeout" if event.tool_name == late else "interrupted"
                sentence = f"{late} did not end, and was abandoned" if status == "timeout" else INTERRUPTED_CALL
                result = ToolResult(event.tool_call_id, event.tool_name, status, Text(sentence), 0, sentence)
                yield replace(result, parent_call_id=event.parent_call_id, origin=event.origin)

    def close(self, end: SessionEnd, late: str | None) -> None:
        """Record how everything ends, past the bus, whose subscribers may be what holds the session."""
        ends, self._over = list(self.ends(late)), True
        if self._record:
            self._record.take_over([*ends, end])


def _inside_out(event: ToolStarted | WorkerUpdate) -> tuple[int, bool, bool]:
    """Inner calls end before the others, those of a child worker before it does, and it before what started it."""
    is_inner = isinstance(event, ToolStarted) and event.parent_call_id is not None
    return -(event.origin.depth if event.origin else 0), isinstance(event, WorkerUpdate), not is_inner
