"""The proxy of one command: HTTP and CONNECT on a port in the command's own network."""

from __future__ import annotations

import os
import re
import shlex
import socket
import sys
import sysconfig
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, ByteStream, SocketListener, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from msgspec import Struct

from forge_cli.core.text import cut
from forge_cli.sandbox.network import proxy_bootstrap
from forge_cli.sandbox.network.access import (
    INTERNET,
    NetworkCheck,
    NetworkGate,
    Outside,
    Refused,
    StopClock,
)
from forge_cli.sandbox.network.rules import NetworkRules, read_port
from forge_cli.sandbox.processes.command import bash_argv

PORT = 3128
MAX_COMMAND_SHOWN = 1000
MAX_CONNECTIONS = 64
"""Simultaneous connections of one command; others wait until one of these ends."""
MAX_REQUESTS = 10_000
HEAD_TIME = 30
CONNECT_TIME = 30
DRAIN_SECONDS = 2
"""Seconds for the client to read an answer of the proxy itself."""
IDLE_TIMEOUT = 300
"""Seconds without data after which a connection is closed."""
PIECE = 65536
ENDED = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)
HEAD_LIMIT = 64 * 1024
END_OF_HEAD = b"\r\n\r\n"
HTTP_PORT = 80

_NAME = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_REQUEST_LINE = re.compile(rf"({_NAME}) ([!-~]+) (HTTP/1\.[01])")
_HEADER = re.compile(rf"({_NAME}):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*?)[ \t]*")
_URL = re.compile(r"http://([^/?#@\\]+)([/?][^#]*)?", re.IGNORECASE)
_LENGTH = re.compile(r"[0-9]{1,18}")
_FOR_THE_PROXY = frozenset(
    {
        "connection",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "upgrade",
    }
)


class NetworkProxy(Struct, frozen=True):
    """The way of a worker's commands to the network: names that rules cover, or a person allows."""

    rules: NetworkRules
    gate: NetworkGate
    outside: Outside = INTERNET

    @property
    def readable(self) -> tuple[Path, ...]:
        """Paths that a sandbox must show so that the port can be opened inside."""
        return _interpreter()[1]

    @staticmethod
    def variables() -> dict[str, str]:
        """Return the variables by which programs find the proxy; without it, they reach nothing."""
        address = f"http://127.0.0.1:{PORT}"
        # Empty, because no destination can be reached without the proxy.
        found = {"no_proxy": "", "NO_PROXY": ""}
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            found[name] = address
            found[name.upper()] = address  # curl, for example, ignores HTTP_PROXY
        return found

    @contextmanager
    def opened(self, argv: Sequence[str]) -> Iterator[tuple[list[str], int, CommandProxy]]:
        """Yield the argv that opens the port and runs the command, a descriptor and the proxy."""
        program = str(_interpreter()[0])
        code = Path(proxy_bootstrap.__file__).read_text("utf-8")
        command = shlex.join(argv)
        if list(argv) == bash_argv(argv[-1]):
            command = argv[-1]
        check = NetworkCheck(
            cut(command, MAX_COMMAND_SHOWN, "middle"), self.rules, self.gate, self.outside
        )
        ours, theirs = socket.socketpair()
        proxy = CommandProxy(check, ours)
        start = [program, "-I", "-S", "-B", "-c", code, str(theirs.fileno()), str(PORT), *argv]
        # The child has its own copy of this end after it has started.
        with theirs:
            try:
                yield start, theirs.fileno(), proxy
            except BaseException:
                proxy.close()
                raise


