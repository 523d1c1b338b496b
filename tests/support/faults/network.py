"""A server on this machine that answers two turns of a model as it should, but for one fault, down to the bytes."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

CLOSE, RESET, STALL = "close", "reset", "stall"
EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNKED = EVENTS + b"transfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


@dataclass(frozen=True)
class Drip:
    """The same bytes again and again, until the client leaves."""

    piece: bytes
    pause: float = 0.02


Step = bytes | str | Drip
Wire = Sequence[bytes]
"""The server-sent events of a good answer."""


@dataclass(frozen=True)
class Fault:
    """The steps sent instead of the expected answer; then the connection is closed."""

    steps: Callable[[Wire], Sequence[Step]]
    code: int = 7
    """The exit code of forge when it never ends; 0 for what is no fault, or only until the next attempt."""
    says: str = ""
    once: bool = False
    reads: bool = True
    """Is the request read first?"""
    turn: int = 1
    """The turn that it is in, from 0 on."""
    tls: str | None = None
    """The certificate that the server has."""


@dataclass(frozen=True)
class Answers:
    """The answers of a model: a call, a second call, and a word; ``mark`` is in a request for every result."""

    wires: Sequence[Wire]
    mark: bytes

    def turn_of(self, body: bytes) -> int:
        return min(body.count(self.mark), len(self.wires) - 1)


class FaultyServer:
    def __init__(
        self, answers: Answers, fault: Fault | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self.requests: list[bytes] = []
        self._answers, self._fault, self._tls = answers, fault, tls
        self._turn = 0
        self._faults = 0
        self._closing = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port = self._listener.getsockname()[1]

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}"

    def __enter__(self) -> FaultyServer:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while not self._closing.is_set():
            with suppress(OSError):
                line, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line: socket.socket) -> None:
        with suppress(OSError, ValueError):
            try:
                if self._tls:
                    line = self._tls.wrap_socket(line, server_side=True)
                while self._answer(line):
                    pass
            finally:
                line.close()

    def _answer(self, line: socket.socket) -> bool:
        """Answer one request; says whether the connection stays open."""
        if self._fault and not self._fault.reads and self._is_due(self._turn):
            return self._perform(line, self._fault.steps(self._answers.wires[self._turn]))
        body = read_request(line)
        if body is None:
            return False
        self.requests.append(body)
        self._turn = turn = self._answers.turn_of(body)
        if self._fault and self._fault.reads and self._is_due(turn):
            return self._perform(line, self._fault.steps(self._answers.wires[turn]))
        content = b"".join(self._answers.wires[turn])
        line.sendall(
            EVENTS + b"connection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(content), content)
        )
        self._turn += 1
        return False

    def _is_due(self, turn: int) -> bool:
        assert self._fault
        due = turn == self._fault.turn and not (self._fault.once and self._faults)
        self._faults += due
        return due

    def _perform(self, line: socket.socket, steps: Sequence[Step]) -> bool:
        for step in steps:
            if isinstance(step, bytes):
                line.sendall(step)
            elif isinstance(step, Drip):
                while not self._closing.wait(step.pause):
                    line.sendall(step.piece)
            elif step == STALL:
                self._closing.wait()
            elif step == RESET:
                line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False


def read_request(line: socket.socket) -> bytes | None:
    """Return the body of one request, or None at the end."""
    found = bytearray()
    while b"\r\n\r\n" not in found:
        if not (piece := line.recv(65536)):
            return None
        found += piece
    head, _, body = bytes(found).partition(b"\r\n\r\n")
    size = next(
        (
            int(each[15:])
            for each in head.lower().split(b"\r\n")
            if each.startswith(b"content-length:")
        ),
        0,
    )
    while len(body) < size:
        if not (piece := line.recv(65536)):
            return None
        body += piece
    return body


def chunked(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)


def sized(status: str, body: bytes = b"", *headers: str, kind: str = "application/json") -> bytes:
    """A whole response with a length."""
    lines = [
        f"HTTP/1.1 {status}",
        f"content-type: {kind}",
        f"content-length: {len(body)}",
        "connection: close",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
