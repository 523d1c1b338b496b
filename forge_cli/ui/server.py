"""The server of forge: uvicorn without signals and logs, on which strangers can hold nothing up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 300
"""Connections of those who were let in; one more is answered with 503."""
MOST_STRANGERS = 200
"""Connections of all others; one more ends the oldest of them."""
ACCEPTED_AT_ONCE = 50
"""Connections between two looks at what has arrived, few enough that each is heard before it has to give way."""
HEAD_SECONDS = 5.0
"""Time for the head of a request."""
IDLE_SECONDS = 5
"""Time that a connection may be idle between two requests."""
LAST_ANSWERS = 1
"""Seconds that connections have to end by themselves."""


class GuardedConnection(H11Protocol):
    """A connection that ends where no head comes in time, and gives way to others until a request is let in."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.app_state = {**self.app_state, "connection": self}
        self.is_known = False
        self._since = self.loop.time()
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()
        connections = (each for each in self.connections if isinstance(each, GuardedConnection))
        strangers = [each for each in connections if not each.is_known]
        if len(strangers) > MOST_STRANGERS:
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
        """Give the next head its time, unless a request is being answered."""
        if self.cycle and not self.cycle.response_complete:
            self._stop_watching()
        elif not self._deadline and not self.transport.is_closing():
            idle = self.timeout_keep_alive if self.cycle else 0
            self._deadline = self.loop.call_later(idle + HEAD_SECONDS, self._drop)

    def _stop_watching(self) -> None:
        if self._deadline:
            self._deadline.cancel()
            self._deadline = None

    def _drop(self) -> None:
        self.connections.discard(self)
        self.transport.abort()


class QuietServer(uvicorn.Server):
    """Leaves signals to forge."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def new_server(app: Any) -> uvicorn.Server:
    """A server that runs until its ``should_exit``; its app tells by ``let_in`` whom it knows."""
    config = uvicorn.Config(
        app,
        http=GuardedConnection,
        log_config=None,
        log_level="critical",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        backlog=ACCEPTED_AT_ONCE,
        limit_concurrency=MOST_CONNECTIONS + MOST_STRANGERS,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=LAST_ANSWERS,
    )
    return QuietServer(config)