@cache
def _interpreter() -> tuple[Path, tuple[Path, ...]]:
    """Return the interpreter outside any virtual environment, and the files it needs."""
    program = Path(os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable))
    outside = {"installed_base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    libraries = [sysconfig.get_path(name, vars=outside) for name in ("stdlib", "platstdlib")]
    library = Path(
        sysconfig.get_config_var("LIBDIR") or "/", sysconfig.get_config_var("INSTSONAME") or ""
    )
    shared = [library] if library.is_file() else []
    return program, (program, *map(Path, libraries), *shared)


class CommandProxy:
    """The proxy of one command while it runs."""

    def __init__(self, check: NetworkCheck, control: socket.socket) -> None:
        self._check = check
        self._control = control
        control.setblocking(False)

    @property
    def refused(self) -> tuple[str, ...]:
        """The refused destinations, each with the reason."""
        return tuple(f"{where} ({reason})" for where, reason in self._check.refused.items())

    def close(self) -> None:
        """Close the control socket if the port was never received."""
        if self._control.fileno() >= 0:
            # A task that waits for the socket would otherwise wait for ever.
            anyio.notify_closing(self._control)
            self._control.close()

    async def serve(self, stop_clock: StopClock) -> None:
        """Answer the command's connections until cancelled."""
        listener = await self._listener()
        if listener is None:
            return
        slots = anyio.Semaphore(MAX_CONNECTIONS)
        async with listener, anyio.create_task_group() as connections:
            for _ in range(MAX_REQUESTS):
                await slots.acquire()
                connections.start_soon(self._serve, await _accept(listener), slots, stop_clock)

    async def _listener(self) -> SocketListener | None:
        """Receive the listening socket from the command's network.

        Return None if the command ended before.
        """
        try:
            await anyio.wait_readable(self._control)
            _, descriptors, _, _ = socket.recv_fds(self._control, 1, 1, socket.MSG_CMSG_CLOEXEC)
        except (anyio.ClosedResourceError, OSError):
            return None
        finally:
            self.close()
        found = next(filter(None, map(_listening_socket, descriptors)), None)
        if found is None:
            return None
        return await SocketListener.from_socket(found)

    async def _serve(
        self, client: SocketStream, slots: anyio.Semaphore, stop_clock: StopClock
    ) -> None:
        try:
            async with client:
                with suppress(*ENDED):
                    await self._answer(client, stop_clock)
        finally:
            slots.release()

    async def _answer(self, client: SocketStream, stop_clock: StopClock) -> None:
        """Serve one request per connection, because a second one could have another destination."""
        given = BufferedByteReceiveStream(client)
        try:
            request = ProxyRequest.read(await _read_head(given))
        except BadRequest as error:
            return await _say(client, error.status, str(error))
        where = f"{request.host}:{request.port}"
        try:
            server = await self._connect(
                await self._check.admit(request.host, request.port, stop_clock), request.port
            )
        except Refused as error:
            return await _say(client, "403 Forbidden", f"{where} is refused: {error}")
        except OSError as error:
            return await _say(client, "502 Bad Gateway", f"{where} cannot be reached: {error}")
        async with server:
            if request.length is None:
                await client.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                await server.send(request.head)
            await relay(given, client, server, request.length)
        return None

    async def _connect(self, addresses: Sequence[str], port: int) -> ByteStream:
        """Connect to the first checked address that answers."""
        failure = OSError("it has no address")
        for address in addresses:
            try:
                with anyio.fail_after(CONNECT_TIME):
                    return await self._check.outside.connect(address, port)
            except OSError as error:
                failure = error
        raise failure


async def _accept(listener: SocketListener) -> SocketStream:
    while True:
        try:
            return await listener.accept()
        except OSError:  # for example, too many open files: the command waits
            await anyio.sleep(0.1)


async def _read_head(given: BufferedByteReceiveStream) -> bytes:
    try:
        with anyio.fail_after(HEAD_TIME):
            return await given.receive_until(END_OF_HEAD, HEAD_LIMIT)
    except anyio.DelimiterNotFound:
        raise BadRequest(
            "the header of the request is too long", "431 Request Header Fields Too Large"
        ) from None
    except TimeoutError:
        raise BadRequest("the header of the request timed out", "408 Request Timeout") from None
    except anyio.IncompleteRead:
        raise anyio.EndOfStream from None


async def _say(client: SocketStream, status: str, sentence: str) -> None:
    """Send an answer of the proxy itself, then read what the client still sends.

    Otherwise, the client could fail while sending, before it reads the answer.
    """
    body = f"forge: {sentence}\n".encode(errors="backslashreplace")
    kind = "Content-Type: text/plain; charset=utf-8"
    head = f"HTTP/1.1 {status}\r\n{kind}\r\nContent-Length: {len(body)}\r\n"
    with anyio.move_on_after(DRAIN_SECONDS):
        await client.send(f"{head}Connection: close\r\n\r\n".encode() + body)
        await client.send_eof()
        while True:
            await client.receive(PIECE)


def _listening_socket(descriptor: int) -> socket.socket | None:
    """Return the listening socket, or None: another program may have sent something else."""
    try:
        found = socket.socket(fileno=descriptor)
    except OSError:
        os.close(descriptor)
        return None
    kind = found.family, found.type, found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if kind == (socket.AF_INET, socket.SOCK_STREAM, 1):
        return found
    found.close()
    return None


async def relay(
    given: ByteReceiveStream, client: ByteStream, server: ByteStream, length: int | None
) -> None:
    """Relay both directions; from the client, ``length`` bytes unless it is None."""
    async with anyio.create_task_group() as both:
        scope = both.cancel_scope

        def alive() -> None:
            scope.deadline = anyio.current_time() + IDLE_TIMEOUT

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
    source: ByteReceiveStream,
    target: ByteSendStream,
    alive: Callable[[], None],
    left: int | None = None,
) -> None:
    with suppress(anyio.EndOfStream):
        while left is None or left > 0:
            data = await source.receive(PIECE if left is None else min(left, PIECE))
            alive()
            await target.send(data)
            alive()
            if left is not None:
                left -= len(data)


