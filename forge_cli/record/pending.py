"""Pending requests of sessions, and recording people's answers to them."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.actions import ApprovalResponse
from forge_cli.core.approval import ApprovalDecision, ApprovalRequest
from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.events import ApprovalRequired, SessionEnd
from forge_cli.core.text import local_time
from forge_cli.files.regular import read_regular
from forge_cli.record.control_client import ControlClient, NotListening
from forge_cli.record.line import Line
from forge_cli.record.log import Log, check_log, line_at, read_session
from forge_cli.record.overview import Overview, readable_sessions
from forge_cli.record.places import SessionBusy, lock_holder
from forge_cli.record.proof import Proofs, key_file
from forge_cli.record.recorder import Recorder, SessionLog
from forge_cli.record.resume import Past, Pending, past_of
from forge_cli.record.state import Recorded, SessionState, fold_lines
from forge_cli.sandbox.secrets import own_redactor

# The prefix depends on the order in which keys are written; tests/record/test_line.py fails if that
# changes. The fields of the request are fields of the line, so the first one is its ID and not a
# key "request".
_REQUIRED = f', "type": "{ApprovalRequired.type}", "requestId": '.encode()


ANSWER_TIMEOUT = 5.0
"""Seconds that a running session has to take an answer."""
RETRY_DELAY = 0.05


class AlreadyAnswered(ForgeError):
    """The request has an answer; the first one counts."""

    def __init__(self, request: str, answer: ApprovalDecision, at: str = "") -> None:
        word = "yes" if answer.approved else "no"
        by = f", by {answer.via}" if answer.via else ""
        when = f", at {local_time(at)}" if at else ""
        super().__init__(
            f"{request} is already answered: {word}{by}{when}", hint="the first answer counts"
        )
        self.answer = answer


def answer_request(
    path: Path, request: str, decision: ApprovalDecision
) -> tuple[Log, Waiting, Sequence[Waiting]]:
    """Answer a request of a parked or running session; raise AlreadyAnswered if somebody has.

    Return its log, the request, and all pending requests. ``request`` is the beginning of an ID,
    and may be empty if only one request is pending.
    """
    deadline = time.monotonic() + ANSWER_TIMEOUT
    while True:
        try:
            if (pid := lock_holder(path)) is not None:
                return _answer_running(path, request, decision, pid)
            return _answer_parked(path, request, decision)
        except (NotListening, SessionBusy):
            # Another process is answering it, or the session starts or ends right now.
            if time.monotonic() > deadline:
                break
        time.sleep(RETRY_DELAY)
    hint = "answer it in that process; forge approvals list shows pending requests"
    holder = lock_holder(path) or "unknown"
    raise ForgeError(
        f"process {holder} of the session {path.stem} did not take the answer", hint=hint
    )


def _answer_parked(
    path: Path, request: str, decision: ApprovalDecision
) -> tuple[Log, Waiting, Sequence[Waiting]]:
    """Record an answer in a session that no process uses.

    It is locked until the answer is written, so that no other process resumes or answers it.
    """
    log, read = SessionLog.resume(path)
    with log:
        check_log(read)
        waiting = requests_of(read.lines, log.proofs.unproven(read.lines))
        chosen = _chosen(read, waiting, request)
        if chosen.answer is not None:
            said = _answers(read).get(chosen.id)
            raise AlreadyAnswered(chosen.id, chosen.answer, said.time if said else "")
        # The proof of an empty text is not used; it shows whether the key can be read.
        if decision.approved and log.proofs.prove("") is None:
            hint = "make the file readable and writable, then answer again"
            raise ForgeError(
                f"an approval would not count: the key {key_file()} cannot be used", hint=hint
            )
        _record(log, read, ApprovalResponse(chosen.id, decision))
    return read, chosen, waiting


def _answer_running(
    path: Path, request: str, decision: ApprovalDecision, pid: int
) -> tuple[Log, Waiting, Sequence[Waiting]]:
    """Pass an answer to the process that asks; raise ForgeError unless it records this answer."""
    read = read_session(path)
    check_log(read)
    waiting = open_requests(read.lines)
    if not waiting and _has_ended(read):
        raise SessionBusy(f"the session {read.session} is in use by process {pid}")
    chosen = replace(_chosen(read, waiting, request, pid), pid=pid)
    with ControlClient(path) as client:
        receipt = client.answer(chosen.request, decision)
    if receipt is None:
        # The process ended meanwhile: its log shows whether it has recorded the answer.
        return _answered_before_end(path, chosen, decision)
    if receipt.counted:
        return read, chosen, [chosen]
    if receipt.decision is not None:
        raise AlreadyAnswered(chosen.id, receipt.decision)
    raise ForgeError(
        f"{chosen.id} cannot be answered: {receipt.reason}",
        hint="forge approvals list shows pending requests",
    )


def _has_ended(read: Log) -> bool:
    """Return True if the session has ended: the process that holds it answers it, or resumes it."""
    others = (line.type for line in reversed(read.lines) if line.type != ApprovalResponse.type)
    return next(others, "") == SessionEnd.type


def _answered_before_end(
    path: Path, chosen: Waiting, decision: ApprovalDecision
) -> tuple[Log, Waiting, Sequence[Waiting]]:
    """Return as usual if the log has this answer; raise SessionBusy if it has none yet."""
    read = read_session(path)
    call = fold_lines(read.lines).requests.get(chosen.id)
    recorded = call.answer if call else None
    if recorded is None:
        raise SessionBusy(f"the session {read.session} ended")
    said = decision.approved, decision.note, decision.via
    if said != (recorded.approved, recorded.note, recorded.via):
        raise AlreadyAnswered(chosen.id, recorded)
    return read, chosen, [chosen]


def _chosen(read: Log, waiting: Sequence[Waiting], request: str, pid: int | None = None) -> Waiting:
    """Return the request that a person named.

    If it is no longer pending, raise AlreadyAnswered with the answer that counted.
    """
    # People may leave out the prefix, which all these IDs have.
    found = [each for each in waiting if each.id.startswith((request, f"approval_{request}"))]
    exact = [each for each in found if each.id == request]
    match exact or found:
        case [one]:
            return one
        case []:
            if request:
                _check_answered(read, request)
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


def _check_answered(read: Log, request: str) -> None:
    """Raise AlreadyAnswered if a request with this beginning of an ID has an answer."""
    for found, line in _answers(read).items():
        event = line.event
        is_named = found.startswith((request, f"approval_{request}"))
        if is_named and isinstance(event, ApprovalResponse):
            raise AlreadyAnswered(found, event.decision, line.time)


def _answers(read: Log) -> dict[str, Line]:
    """Return the line of the last answer to each request."""
    return {
        str(line.data.get("requestId")): line
        for line in read.lines
        if line.type == ApprovalResponse.type
    }


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
