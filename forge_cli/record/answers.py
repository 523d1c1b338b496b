"""Answers to the request of a running session, given by another process.

The answer is a file beside the log, which the asking process takes. An answer is for one exact
call: it names the request and the content that was shown, and the key in the user's home proves who
wrote it. Any other answer is ignored.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from forge_cli.core.actions import ApprovalResponse
from forge_cli.core.approval import ApprovalDecision, ApprovalRequest
from forge_cli.core.bus import EventBus
from forge_cli.core.errors import ForgeError
from forge_cli.core.events import ApprovalRequired, Event, StatusEvent
from forge_cli.core.wire import Unreadable, read, wire
from forge_cli.files.regular import read_regular
from forge_cli.files.replace import replace_file
from forge_cli.record.line import BadLine, Line
from forge_cli.record.log import Log
from forge_cli.record.places import SessionLost, path_beside_log
from forge_cli.record.proof import make_proof

ANSWER = ".answer"
POLL_INTERVAL = 0.25
"""Seconds between two looks for an answer while a person is asked."""
ANSWER_TIMEOUT = 5.0
"""Seconds that a running session has to take an answer."""
# More than any answer that forge writes.
MAX_BYTES = 256 * 1024


class LeftAnswer(Struct, frozen=True):
    """The answer of another process to one request, with the call that it was shown."""

    session: str
    request_id: str
    fingerprint: str | None
    stamp: str | None
    approved: bool
    note: str | None
    via: str

    def fits(self, session: str, request: ApprovalRequest) -> bool:
        """Return True if the answer is about this exact call, as it was shown."""
        shown = session, request.request_id, request.fingerprint, request.stamp
        return (self.session, self.request_id, self.fingerprint, self.stamp) == shown

    def text(self) -> str:
        said = json.dumps(wire(self))
        return json.dumps({"answer": said, "proof": make_proof(said)})

    @classmethod
    def read(cls, data: bytes) -> LeftAnswer | None:
        """Return the answer in a file, or None if the user's forge did not write it."""
        try:
            found = json.loads(data)
            # In constant time, so that no proof can be guessed byte by byte.
            if hmac.compare_digest(str(found["proof"]), make_proof(found["answer"])):
                return read(cls, json.loads(found["answer"]))
        except (
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
            RecursionError,
            OSError,
            Unreadable,
        ):
            # Any process of the user can write this file, so nothing is known about its form.
            pass
        return None


def answer_file(log: Path) -> Path:
    """Return the file for an answer; a session asks one thing at a time."""
    return Path(path_beside_log(log, ANSWER))


# --- the process that asks


def take_answers(bus: EventBus, log: Path, first: Event | None = None) -> Callable[[], None]:
    """Take answers of other processes to the requests on a bus; return a function that stops it.

    The first answer counts, wherever it comes from. No session asks only because of this.
    ``first`` is a request that was made just before.
    """
    watches: dict[str, _Watch] = {}

    def hear(event: Event) -> None:
        for request_id in [known for known in watches if not bus.is_open(known)]:
            watches.pop(request_id).stop()
        if isinstance(event, ApprovalRequired) and bus.is_open(event.request.request_id):
            watches[event.request.request_id] = _Watch(bus, log, event.request)

    unsubscribe = bus.subscribe(hear, only=(ApprovalRequired,))
    if first is not None:
        hear(first)

    def end() -> None:
        unsubscribe()
        for watch in watches.values():
            watch.stop()

    return end


class _Watch:
    """A timer that looks for the answer to one request until there is one."""

    def __init__(self, bus: EventBus, log: Path, request: ApprovalRequest) -> None:
        self._bus, self._log, self._request = bus, log, request
        self._timer = asyncio.get_running_loop().call_later(POLL_INTERVAL, self._look)

    def stop(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        if not self._bus.is_open(self._request.request_id):
            return
        self._timer = asyncio.get_running_loop().call_later(POLL_INTERVAL, self._look)
        data = _take(answer_file(self._log))
        if data is None:
            return
        answer = LeftAnswer.read(data)
        with suppress(SessionLost):  # the write of the next line fails again, and ends the work
            if answer is None or not answer.fits(self._log.stem, self._request):
                problem = "ignored an answer from another process: it is for a different call"
                call = self._request.tool_call_id
                self._bus.emit(StatusEvent("warning", problem, tool_call_id=call))
            else:
                decision = ApprovalDecision(answer.approved, note=answer.note, via=answer.via)
                self._bus.answer(self._request.request_id, decision)


def _take(file: Path) -> bytes | None:
    """Read and delete the answer; return None if there is none, or if it was withdrawn."""
    try:
        found = b""
        # A larger file is deleted unread, and then counts as an invalid answer.
        if file.lstat().st_size <= MAX_BYTES:
            found = read_regular(file)
        file.unlink()
    except OSError:
        return None
    return found


# --- the process that answers


def leave_answer(
    read: Log, request: ApprovalRequest, decision: ApprovalDecision
) -> ApprovalDecision | None:
    """Leave an answer for a running session, and return the answer that the session recorded.

    Return None if the session recorded none and will not record this one.
    """
    said = LeftAnswer(
        read.session,
        request.request_id,
        request.fingerprint,
        request.stamp,
        decision.approved,
        decision.note,
        decision.via or "another process",
    )
    file = answer_file(read.path)
    deadline = time.monotonic() + ANSWER_TIMEOUT
    try:
        replace_file(file, said.text(), mode=0o600)
    except OSError as error:
        raise ForgeError(f"cannot write the answer to {file}: {error.strerror}") from None
    try:
        while time.monotonic() < deadline:
            if found := _answer_after(read, request.request_id):
                return found
            time.sleep(POLL_INTERVAL / 2)
    finally:
        taken = not _withdraw(file)
    if taken:
        # The session records an answer right after it has deleted the file.
        time.sleep(POLL_INTERVAL)
    return _answer_after(read, request.request_id)


def _withdraw(file: Path) -> bool:
    """Delete an answer; return False if the session has already taken it."""
    try:
        file.unlink()
    except FileNotFoundError:
        return False
    return True


def _answer_after(read: Log, request_id: str) -> ApprovalDecision | None:
    """Return the first answer to a request that was recorded after a log was read."""
    answers: list[ApprovalResponse] = []
    try:
        with open(read.path, "rb") as stream:
            stream.seek(read.size)
            # The text after the last newline is a line that is being written.
            pieces = stream.read().split(b"\n")[:-1]
        for piece in pieces:
            line = Line.read(piece)
            if line.type == ApprovalResponse.type and isinstance(line.event, ApprovalResponse):
                answers.append(line.event)
    except (OSError, BadLine):
        return None
    for answer in answers:
        if answer.request_id == request_id:
            return answer.decision
    return None
