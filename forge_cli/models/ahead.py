"""A connection that is opened before the first request, while there is other work to do; a failure stays silent."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio

from forge_cli.core.values import dataclass

if TYPE_CHECKING:
    import httpx2

FRESH = 5.0
"""Seconds for which an open connection counts as usable, as in the pool that it is for."""


class ConnectionAhead:
    """In the place of a pool's network: the first connection that the pool asks for may be open already."""

    def __init__(self, network: Any, url: str, trust: ssl.SSLContext, timeout: float) -> None:
        parts = urlsplit(url)
        self._network = network
        self._place = (parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))
        self._trust = trust if parts.scheme == "https" else None
        self._timeout = timeout
        self._task: asyncio.Task[_Opened | Exception] | None = asyncio.create_task(self._open())

    @classmethod
    def install(cls, transport: httpx2.AsyncHTTPTransport, url: str, trust: ssl.SSLContext, timeout: float) -> Any:
        """Begin to open one for a transport; None where a version of httpx2 has no such place for it."""
        pool = getattr(transport, "_pool", None)
        network = getattr(pool, "_network_backend", None)
        if pool is None or network is None:
            return None
        ahead = pool._network_backend = cls(network, url, trust, timeout)
        return ahead

    async def _open(self) -> _Opened | Exception:
        try:
            host, port = self._place
            stream = await self._network.connect_tcp(host, port, timeout=self._timeout)
            if self._trust:
                self._trust.set_alpn_protocols(["http/1.1"])
                stream = await stream.start_tls(self._trust, server_hostname=host, timeout=self._timeout)
            return _Opened(stream, self._trust is not None, anyio.current_time())
        except Exception as error:  # told by the request that wants the connection, if one waits for it
            return error

    async def connect_tcp(self, host: str, port: int, **options: Any) -> Any:
        task, self._task = self._task, None
        if task is not None:
            waited = not task.done()
            opened = await task
            if isinstance(opened, Exception):
                if waited:
                    raise opened
            elif (host, port) == self._place and opened.is_fresh:
                return opened if opened.is_secure else opened.stream
            else:
                await opened.stream.aclose()
        return await self._network.connect_tcp(host, port, **options)

    async def connect_unix_socket(self, path: str, **options: Any) -> Any:
        return await self._network.connect_unix_socket(path, **options)

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)

    async def aclose(self) -> None:
        """End what was never used."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled() and isinstance(opened := task.result(), _Opened):
            await opened.stream.aclose()


@dataclass(frozen=True)
class _Opened:
    """An open connection; where it is encrypted already, a pool that begins with that gets the very same."""

    stream: Any
    is_secure: bool
    since: float

    @property
    def is_fresh(self) -> bool:
        """Has the server not closed it? Bytes that wait are its farewell, or in TLS a ticket that says nothing."""
        waiting = not self.is_secure and self.stream.get_extra_info("is_readable")
        return not waiting and anyio.current_time() - self.since < FRESH

    async def start_tls(self, *_: object, **__: object) -> Any:
        return self.stream

    async def aclose(self) -> None:
        await self.stream.aclose()
