"""The requests that a session waits for, as they were put on record, and the answers that came since."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from forge_cli.core.approval import ApprovalDecision, ApprovalRequest
from forge_cli.core.errors import ForgeError
from forge_cli.core.events import ApprovalRequired
from forge_cli.files.regular import read_regular
from forge_cli.record.line import Line, line_at
from forge_cli.record.log import read_session
from forge_cli.record.open import check_log
from forge_cli.record.overview import Overview, SessionIndex
from forge_cli.record.proof import Proofs
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
    pending = {each.request_id for each in pending_of(past_of(state))}
    calls = [call for request_id, call in state.requests.items() if request_id in pending]
    return [_waiting(state, call.asked, call.answer) for call in calls if call.asked]


def open_requests(lines: Iterable[Line]) -> list[Waiting]:
    """The requests of a session at work that have no answer yet."""
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


def waiting_requests(warn: Callable[[str], None]) -> list[tuple[Path, Waiting]]:
    """The requests of all sessions, each with its log.

    A session that cannot be resumed has none that could be answered, and that is said.
    """
    with SessionIndex() as index:
        found = [(path, seen.pid) for path, seen in index.readable() if _may_wait(path, seen)]
    return [(path, waiting) for path, pid in found for waiting in _requests(path, pid, warn)]


def _may_wait(path: Path, seen: Overview) -> bool:
    """Could it be waiting for an answer, parked or at work?"""
    return may_be_asking(path) if seen.pid else seen.waits


def _requests(path: Path, pid: int | None, warn: Callable[[str], None]) -> list[Waiting]:
    try:
        log = read_session(path)
        check_log(log)
        if pid:
            return [replace(each, pid=pid) for each in open_requests(log.lines)]
        return requests_of(log.lines, Proofs(path).unproven(log.lines))
    except ForgeError as error:
        warn(str(error).partition("\n")[0])
        return []
