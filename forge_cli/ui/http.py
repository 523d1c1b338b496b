"""What the servers of forge share: a socket, uvicorn without signals and logs, and the headers of a request."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from forge_cli.core.errors import ForgeError

if TYPE_CHECKING:
    import uvicorn

MOST_CONNECTIONS = 300
LAST_ANSWERS = 1
"""Seconds that connections have to end by themselves."""
Headers = Mapping[str, list[str]]


def open_socket(
    host: str, port: int, option: str = "--port", error_type: type[ForgeError] = ForgeError
) -> socket.socket:
    """Listen on a port, which ``option`` has named; 0 finds a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        problem = f"{option} {port} on {host}: {why}"
        raise error_type(problem, hint="name another port; 0 finds a free one") from None


def read_headers(scope: Any) -> Headers:
    """Every value of each header, by its name in lower case."""
    headers: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return headers


def new_server(app: Any, **more: Any) -> uvicorn.Server:
    """A server that runs until its ``should_exit``; ``more`` are other settings of uvicorn."""
    import uvicorn

    class QuietServer(uvicorn.Server):
        """Leaves signals to forge."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="critical",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=LAST_ANSWERS,
        **more,
    )
    return QuietServer(config)
