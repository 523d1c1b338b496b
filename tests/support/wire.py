"""A local server that answers with given bytes, in given pieces."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

OK = b"HTTP/1.1 200 OK\r\n"
FINE = (OK + b"content-length: 2\r\n\r\nok",)
CLOSE, HOLD = "close", "hold"
Piece = bytes | str
"""Bytes to send, CLOSE to end the connection, or HOLD to say nothing until the server ends."""


def answer(status: int, body: bytes, *headers: str) -> list[Piece]:
    """An answer that ends with its connection."""
    head = [f"HTTP/1.1 {status} Done", *(headers or ("content-type: application/json",)), "", ""]
    return ["\r\n".join(head).encode() + body, CLOSE]


def chunked(*pieces: bytes, head: bytes = b"content-type: text/event-stream\r\n") -> list[Piece]:
    """An answer in chunks, each sent by itself."""
    chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece]
    return [OK + head + b"transfer-encoding: chunked\r\n\r\n", *chunks, b"0\r\n\r\n"]


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


class Wire:
    """Gives each request the next of its answers, the last one again and again."""

    def __init__(self, listening: socket.socket, tls: ssl.SSLContext | None) -> None:
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{listening.getsockname()[1]}"
        self.answers: list[Sequence[Piece]] = []
        self.requests: list[bytes] = []
        self.connections = 0
        self.open = 0
        self.ending = threading.Event()
        self._listening, self._tls = listening, tls

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                line, _ = self._listening.accept()
                self.connections += 1
                self.open += 1
                threading.Thread(target=self._answer, args=(line,), daemon=True).start()

    def _answer(self, line: socket.socket) -> None:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with line, suppress(OSError):
            line = self._tls.wrap_socket(line, server_side=True) if self._tls else line
            received = b""
            while piece := line.recv(65536):
                received += piece
                if not _is_whole(received):
                    continue
                self.requests.append(received)
                received = b""
                for said in self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]:
                    if isinstance(said, str):
                        if said == HOLD:
                            self.ending.wait(30)
                        self.open -= 1
                        return
                    line.sendall(said)
        self.open -= 1


def _is_whole(request: bytes) -> bool:
    head, end, body = request.partition(b"\r\n\r\n")
    lengths = [
        line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
    ]
    return bool(end) and len(body) >= int(lengths[0] if lengths else 0)


@contextmanager
def wire(*answers: Sequence[Piece], tls: ssl.SSLContext | None = None) -> Iterator[Wire]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = Wire(listening, tls)
        server.answers = list(answers)
        threading.Thread(target=server.serve, daemon=True).start()
        try:
            yield server
        finally:
            server.ending.set()
            listening.shutdown(socket.SHUT_RDWR)