async def _read_to_end(source: ByteReceiveStream) -> None:
    """Drop what follows a request, since it could be another request."""
    with suppress(anyio.EndOfStream):
        while True:
            await source.receive(PIECE)


async def _end(stream: ByteStream) -> None:
    with suppress(*ENDED):
        await stream.send_eof()


class BadRequest(Exception):
    """A request that is not relayed; ``status`` is the status of the answer."""

    def __init__(self, sentence: str, status: str = "400 Bad Request") -> None:
        super().__init__(sentence)
        self.status = status


class ProxyRequest(Struct, frozen=True):
    """The destination of a request, and the first bytes to send there."""

    host: str
    """The host as it was written."""
    port: int
    head: bytes = b""
    """The bytes to send first; none for a tunnel."""
    length: int | None = None
    """Bytes of the body that follow; None for a tunnel."""

    @classmethod
    def read(cls, head: bytes) -> ProxyRequest:
        """Parse the head of a request, without the empty line at its end."""
        first, *lines = head.decode("latin-1").split("\r\n")
        found = _REQUEST_LINE.fullmatch(first)
        if not found:
            raise BadRequest("not a request for a proxy")
        method, target, version = found.groups()
        headers = list(_headers(lines))
        if method == "CONNECT":
            return cls(*_split(target))
        url = _URL.fullmatch(target)
        if not url:
            raise BadRequest("the proxy accepts CONNECT, and http:// URLs without a user")
        host, port = _split(url[1], HTTP_PORT)
        path = url[2] or "/"
        if not path.startswith("/"):
            path = f"/{path}"  # the URL has a query without a path
        # The request line decides: a Host header could name another host than was checked.
        dropped = _dropped(headers)
        kept = [f"{name}: {value}" for name, value in headers if name.lower() not in dropped]
        sent = [f"{method} {path} {version}", f"Host: {url[1]}", *kept, "Connection: close", "", ""]
        return cls(host, port, "\r\n".join(sent).encode("latin-1"), _length(headers))


def _headers(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        found = _HEADER.fullmatch(line)
        if not found:
            raise BadRequest("the request has a malformed header")
        yield found[1], found[2]


def _split(target: str, default: int | None = None) -> tuple[str, int]:
    """Split a target into host and port; the host is not checked yet."""
    # Colons in brackets belong to an IPv6 address.
    closed = target.rfind("]") + 1
    name, colon, port = target[closed:].rpartition(":")
    if not colon and default is not None:
        return target, default
    try:
        return target[:closed] + name, read_port(port)
    except ValueError as error:
        raise BadRequest(f"the request has no valid host and port: {error}") from None


def _dropped(headers: list[tuple[str, str]]) -> frozenset[str]:
    """Return the headers for the proxy itself and those it is told to drop.

    Headers that frame the body are never dropped.
    """
    named: set[str] = set()
    for name, value in headers:
        if name.lower() == "connection":
            named.update(each.strip().lower() for each in value.split(","))
    return (_FOR_THE_PROXY | named) - {"content-length", "transfer-encoding"}


def _length(headers: list[tuple[str, str]]) -> int:
    """Return the length of the body.

    Ambiguous lengths are refused, because the server could see two requests instead of one.
    """
    names = [name.lower() for name, _ in headers]
    if names.count("host") > 1 or names.count("content-length") > 1:
        raise BadRequest("the request has a duplicate header")
    if "transfer-encoding" in names:
        raise BadRequest("the proxy needs the length of the body", "411 Length Required")
    length = next((value for name, value in headers if name.lower() == "content-length"), "0")
    if not _LENGTH.fullmatch(length):
        raise BadRequest("the length of the body is not a number")
    return int(length)
