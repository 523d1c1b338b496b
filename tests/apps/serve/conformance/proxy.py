"""Adds the token of a server to every request, since the conformance suite has no way to say one."""

from __future__ import annotations

import re
from functools import partial

import anyio
from anyio.abc import SocketAttribute, SocketListener, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

HEAD_MAX = 65_536


async def serve_proxy(listener: SocketListener, port: int, token: str) -> None:
    """Hand each request on to that port; it never ends by itself."""
    own = listener.extra(SocketAttribute.local_port)
    await listener.serve(partial(_hand_on, own=own, port=port, token=token))


async def _hand_on(client: SocketStream, own: int, port: int, token: str) -> None:
    """One request and its response; a host that is not the proxy's own stays as the client said it."""
    async with client:
        buffered = BufferedByteReceiveStream(client)
        try:
            head = await buffered.receive_until(b"\r\n\r\n", HEAD_MAX)
        except (anyio.IncompleteRead, anyio.BrokenResourceError):
            return
        name = (
            rf"(?i)(\r\n(?:host|origin): *(?:http://)?(?:localhost|127\.0\.0\.1)):{own}\b".encode()
        )
        head = re.sub(name, rb"\1:%d" % port, head)
        head = re.sub(rb"(?i)\r\nconnection:[^\r]*", b"", head)
        added = f"\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
        async with (
            await anyio.connect_tcp("127.0.0.1", port) as server,
            anyio.create_task_group() as tasks,
        ):
            await server.send(head + added + buffered.buffer)
            tasks.start_soon(_copy, client, server)
            await _copy(server, client)
            tasks.cancel_scope.cancel()


async def _copy(source: SocketStream, target: SocketStream) -> None:
    try:
        async for chunk in source:
            await target.send(chunk)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass
