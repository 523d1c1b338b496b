"""What a session waits for: requests that were put on disk, and the answers that came since."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from forge_cli.core.approval import ApprovalDecision
from forge_cli.core.signature import JsonObject
from forge_cli.record.resume import Past, Pending


@dataclass(frozen=True)
class Waiting:
    """A request of a session, as its ``approvalRequired`` event has it."""

    request: JsonObject
    path: tuple[str, ...]
    """The workers from the one that was started down to the one that asks."""
    answer: ApprovalDecision | None

    @property
    def id(self) -> str:
        return str(self.request["requestId"])


def requests_of(past: Past, lines: Iterable[JsonObject]) -> list[Waiting]:
    """Every request of a session that is still to be decided, also of workers further down, in their order."""
    pending = {each.request_id: each for each in _pending(past)}
    asked: dict[str, JsonObject] = {}
    tasks: dict[str, JsonObject] = {}
    for line in lines:
        if line["type"] == "workerUpdate":
            tasks[line["delegation"]] = line
        elif line["type"] == "approvalRequired" and line["requestId"] in pending:
            asked[line["requestId"]] = line
    return [Waiting(line, _path(line, tasks), pending[request].answer) for request, line in asked.items()]


def _pending(past: Past) -> Iterator[Pending]:
    yield from past.pending.values()
    for called in past.below.values():
        for below in called:
            yield from _pending(below.past)


def _path(line: JsonObject, tasks: Mapping[str, JsonObject]) -> tuple[str, ...]:
    path: tuple[str, ...] = (str(line["worker"]),)
    task = tasks.get(line.get("delegation", ""))
    while task:
        path = (str(task["parent"]), *path)
        task = tasks.get(task.get("within", ""))
    return path
