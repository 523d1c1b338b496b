"""Connection between a session in a view and the process outside, which sees the real files."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import asdict

from forge_cli.core.errors import ForgeError
from forge_cli.core.trial import DraftCheck, DraftEvent
from forge_cli.sandbox.drafts.draft import SessionDraft

_MAX_LINE = 1 << 24
_ANSWER_TIMEOUT = 600.0
"""Seconds: applying many files to a slow disk may take minutes."""


class DraftLink:
    """Client of the process outside; each question and each answer is one line of JSON."""

    def __init__(
        self,
        connection: socket.socket,
        draft: SessionDraft,
        *,
        check: str = "",
        follows_dropped: bool = False,
    ) -> None:
        self.id = draft.id
        self.follows_dropped = follows_dropped
        """True if the person has just dropped an earlier draft of the session."""
        self.check = check
        """The command that checks the draft at the end of the session."""
        self.place = draft.place
        """The folder of the draft."""
        self.zones = draft.seen_zones
        """The folders that the draft covers, or their copies."""
        self.seen_path = draft.seen_path
        """Returns the path at which the session sees a real path."""
        self._connection = connection
        connection.settimeout(_ANSWER_TIMEOUT)

    def opened(self, session: str) -> list[DraftEvent]:
        """Report the session that works in the draft.

        Return the event of what the conversation has just applied or dropped, and the one of this
        draft.
        """
        answer = self._answer("opened", session=session) or {}
        events = [answer["settled"]] if answer.get("settled") else []
        if "id" in answer:
            events.append(answer)
        return [DraftEvent.read(each) for each in events]

    def show(self) -> DraftEvent:
        """Return the changes so far."""
        return self._ask("shown")

    def leave_for(self, command: Sequence[str]) -> None:
        """Have the process outside carry out a command once the session has ended.

        The session is resumed afterwards.
        """
        self._ask("left", command=list(command))

    def give_back(self, typed: bytes) -> None:
        """Return input that this process has read and not used."""
        self._ask("typed", typed=typed.hex())

    def ended(self, status: str, check: DraftCheck | None = None) -> DraftEvent:
        """Report how the session ended, and return the draft after ``--on-end`` was carried out."""
        try:
            return self._ask("ended", status=status, check=asdict(check) if check else None)
        except ForgeError:  # the process outside prints it
            return DraftEvent(self.id, "ready")

    def _ask(self, question: str, **more: Any) -> DraftEvent:
        answer = self._answer(question, **more)
        return DraftEvent(self.id, "open") if answer is None else DraftEvent.read(answer)

    def _answer(self, question: str, **more: Any) -> dict[str, Any] | None:
        """Return the answer; None if the process outside was killed, which changes no draft.

        Raise a ForgeError with the problem of the process outside.
        """
        answer = None
        with suppress(OSError):
            send_line(self._connection, {"question": question, **more})
            answer = receive_line(self._connection)
        if answer is not None and "problem" in answer:
            raise ForgeError(answer["problem"])
        return answer


class DraftKeeper:
    """Server for the session, in the process outside the view."""

    def __init__(
        self,
        connection: socket.socket,
        answers: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]],
    ) -> None:
        self._connection = connection
        self._answers = answers

    def serve(self) -> None:
        """Answer questions until the session closes the connection."""
        while self.serve_one():
            pass

    def serve_one(self) -> bool:
        """Answer the next question; return False if the session has closed the connection."""
        question = receive_line(self._connection)
        if question is None:
            return False
        try:
            answer = self._answers[question["question"]](question)
        except (ForgeError, OSError) as error:
            # Without an answer, the session would wait.
            answer = {"problem": str(error)}
        send_line(self._connection, answer)
        return True


def send_line(connection: socket.socket, value: Mapping[str, Any]) -> None:
    """Send a value as one line of JSON."""
    connection.sendall(json.dumps(value).encode() + b"\n")


def receive_line(connection: socket.socket) -> dict[str, Any] | None:
    """Return the next value; None if the other side has closed the connection."""
    data = bytearray()
    while not data.endswith(b"\n"):
        piece = connection.recv(1 << 16)
        if not piece or len(data) > _MAX_LINE:
            return None
        data += piece
    found: dict[str, Any] = json.loads(data)
    return found
