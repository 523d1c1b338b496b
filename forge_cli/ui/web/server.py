"""The server of the page: a socket on this machine, and uvicorn on it until it is told to stop."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from forge_cli.core.errors import ForgeError

MOST_CONNECTIONS = 300
LAST_ANSWERS = 1
"""Seconds that connections have to end by themselves."""


class PageServer(uvicorn.Server):
    """Leaves signals to forge."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def open_socket(host: str, port: int) -> socket.socket:
    """Listen on a port; 0 finds a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        hint = "name another port with --port; 0 finds a free one"
        raise ForgeError(f"{host}:{port}: {why}", hint=hint) from None


def new_server(app: Any) -> PageServer:
    config = uvicorn.Config(
        app,
        http="h11",
        log_config=None,
        log_level="critical",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=LAST_ANSWERS,
    )
    return PageServer(config)
