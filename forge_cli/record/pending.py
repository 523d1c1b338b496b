"""The requests that sessions wait for, as they were put on record, and the answers of people to them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.actions import ApprovalResponse
from forge_cli.core.approval import ApprovalDecision, ApprovalRequest
from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.events import ApprovalRequired
from forge_cli.files.regular import read_regular
from forge_cli.record.answers import leave_answer
from forge_cli.record.line import Line
from forge_cli.record.log import Log, check_log, line_at, read_session
from forge_cli.record.overview import Overview, readable_sessions
from forge_cli.record.places import lock_holder
from forge_cli.record.proof import Proofs, key_file
from forge_cli.record.recorder import Recorder, SessionLog
from forge_cli.record.resume import Past, Pending, past_of
from forge_cli.record.state import Recorded, SessionState, fold_lines
from forge_cli.sandbox.secrets import own_redactor

# The bytes depend on the order in which the encoder writes keys: tests/record/test_line.py fails if that changes.
# The fields of the request stand in the line itself, so its id comes first there, not a key "request".
_REQUIRED = f', "type": "{ApprovalRequired.type}", "requestId": '.encode()


def answer_request(
    path: Path, request: str, decision: ApprovalDecision
) -> tuple[Log, Waiting, Sequence[Waiting]]:
    """Answer a request of a session, parked or at work; returns its log, the request, and all that wait.

    ``request`` is the beginning of an id, and may be empty where only one waits.
    """
    if (pid := lock_holder(path)) is not None:
        read = read_session(path)
        check_log(read)
        chosen = replace(_chosen(read, open_requests(read.lines), request, pid), pid=pid)
        _hand_over(read, chosen, decision)
        return read, chosen, [chosen]
    log, read = SessionLog.resume(path)
    with log:
        check_log(read)
        waiting = requests_of(read.lines, log.proofs.unproven(read.lines))
        chosen = _chosen(read, waiting, request)
        if decision.approved and log.proofs.prove("") is None:
            hint = "make that file one that you can read and write, and answer again"
            raise ForgeError(f"a yes would not count: {key_file()} cannot prove it", hint=hint)
        _record(log, read, ApprovalResponse(chosen.id, decision))
    return read, chosen, waiting


def _hand_over(read: Log, chosen: Waiting, decision: ApprovalDecision) -> None:
    """Let the process that asks take an answer; what it puts on record is what counts."""
    counted = leave_answer(read, chosen.request, decision)
    if counted is None:
        hint = "answer it where it was asked; forge approvals list shows what waits"
        raise ForgeError(
            f"the process {chosen.pid} of the session {read.session} did not take the answer",
            hint=hint,
        )
    if (counted.approved, counted.via) != (decision.approved, decision.via):
        word = "yes" if counted.approved else "no"
        where = f", by {counted.via}" if counted.via else ""
        raise ForgeError(
            f"{chosen.id} was answered before: {word}{where}", hint="the first answer counts"
        )


def _chosen(read: Log, waiting: Sequence[Waiting], request: str, pid: int | None = None) -> Waiting:
    found = [each for each in waiting if each.id.startswith((request, f"approval_{request}"))]
    exact = [each for each in found if each.id == request]
    match exact or found:
        case [one]:
            return one
        case []:
            problem = f"the session {read.session} has no pending request" + (
                f" '{request}'" if request else ""
            )
        case several:
            beginning = (
                f"'{request}' is the beginning of"
                if request
                else f"name one: the session {read.session} has"
            )
            problem = f"{beginning} {len(several)} requests"
    pending = "\n  ".join(f"{each.id}: {each.request.tool_name}" for each in waiting)
    if not pending and pid:
        pending = f"it is at work (process {pid}) and asks nothing now; answer once forge approvals list shows a request"
    raise UsageError(
        problem, hint=pending or "it waits for nothing; forge approvals list shows what waits"
    )


def _record(log: SessionLog, read: Log, event: ApprovalResponse) -> None:
    last = read.lines[-1]
    Recorder(
        log, session=last.session, worker=read.lines[0].worker, redactor=own_redactor(), after=last
    )(event)


class Waiting(Struct, frozen=True):
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
    state = fold_lines(lines, void)
    pending = {each.request_id for each in pending_of(past_of(state))}
    calls = [call for request_id, call in state.requests.items() if request_id in pending]
    return [_waiting(state, call.asked, call.answer) for call in calls if call.asked]


def open_requests(lines: Iterable[Line]) -> list[Waiting]:
    """The requests of a session at work that have no answer yet."""
    state = fold_lines(lines)
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
        and data.find(
            f'"requestId": "{asked.data.get("requestId")}"'.encode(), data.find(b"\n", place)
        )
        < 0
    )


def pending_of(past: Past) -> Iterator[Pending]:
    """The requests of a session and of the workers that it called."""
    yield from past.pending.values()
    for called in past.children.values():
        for child in called:
            yield from pending_of(child.past)


def _waiting(
    state: SessionState, asked: Recorded[ApprovalRequired], answer: ApprovalDecision | None = None
) -> Waiting:
    return Waiting(asked.event.request, asked.line.time, state.path(asked.line.delegation), answer)


def waiting_requests(warn: Callable[[str], None]) -> list[tuple[Path, Waiting]]:
    """The requests of all sessions, each with its log.

    A session that cannot be resumed has none that could be answered, and that is said.
    """
    found: list[tuple[Path, Waiting]] = []
    for path, seen in readable_sessions():
        if _may_wait(path, seen):
            found += [(path, waiting) for waiting in _requests(path, seen.pid, warn)]
    return found


def last_waiting(warn: Callable[[str], None]) -> Path | None:
    """Return the log of the last request that waits, rather of one without an answer; None if nothing waits."""
    waiting = [(each.answer is None, each.time, path) for path, each in waiting_requests(warn)]
    return max(waiting)[2] if waiting else None


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
