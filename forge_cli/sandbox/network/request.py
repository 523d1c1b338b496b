"""What a command asks the proxy for: one request, read so strictly that nobody could read it differently."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from forge_cli.sandbox.network.hosts import read_port

HEAD_LIMIT = 64 * 1024
END_OF_HEAD = b"\r\n\r\n"
HTTP_PORT = 80

_NAME = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_REQUEST_LINE = re.compile(rf"({_NAME}) ([!-~]+) (HTTP/1\.[01])")
_HEADER = re.compile(rf"({_NAME}):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*?)[ \t]*")
_URL = re.compile(r"http://([^/?#@\\]+)([/?][^#]*)?", re.IGNORECASE)
_LENGTH = re.compile(r"[0-9]{1,18}")
_FOR_THE_PROXY = frozenset(
    {"connection", "host", "keep-alive", "proxy-authorization", "proxy-connection", "te", "trailer", "upgrade"}
)


class BadRequest(Exception):
    """A request that is not passed on; ``status`` is that of the answer."""

    def __init__(self, sentence: str, status: str = "400 Bad Request") -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class ProxyRequest:
    """Where a command wants to go, and what is sent there first."""

    host: str
    """As it was written."""
    port: int
    head: bytes = b""
    """What the other side gets to read; nothing for a tunnel."""
    length: int | None = None
    """Bytes of the body that follow; None for a tunnel, in which everything is passed on."""

    @classmethod
    def read(cls, head: bytes) -> ProxyRequest:
        """The request with this head, which ends before the empty line."""
        first, *lines = head.decode("latin-1").split("\r\n")
        found = _REQUEST_LINE.fullmatch(first)
        if not found:
            raise BadRequest("this is not a request for a proxy")
        method, target, version = found.groups()
        headers = list(_headers(lines))
        if method == "CONNECT":
            return cls(*_split(target))
        url = _URL.fullmatch(target)
        if not url:
            raise BadRequest("the proxy takes CONNECT, and http:// addresses without a user")
        host, port = _split(url[1], HTTP_PORT)
        path = url[2] or "/"
        path = path if path.startswith("/") else f"/{path}"
        # whom a header names counts for nothing: the host is that of the request line
        kept = [f"{name}: {value}" for name, value in headers if name.lower() not in _dropped(headers)]
        sent = [f"{method} {path} {version}", f"Host: {url[1]}", *kept, "Connection: close", "", ""]
        return cls(host, port, "\r\n".join(sent).encode("latin-1"), _length(headers))


def _headers(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        found = _HEADER.fullmatch(line)
        if not found:
            raise BadRequest("a header of the request cannot be read")
        yield found[1], found[2]


def _split(target: str, default: int | None = None) -> tuple[str, int]:
    """Host and port; the host has still to be checked."""
    closed = target.rfind("]") + 1
    name, colon, port = target[closed:].rpartition(":")
    if not colon and default is not None:
        return target, default
    try:
        return target[:closed] + name, read_port(port)
    except ValueError as error:
        raise BadRequest(f"the request names no host and port: {error}") from None


def _dropped(headers: list[tuple[str, str]]) -> frozenset[str]:
    """Headers that are for the proxy itself, and those that it is told to drop; never those that frame the body."""
    named = {
        each.strip().lower() for name, value in headers if name.lower() == "connection" for each in value.split(",")
    }
    return (_FOR_THE_PROXY | named) - {"content-length", "transfer-encoding"}


def _length(headers: list[tuple[str, str]]) -> int:
    """How long the body is. Two answers to that question would be two requests to somebody."""
    names = [name.lower() for name, _ in headers]
    if names.count("host") > 1 or names.count("content-length") > 1:
        raise BadRequest("a header of the request stands there twice")
    if "transfer-encoding" in names:
        raise BadRequest("the proxy wants to know the length of a body beforehand", "411 Length Required")
    length = next((value for name, value in headers if name.lower() == "content-length"), "0")
    if not _LENGTH.fullmatch(length):
        raise BadRequest("the length of the body is not a number")
    return int(length)
