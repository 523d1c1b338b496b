"""What a session waits for: requests that were put on record, and the answers that came since."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from forge_cli.core.approval import ApprovalDecision, ApprovalRequest
from forge_cli.core.events import (
    ApprovalDecided,
    ApprovalRequired,
    ApprovalResponse,
    SessionStart,
    ToolResult,
    WorkerUpdate,
)
from forge_cli.files.regular import read_regular
from forge_cli.record.line import Line, line_at
from forge_cli.record.resume import Past, Pending

_REQUIRED = f', "type": "{ApprovalRequired.type}", "requestId": '.encode()


@dataclass(frozen=True)
class Waiting:
    """A request of a session that is still to be decided."""

    request: ApprovalRequest
    time: str
    path: tuple[str, ...]
    """The workers from the root down to the one that asks."""
    answer: ApprovalDecision | None
    pid: int | None = None
    """The process that asks right now, and takes an answer at once."""

    @property
    def id(self) -> str:
        """The id of the request."""
        return self.request.request_id


def requests_of(past: Past, lines: Iterable[Line]) -> list[Waiting]:
    """Every request of a session that is still to be decided, also of child workers, in their order."""
    pending = {each.request_id: each for each in _pending(past)}
    asked: dict[str, tuple[ApprovalRequest, Line]] = {}
    tasks: dict[str, WorkerUpdate] = {}
    for line in lines:
        match line.event:
            case WorkerUpdate() as update:
                tasks[line.delegation or ""] = update
            case ApprovalRequired(request=request) if request.request_id in pending:
                asked[request.request_id] = request, line
    return [
        Waiting(request, line.time, _path(line, tasks), pending[request.request_id].answer)
        for request, line in asked.values()
    ]


def open_requests(lines: Iterable[Line]) -> list[Waiting]:
    """The requests of a session at work that nobody has answered yet."""
    asked: dict[str, tuple[ApprovalRequest, Line]] = {}
    tasks: dict[str, WorkerUpdate] = {}
    for line in lines:
        match line.event:
            case SessionStart():
                asked.clear()
            case WorkerUpdate() as update:
                tasks[line.delegation or ""] = update
            case ApprovalRequired(request=request):
                asked[request.request_id] = request, line
            case ApprovalResponse(request_id=known) | ApprovalDecided(request_id=str() as known):
                asked.pop(known, None)
            case ToolResult(tool_call_id=call):
                ended = line.delegation, call
                asked = {
                    key: each for key, each in asked.items() if (each[1].delegation, each[0].tool_call_id) != ended
                }
    return [Waiting(request, line.time, _path(line, tasks), None) for request, line in asked.values()]


def may_be_asking(path: Path) -> bool:
    """Could a session at work wait for an answer? A look at the end of its log, without reading it all."""
    try:
        data = read_regular(path)
    except OSError:
        return False
    place = data.rfind(_REQUIRED)
    asked = line_at(data, place)
    return (
        asked is not None
        and data.find(f'"requestId": "{asked.data.get("requestId")}"'.encode(), data.find(b"\n", place)) < 0
    )


def _pending(past: Past) -> Iterator[Pending]:
    yield from past.pending.values()
    for children in past.children.values():
        for child in children:
            yield from _pending(child.past)


def _path(line: Line, tasks: Mapping[str, WorkerUpdate]) -> tuple[str, ...]:
    path: tuple[str, ...] = (line.worker,)
    task = tasks.get(line.delegation or "")
    while task:
        path, task = (task.parent, *path), tasks.get(task.within or "")
    return path
