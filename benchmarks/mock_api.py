"""A stand-in for the API, in its own process: it calls one tool each turn and notes request times."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

WORDS = ["I ", "add ", "the ", "next ", "two ", "numbers ", "for ", "you."]


@dataclass
class Conversation:
    """Number of requests, and the seconds between an answer and the next request."""

    turn: int = 0
    answered: float = 0.0
    gaps: list[float] = field(default_factory=list)


def events(turn: int, last: bool) -> Iterator[dict[str, object]]:
    usage = {
        "input_tokens": 10,
        "output_tokens": 1,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 0,
    }
    message = {
        "id": f"msg_{turn}",
        "type": "message",
        "role": "assistant",
        "model": "mock",
        "content": [],
    }
    yield {
        "type": "message_start",
        "message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage},
    }
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    for word in WORDS:
        yield {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": word},
        }
    yield {"type": "content_block_stop", "index": 0}
    if not last:
        call = {"type": "tool_use", "id": f"toolu_{turn:06}", "name": "add", "input": {}}
        yield {"type": "content_block_start", "index": 1, "content_block": call}
        for piece in ('{"a": ', f"{turn}, ", '"b": ', "2}"):
            delta = {"type": "input_json_delta", "partial_json": piece}
            yield {"type": "content_block_delta", "index": 1, "delta": delta}
        yield {"type": "content_block_stop", "index": 1}
    stop = {"stop_reason": "end_turn" if last else "tool_use", "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 30}}
    yield {"type": "message_stop"}


def answer(turn: int, last: bool) -> bytes:
    stream = "".join(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events(turn, last)
    ).encode()
    head = (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    return head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(stream), stream)


async def serve(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: dict[str, Conversation]
) -> None:
    """``POST /NAME-TURNS/v1/messages`` takes the next of TURNS turns; ``GET /NAME-TURNS`` returns the gaps."""
    while head := await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b"":
        method, path = head.split(b" ", 2)[:2]
        name = path.decode().split("/")[1]
        conversation = seen.setdefault(name, Conversation())
        if method == b"GET":
            body = json.dumps(conversation.gaps).encode()
            writer.write(
                b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
                + body
            )
            break
        length = next(
            line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
        )
        await reader.readexactly(int(length.split(b":")[1]))
        conversation.turn += 1
        if conversation.answered:
            conversation.gaps.append(time.perf_counter() - conversation.answered)
        writer.write(answer(conversation.turn, conversation.turn >= int(name.rsplit("-", 1)[1])))
        await writer.drain()
        conversation.answered = time.perf_counter()
    writer.close()


async def main() -> None:
    seen: dict[str, Conversation] = {}

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer, seen)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, limit=1 << 24)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def mock_api() -> Iterator[str]:
    """Yield the address of a server that runs as long as the context."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__))], stdout=subprocess.PIPE, text=True
    )
    try:
        port = process.stdout.readline() if process.stdout else ""
        yield f"http://127.0.0.1:{int(port)}"
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    asyncio.run(main())
