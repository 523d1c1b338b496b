"""Pending requests of sessions, and recording people's answers to them."""

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

# The prefix depends on the order in which keys are written; tests/record/test_line.py fails if that
# changes. The fields of the request are fields of the line, so the first one is its ID and not a
# key "request".
_REQUIRED = f', "type": "{ApprovalRequired.type}", "requestId": '.encode()


def answer_request(
    path: Path, request: str, decision: ApprovalDecision
) -> tuple[Log, Waiting, Sequence[Waiting]]:
    """Answer a request of a parked or running session.

    Return its log, the request, and all pending requests. ``request`` is the beginning of an ID,
    and may be empty if only one request is pending.
    """
    if (pid := lock_holder(path)) is not None:
        read = read_session(path)
        check_log(read)
        chosen = replace(_chosen(read, open_requests(read.lines), request, pid), pid=pid)
        _hand_over(read, chosen, decision)
        return read, chosen, [chosen]
    # No process uses the session. It is locked until the answer is written, so that no other
    # process resumes it meanwhile.
    log, read = SessionLog.resume(path)
    with log:
        check_log(read)
        waiting = requests_of(read.lines, log.proofs.unproven(read.lines))
        chosen = _chosen(read, waiting, request)
        # The proof of an empty text is not used; it shows whether the key can be read.
        if decision.approved and log.proofs.prove("") is None:
            hint = "make the file readable and writable, then answer again"
            raise ForgeError(
                f"an approval would not count: the key {key_file()} cannot be used", hint=hint
            )
        _record(log, read, ApprovalResponse(chosen.id, decision))
    return read, chosen, waiting


def _hand_over(read: Log, chosen: Waiting, decision: ApprovalDecision) -> None:
    """Let the asking process take an answer; raise ForgeError unless it records this answer."""
    counted = leave_answer(read, chosen.request, decision)
    if counted is None:
        hint = "answer it in that process; forge approvals list shows pending requests"
        raise ForgeError(
            f"process {chosen.pid} of the session {read.session} did not take the answer",
            hint=hint,
        )
    if (counted.approved, counted.via) != (decision.approved, decision.via):
        word = "yes" if counted.approved else "no"
        where = f", by {counted.via}" if counted.via else ""
        raise ForgeError(
            f"{chosen.id} is already answered: {word}{where}", hint="the first answer counts"
        )


def _chosen(read: Log, waiting: Sequence[Waiting], request: str, pid: int | None = None) -> Waiting:
    # People may leave out the prefix, which all these IDs have.
    found = [each for each in waiting if each.id.startswith((request, f"approval_{request}"))]
    exact = [each for each in found if each.id == request]
    match exact or found:
        case [one]:
            return one
        case []:
            problem = f"the session {read.session} has no pending request {request!r}"
            if not request:
                problem = f"the session {read.session} has no pending request"
        case several if request:
            problem = f"'{request}' matches {len(several)} requests"
        case several:
            problem = f"the session {read.session} has {len(several)} pending requests; name one"
    hint = "\n  ".join(f"{each.id}: {each.request.tool_name}" for each in waiting)
    if not hint and pid:
        hint = f"process {pid} is working on it and asks nothing now"
    raise UsageError(problem, hint=hint or "forge approvals list shows pending requests")


def _record(log: SessionLog, read: Log, event: ApprovalResponse) -> None:
    last = read.lines[-1]
    Recorder(
        log, session=last.session, worker=read.lines[0].worker, redactor=own_redactor(), after=last
    )(event)


class Waiting(Struct, frozen=True):
    """A pending request of a session."""

    request: ApprovalRequest
    time: str
    path: tuple[str, ...]
    """The workers from the root to the one that asks."""
    answer: ApprovalDecision | None
    """The answer of a person, which counts once the session is resumed."""
    pid: int | None = None
    """The process that asks right now and takes an answer at once."""

    @property
    def id(self) -> str:
        return self.request.request_id


def requests_of(lines: Iterable[Line], void: Container[int] = ()) -> list[Waiting]:
    """Return the pending requests of a parked session and its child workers, in order."""
    state = fold_lines(lines, void)
    pending = {each.request_id for each in pending_of(past_of(state))}
    found: list[Waiting] = []
    for request_id, call in state.requests.items():
        if request_id in pending and call.asked:
            found.append(_waiting(state, call.asked, call.answer))
    return found


def open_requests(lines: Iterable[Line]) -> list[Waiting]:
    """Return the requests of a running session that have no answer yet."""
    state = fold_lines(lines)
    return [_waiting(state, asked) for asked in state.waiting.values()]


def may_be_asking(path: Path) -> bool:
    """Return True if a running session may wait for an answer, by a look at the end of its log."""
    try:
        data = read_regular(path)
    except OSError:
        return False
    place = data.rfind(_REQUIRED)
    asked = line_at(data, place)
    if asked is None:
        return False
    mention = f'"requestId": "{asked.data.get("requestId")}"'.encode()
    return data.find(mention, data.find(b"\n", place)) < 0


def pending_of(past: Past) -> Iterator[Pending]:
    """Yield the requests of a session and of its child workers."""
    yield from past.pending.values()
    for called in past.children.values():
        for child in called:
            yield from pending_of(child.past)


def _waiting(
    state: SessionState, asked: Recorded[ApprovalRequired], answer: ApprovalDecision | None = None
) -> Waiting:
    return Waiting(asked.event.request, asked.line.time, state.path(asked.line.delegation), answer)


def waiting_requests(warn: Callable[[str], None]) -> list[tuple[Path, Waiting]]:
    """Return the pending requests of all sessions, each with its log.

    A session that cannot be resumed has no requests that could be answered; ``warn`` gets the
    reason.
    """
    found: list[tuple[Path, Waiting]] = []
    for path, seen in readable_sessions():
        if _may_wait(path, seen):
            found += [(path, waiting) for waiting in _requests(path, seen.pid, warn)]
    return found


def last_waiting(warn: Callable[[str], None]) -> Path | None:
    """Return the log of the latest pending request, first of those without an answer.

    Return None if nothing is pending.
    """
    waiting = [(each.answer is None, each.time, path) for path, each in waiting_requests(warn)]
    if not waiting:
        return None
    return max(waiting)[2]


def _may_wait(path: Path, seen: Overview) -> bool:
    """Return True if a session may wait for an answer, parked or running."""
    if seen.pid:
        return may_be_asking(path)
    return seen.waits


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
