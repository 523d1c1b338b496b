"""The way out: names resolved and connections made by forge itself, outside of every sandbox."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

import anyio
from anyio.abc import ByteStream

ADDRESSES_AT_MOST = 8


class Outside(Protocol):
    """The network as the proxy sees it."""

    async def resolve(self, host: str) -> Sequence[str]:
        """The addresses of a name; an OSError where it has none."""
        ...

    def is_here(self, address: str) -> bool:
        """Whether an address is one of this machine's own."""
        ...

    async def connect(self, address: str, port: int) -> ByteStream:
        """A connection to an address, never to a name; an OSError where there is none to be had."""
        ...


class Internet:
    """The network of this machine."""

    async def resolve(self, host: str) -> Sequence[str]:
        found = await anyio.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return [str(address[0]) for *_, address in found][:ADDRESSES_AT_MOST]

    def is_here(self, address: str) -> bool:
        """What this machine would reach from the very same address is itself; nothing is sent to find that out."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            return str(probe.getsockname()[0]) == address
        return False

    async def connect(self, address: str, port: int) -> ByteStream:
        return await anyio.connect_tcp(address, port)


INTERNET = Internet()
