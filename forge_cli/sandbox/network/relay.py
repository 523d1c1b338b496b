"""Bytes between a command and a server, in both directions, until one of them ends or nothing comes any more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, ByteStream

IDLE = 300
"""Seconds after which a connection is closed that nothing passes through."""
PIECE = 65536
ENDED = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)


async def relay(given: ByteReceiveStream, client: ByteStream, server: ByteStream, length: int | None) -> None:
    """Pass on what both sides send; of the client's so many bytes only, unless ``length`` is None."""
    async with anyio.create_task_group() as both:
        scope = both.cancel_scope

        def alive() -> None:
            scope.deadline = anyio.current_time() + IDLE

        async def upwards() -> None:
            await _pass_on(given, server, alive, length)
            await _read_to_end(given)
            await _end(server)

        async def downwards() -> None:
            await _pass_on(server, client, alive)
            await _end(client)
            if length is not None:
                scope.cancel()

        alive()
        both.start_soon(_until_broken, upwards, scope)
        both.start_soon(_until_broken, downwards, scope)


async def _until_broken(work: Callable[[], Awaitable[None]], scope: anyio.CancelScope) -> None:
    try:
        await work()
    except ENDED:
        scope.cancel()


async def _pass_on(
    source: ByteReceiveStream, target: ByteSendStream, alive: Callable[[], None], left: int | None = None
) -> None:
    with suppress(anyio.EndOfStream):
        while left is None or left > 0:
            data = await source.receive(PIECE if left is None else min(left, PIECE))
            alive()
            await target.send(data)
            alive()
            left = None if left is None else left - len(data)


async def _read_to_end(source: ByteReceiveStream) -> None:
    """Drop what follows a request: it might be another one."""
    with suppress(anyio.EndOfStream):
        while True:
            await source.receive(PIECE)


async def _end(stream: ByteStream) -> None:
    with suppress(*ENDED):
        await stream.send_eof()
