"""A page of this machine that a browser comes back to, and what it brings."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from forge_cli import ui
from forge_cli.ui.http import let_in, open_socket

HOST, PATH = "127.0.0.1", "/callback"
DONE = "forge has what it needs. You can close this page.\n"


Answer = dict[str, str]


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[str, MemoryObjectSendStream[Answer], MemoryObjectReceiveStream[Answer]]]:
    """The address on this machine that a browser is to be sent to, and a stream of what it brings there."""
    from starlette.responses import PlainTextResponse

    send_answer, answers = anyio.create_memory_object_stream[Answer](math.inf)

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        status, text = 404, "there is nothing here\n"
        if scope["path"] == PATH:
            let_in(scope)
            send_answer.send_nowait(read_query(f"?{scope['query_string'].decode('latin-1')}"))
            status, text = 200, DONE
        await PlainTextResponse(text, status)(scope, receive, send)

    with open_socket(HOST, 0) as listener:
        server = ui.server.new_server(answer)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            try:
                yield f"http://{HOST}:{listener.getsockname()[1]}{PATH}", send_answer, answers
            finally:
                server.should_exit = True


def read_query(address: str) -> Answer:
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query or address).items()}
