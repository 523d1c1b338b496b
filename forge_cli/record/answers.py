"""Answers to the request of a session at work, from another process: left beside its log, taken by the one that asks.

An answer is for one very call: it names the request and the content that was shown, and forge's own key in the user's
home proves who wrote it. An answer that does not fit the call that waits does not count.
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
POLL = 0.25
"""Seconds between two looks, while somebody is asked."""
PATIENCE = 5.0
"""Seconds that a session at work has to take an answer."""
LARGEST = 256 * 1024


class LeftAnswer(Struct, frozen=True):
    """The answer of another process to one request, and which call it was shown."""

    session: str
    request_id: str
    fingerprint: str | None
    stamp: str | None
    approved: bool
    note: str | None
    via: str

    def fits(self, session: str, request: ApprovalRequest) -> bool:
        """Is it about this exact call, as it was shown?"""
        shown = session, request.request_id, request.fingerprint, request.stamp
        return (self.session, self.request_id, self.fingerprint, self.stamp) == shown

    def text(self) -> str:
        said = json.dumps(wire(self))
        return json.dumps({"answer": said, "proof": make_proof(said)})

    @classmethod
    def read(cls, data: bytes) -> LeftAnswer | None:
        """None for what this user's forge did not write."""
        try:
            found = json.loads(data)
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
            pass
        return None


def answer_file(log: Path) -> Path:
    """The file in which an answer is left; a session asks one thing at a time."""
    return Path(path_beside_log(log, ANSWER))


# --- the process that asks


def take_answers(bus: EventBus, log: Path, first: Event | None = None) -> Callable[[], None]:
    """Give every request on a bus the answer that another process leaves; returns the function that ends this.

    The first answer counts, wherever it comes from. It asks no person who would not be asked anyway. ``first`` is a
    request that has just been made.
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
    """Looks for the answer to one request, until it has one."""

    def __init__(self, bus: EventBus, log: Path, request: ApprovalRequest) -> None:
        self._bus, self._log, self._request = bus, log, request
        self._timer = asyncio.get_running_loop().call_later(POLL, self._look)

    def stop(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        if not self._bus.is_open(self._request.request_id):
            return
        self._timer = asyncio.get_running_loop().call_later(POLL, self._look)
        data = _take(answer_file(self._log))
        if data is None:
            return
        answer = LeftAnswer.read(data)
        with suppress(SessionLost):  # the next line that is to be written ends the work
            if answer is None or not answer.fits(self._log.stem, self._request):
                problem = (
                    "an answer from elsewhere does not fit the call that waits, and does not count"
                )
                self._bus.emit(
                    StatusEvent("warning", problem, tool_call_id=self._request.tool_call_id)
                )
            else:
                decision = ApprovalDecision(answer.approved, note=answer.note, via=answer.via)
                self._bus.answer(self._request.request_id, decision)


def _take(file: Path) -> bytes | None:
    """Take what was left, which is gone then; an answer that was withdrawn meanwhile does not count."""
    try:
        found = read_regular(file) if file.lstat().st_size <= LARGEST else b""
        file.unlink()
    except OSError:
        return None
    return found


# --- the process that answers


def leave_answer(
    read: Log, request: ApprovalRequest, decision: ApprovalDecision
) -> ApprovalDecision | None:
    """Leave an answer, and wait for what the session puts on record; None where it has taken none, and takes none."""
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
    deadline = time.monotonic() + PATIENCE
    try:
        replace_file(file, said.text(), mode=0o600)
    except OSError as error:
        raise ForgeError(f"the answer cannot be left at {file}: {error.strerror}") from None
    try:
        while time.monotonic() < deadline:
            if found := _answer_after(read, request.request_id):
                return found
            time.sleep(POLL / 2)
    finally:
        taken = not _withdraw(file)
    if taken:
        time.sleep(POLL)
    return _answer_after(read, request.request_id)


def _withdraw(file: Path) -> bool:
    """Take an answer back; False where it was taken already."""
    try:
        file.unlink()
    except FileNotFoundError:
        return False
    return True


def _answer_after(read: Log, request_id: str) -> ApprovalDecision | None:
    """The first answer to a request that was put on record since a log was read."""
    try:
        with open(read.path, "rb") as stream:
            stream.seek(read.size)
            pieces = stream.read().split(b"\n")[:-1]
        lines = [Line.read(piece) for piece in pieces]
        events = [line.event for line in lines if line.type == ApprovalResponse.type]
    except (OSError, BadLine):
        return None
    answers = (event for event in events if isinstance(event, ApprovalResponse))
    return next((event.decision for event in answers if event.request_id == request_id), None)
