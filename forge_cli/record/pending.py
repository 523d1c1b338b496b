"""What a session waits for: requests that were put on record, and the answers that came since."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from forge_cli.core.approval import ApprovalDecision, ApprovalRequest
from forge_cli.core.events import ApprovalRequired
from forge_cli.files.regular import read_regular
from forge_cli.record.line import Line, line_at
from forge_cli.record.resume import Past, Pending, past_of
from forge_cli.record.state import Recorded, SessionState, fold

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


def requests_of(lines: Iterable[Line], void: Container[int] = ()) -> list[Waiting]:
    """Every request of a parked session that is still to be decided, also of child workers, in their order."""
    state = fold(lines, void)
    calls = [state.requests[pending.request_id] for pending in pending_of(past_of(state))]
    asked = sorted([(call.asked, call.answer) for call in calls if call.asked], key=lambda each: each[0].line.seq)
    return [_waiting(state, *each) for each in asked]


def open_requests(lines: Iterable[Line]) -> list[Waiting]:
    """The requests of a session at work that nobody has answered yet."""
    state = fold(lines)
    return [_waiting(state, asked) for asked in state.waiting.values()]


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


def pending_of(past: Past) -> Iterator[Pending]:
    """The requests of a session and of the workers that it called."""
    yield from past.pending.values()
    for child in (child for called in past.children.values() for child in called):
        yield from pending_of(child.past)


def _waiting(state: SessionState, asked: Recorded[ApprovalRequired], answer: ApprovalDecision | None = None) -> Waiting:
    return Waiting(asked.event.request, asked.line.time, state.path(asked.line.delegation), answer)
