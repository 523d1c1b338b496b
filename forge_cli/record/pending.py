"""What a session waits for: requests that were put on disk, and the answers that came since."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from forge_cli.core.approval import ApprovalDecision, ApprovalRequest
from forge_cli.core.events import ApprovalRequired, WorkerUpdate
from forge_cli.core.values import dataclass
from forge_cli.record.line import Line
from forge_cli.record.resume import Past, Pending


@dataclass(frozen=True)
class Waiting:
    """A request of a session that is still to be decided."""

    request: ApprovalRequest
    time: str
    path: tuple[str, ...]
    """The workers from the root down to the one that asks."""
    answer: ApprovalDecision | None

    @property
    def id(self) -> str:
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
