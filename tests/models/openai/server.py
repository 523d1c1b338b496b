"""A strict Chat Completions server on 127.0.0.1: it checks every request, and replies by script."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from jsonschema import Draft202012Validator

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
FIELDS = {"model", "stream", "stream_options", "messages", "tools", "response_format"}
EVENT_STREAM = {"content-type": "text/event-stream; charset=utf-8"}


@dataclass(frozen=True)
class Reply:
    """An answer of the server, piece by piece; ``end`` is the state of the connection afterwards."""

    pieces: tuple[bytes, ...] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: EVENT_STREAM)
    end: str = "well"  # or "cut", "silence", or "signs" of life only
    sign: bytes = b""


@dataclass(frozen=True)
class Request:
    headers: Mapping[str, str]
    raw: bytes
    body: Any

    @property
    def messages(self) -> list[Any]:
        return self.body["messages"]

    @property
    def message_bytes(self) -> bytes:
        """The bytes of the messages, without the closing bracket."""
        return self.raw[self.raw.index(b'"messages":[') :].removesuffix(b"]}")


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    complaints: list[str]

    def handle_error(self, *_: object) -> None:
        """A client that leaves is no news; anything else is."""
        error = sys.exception()
        if not isinstance(error, OSError):
            self.complaints.append(repr(error))


class ChatServer:
    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.complaints: list[str] = []
        self.connections = 0
        self.key: str | None = None
        self._replies: list[Reply] = []
        self._closing = threading.Event()
        self._http = _Http(("127.0.0.1", 0), self._handler())
        self._http.complaints = self.complaints
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    def will(self, *replies: Reply) -> None:
        """These are the next replies, in order."""
        self._replies.extend(replies)

    @property
    def left(self) -> int:
        return len(self._replies)

    def __enter__(self) -> ChatServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                server.connections += 1
                super().setup()

            def log_message(self, *_: object) -> None:
                pass

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["content-length"]))
                server._answer(self, raw)

        return Handler

    def _answer(self, handler: BaseHTTPRequestHandler, raw: bytes) -> None:
        request = Request(
            {name.lower(): value for name, value in handler.headers.items()}, raw, json.loads(raw)
        )
        self.requests.append(request)
        wrong = list(complaints(handler.path, request, self.key))
        self.complaints += wrong
        if wrong or not self._replies:
            text = "; ".join(wrong) or "nothing was scripted"
            reply = refusal(400, {"error": {"message": text}})
        else:
            reply = self._replies.pop(0)
        self._send(handler, reply)

    def _send(self, handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        handler.send_response(reply.status)
        for name, value in {"transfer-encoding": "chunked", **reply.headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        try:
            for piece in filter(None, reply.pieces):
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                handler.wfile.flush()
            while reply.end == "signs" and not self._closing.wait(0.05):
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(reply.sign), reply.sign))
            if reply.end == "silence":
                self._closing.wait()
            if reply.end == "well":
                handler.wfile.write(b"0\r\n\r\n")
        except OSError:
            reply = Reply(end="cut")
        handler.close_connection = reply.end != "well"


def complaints(path: str, request: Request, key: str | None) -> Iterable[str]:
    """Everything that a strict server would refuse."""
    body = request.body
    if path != "/v1/chat/completions":
        yield f"no such path: {path}"
    if request.headers.get("content-type") != "application/json":
        yield "the content is no JSON"
    if request.headers.get("authorization") != (key and f"Bearer {key}"):
        yield "wrong authorization"
    if unknown := set(body) - FIELDS - {"return_progress"}:
        yield f"unknown fields: {unknown}"
    if not (isinstance(body["model"], str) and body["stream"] is True):
        yield "model or stream is wrong"
    if body["stream_options"] != {"include_usage": True}:
        yield "usage is not asked for"
    yield from wrong_messages(body["messages"])
    yield from wrong_tools(body)


def wrong_messages(messages: list[Any]) -> Iterable[str]:
    open_calls: list[str] = []
    seen: set[str] = set()
    for index, message in enumerate(messages):
        match message:
            case {"role": "system", "content": str(text)} if (
                index == 0 and text and len(message) == 2
            ):
                pass
            case {"role": "tool", "tool_call_id": id, "content": str()} if len(message) == 3:
                if id not in open_calls:
                    yield f"the result {id} answers no call"
                    continue
                open_calls.remove(id)
                continue
            case {"role": "user", "content": str() | [_, *_]} if len(message) == 2:
                pass
            case {"role": "assistant", "content": str()} if len(message) == 2:
                pass
            case {"role": "assistant", "content": None | str(), "tool_calls": [_, *_] as calls} if (
                len(message) == 3
            ):
                yield from wrong_calls(calls, seen)
                if open_calls:
                    yield f"calls without a result: {open_calls}"
                open_calls = [call["id"] for call in calls]
                continue
            case _:
                yield f"message {index} is wrong: {message}"
        if open_calls:
            yield f"calls without a result: {open_calls}"
            open_calls = []
    if open_calls:
        yield f"calls without a result: {open_calls}"


def wrong_calls(calls: list[Any], seen: set[str]) -> Iterable[str]:
    for call in calls:
        match call:
            case {
                "id": str(id),
                "type": "function",
                "function": {"name": str(name), "arguments": str(arguments)},
            }:
                if not id or id in seen:
                    yield f"the id {id!r} is empty or was used before"
                seen.add(id)
                if not NAME.fullmatch(name):
                    yield f"{name!r} is no name"
                if not isinstance(json.loads(arguments), dict):
                    yield f"the arguments of {name} are no object"
            case _:
                yield f"a call is wrong: {call}"


def wrong_tools(body: Any) -> Iterable[str]:
    if "response_format" in body:
        if "tools" in body:
            yield "tools beside response_format"
        match body["response_format"]:
            case {"type": "json_schema", "json_schema": {"name": str(), "schema": {**schema}}}:
                Draft202012Validator.check_schema(schema)
            case _:
                yield "response_format is wrong"
    names = []
    for tool in body.get("tools", []):
        match tool:
            case {
                "type": "function",
                "function": {"name": str(name), "description": str(), "parameters": {**schema}},
            }:
                names.append(name)
                Draft202012Validator.check_schema(schema)
                if not NAME.fullmatch(name) or schema.get("type") != "object":
                    yield f"the tool {name} is wrong"
            case _:
                yield f"a tool is wrong: {tool}"
    if len(names) != len(set(names)) or body.get("tools") == []:
        yield f"tools must be there and have names of their own: {names}"


def event(data: Any) -> bytes:
    text = data if isinstance(data, str) else json.dumps(data)
    return b"data: %s\n\n" % text.encode()


DONE = event("[DONE]")


def chunk(finish: str | None = None, **delta: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return event(
        {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice], "usage": None}
    )


def usage(sent: int, got: int, **more: Any) -> bytes:
    return event(
        {"choices": [], "usage": {"prompt_tokens": sent, "completion_tokens": got, **more}}
    )


def call_delta(
    index: int | None = 0, id: str | None = None, name: str | None = None, arguments: Any = None
) -> bytes:
    function = {
        key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None
    }
    call: dict[str, Any] = {"function": function}
    call |= {"index": index} if index is not None else {}
    call |= {"id": id, "type": "function"} if id is not None else {}
    return chunk(tool_calls=[call])


def says(*texts: str, finish: str = "stop", end: str = "well") -> Reply:
    """An answer in words, streamed as the usual servers do."""
    words = [chunk(content=text) for text in texts]
    return Reply(
        (chunk(role="assistant", content=""), *words, chunk(finish), usage(11, 7), DONE), end=end
    )


def calls(*made: tuple[str, str, dict[str, Any]], text: str = "") -> Reply:
    """An answer with calls (id, name, input), the fragments of their arguments taking turns."""
    begun = [call_delta(index, id, name, "") for index, (id, name, _) in enumerate(made)]
    texts = [json.dumps(given) for *_, given in made]
    first = [call_delta(index, arguments=text[:3]) for index, text in enumerate(texts)]
    rest = [call_delta(index, arguments=text[3:]) for index, text in enumerate(texts)]
    words = [chunk(content=text)] if text else []
    return Reply((*words, *begun, *first, *rest, chunk("tool_calls"), usage(11, 7), DONE))


def refusal(status: int, body: Any = "", **headers: str) -> Reply:
    kind = "text/html" if isinstance(body, str) else "application/json"
    text = body if isinstance(body, str) else json.dumps(body)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply((text.encode(),), status, {"content-type": kind, **named})
