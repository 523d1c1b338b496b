"""A client of the control socket of a session."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from forge_cli.core.actions import ApprovalResponse
from forge_cli.core.approval import ApprovalDecision, ApprovalRequest
from forge_cli.core.errors import ForgeError
from forge_cli.core.events import Event
from forge_cli.core.wire import JsonObject, Unreadable, read
from forge_cli.record.control import ENDED, HELLO, READY, RECEIPT, Receipt
from forge_cli.record.socket_files import connect_socket, prove_client, socket_file

TIMEOUT = 5.0
"""Seconds that a session has to react."""


class NotListening(ForgeError):
    """No process listens on the control socket of a session."""

    def __init__(self, session: str) -> None:
        super().__init__(
            f"the session {session} is not running in the background",
            hint="forge sessions list shows the state of each session",
        )


class ControlClient:
    """A connection to a session of this user."""

    def __init__(self, log: Path, *, watch: bool = False, timeout: float = TIMEOUT) -> None:
        """Connect; raise NotListening if that is impossible.

        With ``watch``, ``lines`` yields the events of the session from now on.
        """
        self.session = log.stem
        self._number = 0
        self._kept: list[JsonObject] = []
        try:
            self.connection = connect_socket(socket_file(log), timeout)
        except OSError:
            raise NotListening(self.session) from None
        self._buffer = b""
        try:
            hello = self._expect(HELLO)
            proof = prove_client(str(hello.get("nonce")), self.session)
            self._write({"type": HELLO, "proof": proof, "watch": watch})
            ready = self._expect(READY)
        except (OSError, ValueError):
            self.connection.close()
            raise NotListening(self.session) from None
        self.seq = int(ready.get("seq") or 0)
        """The number of the last line that was recorded before."""
        self.watches = bool(ready.get("watch"))
        self.pid = int(ready.get("pid") or 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self.connection.close()

    def disconnect(self) -> None:
        """End the connection, so that a thread that reads from it stops."""
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def send(self, action: Event, **more: str | None) -> Receipt | None:
        """Send an action and return its receipt; None if the session ended before it reacted."""
        with suppress(OSError):
            number = self.post(action, **more)
            while (message := self.read_message()) is not None:
                if message.get("type") == RECEIPT and message.get("id") == number:
                    return receipt_of(message)
                self._kept.append(message)
        return None

    def answer(self, request: ApprovalRequest, decision: ApprovalDecision) -> Receipt | None:
        """Answer a request, as it was shown."""
        response = ApprovalResponse(request.request_id, decision)
        return self.send(response, fingerprint=request.fingerprint, stamp=request.stamp)

    def post(self, action: Event, **more: str | None) -> int:
        """Send an action without waiting for its receipt, and return its number."""
        self._number += 1
        self._write({"type": action.type, "id": self._number, **action.payload(), **more})
        return self._number

    def lines(self) -> Iterator[JsonObject]:
        """Yield messages of the session until it ends."""
        yield from self._kept
        self._kept.clear()
        with suppress(OSError):
            while (message := self.read_message()) is not None:
                yield message

    def read_message(self) -> JsonObject | None:
        """Return the next message; None at the end."""
        while b"\n" not in self._buffer:
            piece = self.connection.recv(1 << 16)
            if not piece:
                return None
            self._buffer += piece
        text, _, self._buffer = self._buffer.partition(b"\n")
        found = json.loads(text)
        if not isinstance(found, dict):
            raise ValueError("not a message")
        return found

    def wait_for_end(self, timeout: float) -> bool:
        """Wait until the session disconnects; return False if it does not in time."""
        self.connection.settimeout(timeout)
        try:
            while self.read_message() is not None:
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True

    def _write(self, message: JsonObject) -> None:
        self.connection.sendall(json.dumps(message).encode() + b"\n")

    def _expect(self, kind: str) -> JsonObject:
        message = self.read_message()
        if message is None or message.get("type") != kind:
            raise ValueError(ENDED)
        return message


def receipt_of(message: JsonObject) -> Receipt:
    """Return the receipt in a message."""
    try:
        return read(Receipt, message)
    except Unreadable as problem:
        return Receipt(False, str(problem))
