"""An HTTP server: uvicorn without signals and logs, with limits against unauthenticated clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 300
"""Authenticated connections; one more gets 503."""
MAX_STRANGERS = 200
"""Unauthenticated connections; one more drops the oldest of them."""
MAX_BACKLOG = 50
"""Connections to accept in one step; few, so that each can send its head before it is dropped."""
HEAD_TIMEOUT = 5.0
"""Seconds for the head of a request."""
IDLE_TIMEOUT = 5
"""Seconds that a connection may be idle between two requests."""
CLOSE_TIMEOUT = 1
"""Seconds for connections to end when the server stops."""


class GuardedConnection(H11Protocol):
    """A connection with a timeout for its head, which can be dropped until it is authenticated."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.app_state = {**self.app_state, "connection": self}  # for let_in
        self.is_known = False
        self._since = self.loop.time()
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()
        connections = (each for each in self.connections if isinstance(each, GuardedConnection))
        strangers = [each for each in connections if not each.is_known]
        if len(strangers) > MAX_STRANGERS:  # else idle connections could lock the user out
            min(strangers, key=lambda each: each._since)._drop()

    def handle_events(self) -> None:
        super().handle_events()
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_watching()

    def _watch(self) -> None:
        """Start the timeout of the next head, unless a request is being answered."""
        if self.cycle and not self.cycle.response_complete:
            self._stop_watching()
        elif not self._deadline and not self.transport.is_closing():
            # A running deadline is kept: a client that sends a byte now and then gains nothing.
            # Before its first request a connection has no reason to be idle.
            idle = self.timeout_keep_alive if self.cycle else 0
            self._deadline = self.loop.call_later(idle + HEAD_TIMEOUT, self._drop)

    def _stop_watching(self) -> None:
        if self._deadline:
            self._deadline.cancel()
            self._deadline = None

    def _drop(self) -> None:
        # uvicorn removes a connection when it is lost, which is too late for the next count.
        self.connections.discard(self)
        self.transport.abort()  # close() would wait until the client has read its answer


class QuietServer(uvicorn.Server):
    """A server that leaves signals to forge."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def new_server(app: Any) -> uvicorn.Server:
    """Return a server that runs until ``should_exit``; the app authenticates by ``let_in``."""
    config = uvicorn.Config(
        app,
        http=GuardedConnection,
        log_config=None,  # the configuration of uvicorn would change the logs of the whole process
        log_level="critical",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,  # no version for attackers
        backlog=MAX_BACKLOG,
        limit_concurrency=MAX_CONNECTIONS + MAX_STRANGERS,
        timeout_keep_alive=IDLE_TIMEOUT,
        timeout_graceful_shutdown=CLOSE_TIMEOUT,
    )
    return QuietServer(config)
