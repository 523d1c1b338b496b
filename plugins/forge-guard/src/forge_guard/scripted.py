"""A model server on this machine that plays a script, in the protocols of four tools."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Call = tuple[str, dict[str, Any]]
_DEFERRED = re.compile(r"deferred tools are now available[^\n]*?:((?:\\n[A-Z]\w+)+)\\n\\n")


@dataclass
class Script:
    """Calls that the model makes one after the other, then a last word.

    ``seen`` are the bodies of the requests.
    """

    calls: list[Call]
    seen: list[Any] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def told(self) -> str:
        """All input of the model, including results of its calls."""
        return json.dumps(self.seen, ensure_ascii=False)

    @property
    def offered(self) -> set[str]:
        """The names of the tools that the model was offered with the first request."""
        if not self.seen:
            return set()
        first = self.seen[0]
        found: set[str] = set()
        waiting = [*(first.get("tools") or first.get("request", {}).get("tools") or ())]
        while waiting:
            each = waiting.pop()
            inner = each.get("functionDeclarations") or each.get("tools")
            if inner:
                waiting += inner
            else:
                function = each.get("function") or {}
                found.add(each.get("name") or function.get("name") or each.get("type"))
        # Claude Code names the others in a message.
        for listed in _DEFERRED.findall(json.dumps(first)):
            found |= set(filter(None, listed.split("\\n")))
        return found

    def next(self, body: Any) -> Call | None:
        """Return the next call in this conversation; small questions on the side get no call."""
        if not (body.get("tools") or body.get("request", {}).get("tools")):
            return None
        self.seen.append(body)
        made = len(
            {part for part in json.dumps(body).split('"') if part.startswith("call-of-the-script-")}
        )
        return self.calls[made] if made < len(self.calls) else None


def _anthropic(call: Call | None, number: int, body: Any) -> Iterator[tuple[str, Any]]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    head = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "m"),
    }
    yield "message_start", {"message": {**head, "content": [], "stop_reason": None, "usage": usage}}
    if call:
        block = {
            "type": "tool_use",
            "id": f"call-of-the-script-{number}",
            "name": call[0],
            "input": {},
        }
        yield "content_block_start", {"index": 0, "content_block": block}
        delta: dict[str, Any] = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
    else:
        yield "content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}
        delta = {"type": "text_delta", "text": "Done."}
    yield "content_block_delta", {"index": 0, "delta": delta}
    yield "content_block_stop", {"index": 0}
    stop = "tool_use" if call else "end_turn"
    yield "message_delta", {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage}
    yield "message_stop", {}


def _responses(call: Call | None, number: int) -> Iterator[tuple[str, Any]]:
    response: dict[str, Any] = {
        "id": f"resp_{number}",
        "object": "response",
        "status": "in_progress",
        "output": [],
    }
    yield "response.created", {"response": response}
    call_id = f"call-of-the-script-{number}"
    if call and "input" in call[1] and call[0] == "apply_patch":
        item: dict[str, Any] = {
            "type": "custom_tool_call",
            "call_id": call_id,
            "name": call[0],
            **call[1],
        }
    elif call:
        item = {
            "type": "function_call",
            "call_id": call_id,
            "name": call[0],
            "arguments": json.dumps(call[1]),
        }
    else:
        content = [{"type": "output_text", "text": "Done.", "annotations": []}]
        item = {"type": "message", "role": "assistant", "content": content}
    item = {"id": f"item_{number}", "status": "completed", **item}
    yield "response.output_item.added", {"output_index": 0, "item": item}
    yield "response.output_item.done", {"output_index": 0, "item": item}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    yield (
        "response.completed",
        {"response": {**response, "status": "completed", "output": [item], "usage": usage}},
    )


def _completions(call: Call | None, number: int) -> Iterator[Any]:
    head = {"id": f"c{number}", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    if call:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        made = {
            "index": 0,
            "id": f"call-of-the-script-{number}",
            "type": "function",
            "function": function,
        }
        delta: dict[str, Any] = {"role": "assistant", "tool_calls": [made]}
    else:
        delta = {"role": "assistant", "content": "Done."}
    yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    reason = "tool_calls" if call else "stop"
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


def _gemini(call: Call | None, number: int) -> Iterator[Any]:
    part: dict[str, Any] = {"text": "Done."}
    if call:
        made = {"id": f"call-of-the-script-{number}", "name": call[0], "args": call[1]}
        part = {"functionCall": made}
    yield {
        "candidates": [
            {"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
        ]
    }


def _stream(path: str, body: Any, script: Script) -> Iterator[str]:
    call, number = script.next(body), len(script.seen)
    if "/messages" in path:
        for kind, data in _anthropic(call, number, body):
            yield f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n"
    elif "/responses" in path:
        for sequence, (kind, data) in enumerate(_responses(call, number)):
            event = {"type": kind, "sequence_number": sequence, **data}
            yield f"event: {kind}\ndata: {json.dumps(event)}\n\n"
    elif "/chat/completions" in path:
        for chunk in _completions(call, number):
            yield f"data: {json.dumps(chunk)}\n\n"
        yield "data: [DONE]\n\n"
    elif "treamGenerateContent" in path:
        for chunk in _gemini(call, number):
            yield f"data: {json.dumps(chunk)}\n\n"


@contextmanager
def serving(*calls: Call) -> Iterator[Script]:
    """Serve a model that makes these calls."""
    script = Script(list(calls))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(
                self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}"
            )
            said = "".join(_stream(self.path, body, script))
            streamed = bool(said) and not self.path.endswith(("count_tokens", ":generateContent"))
            if not streamed:
                said = json.dumps(next(_gemini(None, 0)) | {"input_tokens": 1, "totalTokens": 1})
            self._send(said, "text/event-stream" if streamed else "application/json")

        def do_GET(self) -> None:
            self._send(json.dumps({"data": [], "models": []}), "application/json")

        def _send(self, said: str, kind: str) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(said.encode())))
            self.end_headers()
            self.wfile.write(said.encode())

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    script.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
