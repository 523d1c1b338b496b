"""Helpers that all HTTP servers of forge share: a socket and the headers of a request."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

from forge_cli.core.errors import ForgeError, UsageError

Headers = Mapping[str, list[str]]


def open_socket(
    host: str, port: int, option: str = "--port", error_type: type[ForgeError] = ForgeError
) -> socket.socket:
    """Listen on a port given by ``option``; port 0 finds a free one."""
    if ":" in host:
        family = socket.AF_INET6
    else:
        family = socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OverflowError:  # raised by the socket for a port above 65535
        raise UsageError(f"{option} {port}: a port must be a number from 0 to 65535") from None
    except OSError as error:
        problem = f"{option} {port} on {host}: {error.strerror or error}"
        raise error_type(problem, hint="use another port; 0 finds a free one") from None


def read_headers(scope: Any) -> Headers:
    """Return all values of each header, by its name in lower case."""
    # A list of values, so that callers can refuse a header that is sent twice.
    headers: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return headers


def let_in(scope: Any) -> None:
    """Mark the connection of an authenticated request, so that it is not dropped for others."""
    scope["state"]["connection"].is_known = True
