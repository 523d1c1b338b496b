"""A server on this machine that speaks the API's own wire, as strictly as the real one, and fails on demand."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from .rules import Block, Refused, Rules

Event = dict[str, Any]
USAGE = {
    "input_tokens": 11,
    "cache_creation_input_tokens": 5,
    "cache_read_input_tokens": 7,
    "output_tokens": 1,
}


def text(content: str) -> Block:
    return {"type": "text", "text": content}


def thinking(content: str, signature: str = "c2lnbmVk") -> Block:
    return {"type": "thinking", "thinking": content, "signature": signature}


def tool_use(call_id: str, name: str, /, **args: Any) -> Block:
    return {"type": "tool_use", "id": call_id, "name": name, "input": args}


@dataclass(frozen=True)
class Answer:
    """A stream of blocks; ``stop`` is guessed from them, ``raw`` replaces the input of the calls on the wire."""

    blocks: tuple[Block, ...]
    stop: str | None = None
    details: Event | None = None
    raw: str | None = None
    usage: Mapping[str, Any] = field(default_factory=lambda: {"output_tokens": 42})

    def events(self) -> Iterator[Event]:
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [],
            "usage": USAGE,
        }
        yield {
            "type": "message_start",
            "message": {**message, "stop_reason": None, "stop_sequence": None},
        }
        yield {"type": "ping"}
        for index, block in enumerate(self.blocks):
            start, deltas = self._pieces(block)
            yield {"type": "content_block_start", "index": index, "content_block": start}
            yield from (
                {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
            )
            yield {"type": "content_block_stop", "index": index}
        calls = any(block["type"] == "tool_use" for block in self.blocks)
        stop = self.stop or ("tool_use" if calls else "end_turn")
        delta = {"stop_reason": stop, "stop_sequence": None, "stop_details": self.details}
        yield {"type": "message_delta", "delta": delta, "usage": dict(self.usage)}
        yield {"type": "message_stop"}

    def _pieces(self, block: Block) -> tuple[Block, list[Block]]:
        match block["type"]:
            case "text":
                return {**block, "text": ""}, [
                    {"type": "text_delta", "text": piece} for piece in _cut(block["text"])
                ]
            case "thinking":
                pieces = [
                    {"type": "thinking_delta", "thinking": piece}
                    for piece in _cut(block["thinking"])
                ]
                signature = {"type": "signature_delta", "signature": block["signature"]}
                return {**block, "thinking": "", "signature": ""}, [*pieces, signature]
            case "tool_use":
                written = json.dumps(block["input"]) if self.raw is None else self.raw
                pieces = [
                    {"type": "input_json_delta", "partial_json": piece}
                    for piece in ["", *_cut(written)]
                ]
                return {**block, "input": {}}, pieces
            case _:
                return block, []

    def encoded(self) -> list[bytes]:
        return [
            f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
            for event in self.events()
        ]


def _cut(content: str) -> list[str]:
    return [content[start : start + 7] for start in range(0, len(content), 7)]


def say(*blocks: Block | str, **options: Any) -> Answer:
    return Answer(
        tuple(text(block) if isinstance(block, str) else block for block in blocks), **options
    )


@dataclass(frozen=True)
class Fails:
    """A status with an error in the API's shape."""

    status: int
    kind: str = "api_error"
    message: str = "Something is wrong"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Cut:
    """The line breaks after some events of an answer; ``reset`` breaks it the hard way."""

    answer: Answer
    after: int
    reset: bool = False


@dataclass(frozen=True)
class Raw:
    """Any bytes, in any pieces, with any content type and speed."""

    pieces: Sequence[bytes]
    content_type: str = "text/event-stream; charset=utf-8"
    pause: float = 0.0


@dataclass(frozen=True)
class Stall:
    """The beginning of an answer, and then silence until the server closes."""

    answer: Answer
    after: int


class Deaf:
    """The line breaks before there is any answer."""


Reply = Answer | Fails | Cut | Raw | Stall | Deaf


@dataclass(frozen=True)
class Received:
    """One request: its bytes, what they say, the headers in small letters, and the first line."""

    raw: bytes
    data: Any
    headers: Mapping[str, str]
    line: str = ""


class Api:
    """Gives its replies in order, one a request; a request that the real API refuses gets the refusal instead."""

    def __init__(self) -> None:
        self.rules = Rules()
        self.received: list[Received] = []
        self.replies: list[Reply | Callable[[Any], Reply]] = []
        self.refused: list[str] = []
        self.path = "/v1/messages"
        self.connections = 0
        self.closing = threading.Event()
        self.stalled = threading.Event()
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (_Handler,), {"api": self})
        )
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def will(self, *replies: Reply | Callable[[Any], Reply]) -> None:
        self.replies += replies

    def __enter__(self) -> Api:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, raw: bytes, headers: Mapping[str, str], line: str = "") -> Reply:
        try:
            data = self.rules.check(headers, raw)
        except Refused as refusal:
            self.refused.append(str(refusal))
            return Fails(400, "invalid_request_error", str(refusal))
        self.received.append(Received(raw, data, headers, line))
        reply = self.replies.pop(0)
        reply = reply(data) if callable(reply) else reply
        if isinstance(reply, Answer):
            self.rules.handed_out(reply.blocks, paused=reply.stop == "pause_turn")
        return reply


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: Api

    def setup(self) -> None:
        super().setup()
        self.api.connections += 1

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"]))
        if urlsplit(self.path).path != self.api.path:
            self._fail(Fails(404, "not_found_error", f"no such path: {self.path}"))
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        match self.api.answer(raw, headers, self.requestline):
            case Answer() as answer:
                self._stream(answer.encoded())
            case Fails() as failure:
                self._fail(failure)
            case Cut(answer, after, reset):
                self._stream(answer.encoded()[:after], end=False)
                self._break(reset)
            case Raw(pieces, content_type, pause):
                self._stream(pieces, content_type, pause=pause)
            case Stall(answer, after):
                self._stream(answer.encoded()[:after], end=False)
                self.api.stalled.set()
                self.api.closing.wait(30)
                self._break(False)
            case Deaf():
                self._break(True)

    def _stream(
        self,
        pieces: Sequence[bytes],
        content_type: str = "text/event-stream; charset=utf-8",
        *,
        end: bool = True,
        pause: float = 0.0,
    ) -> None:
        self.send_response(200)
        self.send_header("content-type", content_type)
        self.send_header("request-id", "req_42")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for piece in pieces:
            if piece:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.flush()
            time.sleep(pause)
        if end:
            self.wfile.write(b"0\r\n\r\n")

    def _fail(self, failure: Fails) -> None:
        body = json.dumps(
            {"type": "error", "error": {"type": failure.kind, "message": failure.message}}
        ).encode()
        self.send_response(failure.status)
        for name, value in {
            "content-type": "application/json",
            "request-id": "req_42",
            **failure.headers,
        }.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _break(self, reset: bool) -> None:
        self.wfile.flush()
        self.close_connection = True
        if not reset:
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.rfile.close()
        self.connection.close()

    def finish(self) -> None:
        with suppress(OSError, ValueError):
            super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""
