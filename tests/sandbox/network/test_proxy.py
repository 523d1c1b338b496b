"""The proxy, spoken to directly: one request a connection, tunnels, bounds, and every trick to get two out of one.

Covers forge_cli.sandbox.network.proxy.
"""

import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream, TaskGroup

from forge_cli.sandbox.network import proxy as proxy_module
from forge_cli.sandbox.network.access import NetworkCheck
from forge_cli.sandbox.network.proxy import CommandProxy
from forge_cli.sandbox.network.rules import NetworkRules
from tests.support.children import descriptors
from tests.support.rows import each_row

from .away import PUBLIC, Away, Person

pytestmark = pytest.mark.anyio

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


@contextmanager
def clock() -> Iterator[None]:
    yield


@dataclass
class World:
    """A proxy with its port, a server that answers once and stores its input, and a person to ask."""

    port: int
    tasks: TaskGroup
    person: Person = field(default_factory=Person)
    away: Away = field(default_factory=Away)
    got: list[bytes] = field(default_factory=list)
    patient: bool = False
    """Does the server wait for the end of what it is sent?"""

    async def connect(self) -> SocketStream:
        return await anyio.connect_tcp("127.0.0.1", self.port)

    async def say(self, data: bytes) -> bytes:
        """Everything that comes back until the proxy closes the connection."""
        with anyio.fail_after(60):
            async with await self.connect() as client:
                await client.send(data)
                return await everything(client)

    async def serve(self, client: SocketStream) -> None:
        async with client:
            try:
                self.got.append(await client.receive())
                await client.send(ANSWER)
                if self.patient:
                    self.got.append(await everything(client))
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return


async def everything(stream: SocketStream) -> bytes:
    data = b""
    try:
        while True:
            data += await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return data


@asynccontextmanager
async def opened(*rules: str) -> AsyncIterator[World]:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    ours, theirs = socket.socketpair()
    with listener, theirs:
        socket.send_fds(theirs, [b"\0"], [listener.fileno()])
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as server,
        anyio.create_task_group() as tasks,
    ):
        world = World(port, tasks)
        world.away.port = server.extra(SocketAttribute.local_port)
        check = NetworkCheck(
            "curl", NetworkRules.read(rules or ["*.example.org"]), world.person, world.away
        )
        tasks.start_soon(server.serve, world.serve)
        tasks.start_soon(CommandProxy(check, ours).serve, clock)
        yield world
        tasks.cancel_scope.cancel()


async def test_request_goes_to_the_checked_address_with_the_host_of_its_first_line() -> None:
    async with opened() as world:
        assert (
            await world.say(
                b"GET http://api.example.org/x HTTP/1.1\r\nHost: evil.example.com\r\n\r\n"
            )
            == ANSWER
        )
    assert world.got[0] == b"GET /x HTTP/1.1\r\nHost: api.example.org\r\nConnection: close\r\n\r\n"
    assert world.away.connected == [f"{PUBLIC} 80"]
    assert world.person.heard == ["api.example.org:80 yes by rule"]


async def test_second_request_on_a_connection_is_not_passed_on() -> None:
    """The server answers before it has read the body, and would read a following request."""
    first = b"POST http://api.example.org/x HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody"
    second = b"GET http://other.example.com/ HTTP/1.1\r\nHost: other.example.com\r\n\r\n"
    async with opened() as world:
        world.patient = True
        with anyio.fail_after(60):
            async with await world.connect() as client:
                await client.send(first + second)
                assert await client.receive() == ANSWER
                await client.send(second)
                await client.send_eof()
                assert await everything(client) == b""
    head, _, body = b"".join(world.got).partition(b"\r\n\r\n")
    assert (head.count(b"Host: api.example.org"), body) == (1, b"body")
    assert world.person.heard == ["api.example.org:80 yes by rule"]


async def test_tunnel_passes_everything_on_both_ways() -> None:
    async with opened() as world:
        world.patient = True
        with anyio.fail_after(60):
            async with await world.connect() as client:
                await client.send(b"CONNECT api.example.org:443 HTTP/1.1\r\n\r\nearly")
                got = b""
                while not got.endswith(ANSWER):
                    got += await client.receive()
                await client.send(b" and late")
                await client.send_eof()
                assert await everything(client) == b""
    assert got == b"HTTP/1.1 200 Connection established\r\n\r\n" + ANSWER
    assert b"".join(world.got) == b"early and late"
    assert world.away.connected == [f"{PUBLIC} 443"]


@each_row(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"400 Bad Request"),
        (b"GET http://me@api.example.org/ HTTP/1.1\r\n\r\n", b"400 Bad Request"),
        (b"CONNECT api.example.org:0 HTTP/1.1\r\n\r\n", b"400 Bad Request"),
        (b"GET http://api.example.org/ HTTP/1.1\nHost: b\r\n\r\n", b"400 Bad Request"),
        (
            b"POST http://api.example.org/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"411 Length Required",
        ),
        (
            b"GET http://api.example.org/ HTTP/1.1\r\nX: " + b"x" * 70_000,
            b"431 Request Header Fields Too Large",
        ),
        (b"GET http://missing.example.org/ HTTP/1.1\r\n\r\n", b"502 Bad Gateway"),
    ],
)
async def test_invalid_proxy_requests_get_an_answer(request_: bytes, status: bytes) -> None:
    async with opened() as world:
        assert (await world.say(request_)).startswith(b"HTTP/1.1 " + status)
    assert world.away.connected == world.got == []


async def test_server_that_does_not_answer_is_a_bad_gateway() -> None:
    async with opened() as world:
        world.away.port = 0
        answer = await world.say(b"GET http://api.example.org/ HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 502")
    assert b"cannot be reached: nobody listens" in answer


async def test_head_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_module, "HEAD_TIME", 0.05)
    async with opened() as world:
        assert (await world.say(b"GET http://api.example.org/ HTTP/1.1\r\n")).startswith(
            b"HTTP/1.1 408"
        )


async def test_connection_that_nothing_passes_through_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proxy_module, "IDLE_TIMEOUT", 0.05)
    async with opened() as world:
        answer = await world.say(b"CONNECT api.example.org:443 HTTP/1.1\r\n\r\n")
    assert answer == b"HTTP/1.1 200 Connection established\r\n\r\n"


async def test_flood_is_served_so_many_at_a_time_and_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proxy_module, "MAX_CONNECTIONS", 3)
    answers: list[bytes] = []
    async with opened() as world:

        async def one() -> None:
            answers.append(await world.say(b"GET http://api.example.org/ HTTP/1.1\r\n\r\n"))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as clients:
                for _ in range(60):
                    clients.start_soon(one)
    assert answers == [ANSWER] * 60


def send(kind: str, through: socket.socket) -> None:
    """Send data to an address without a listener."""
    unix, udp, tcp = (
        socket.socket(socket.AF_UNIX),
        socket.socket(type=socket.SOCK_DGRAM),
        socket.socket(),
    )
    with open(os.devnull) as file, unix, udp, tcp:
        sent = {"file": file, "unix": unix, "udp": udp, "not listening": tcp}
        if kind in sent:
            socket.send_fds(through, [b"\0"], [sent[kind].fileno()])


@pytest.mark.parametrize("kind", ["file", "unix", "udp", "not listening", "nothing"])
async def test_unexpected_descriptors_are_closed(kind: str) -> None:
    before = descriptors()
    ours, theirs = socket.socketpair()
    with theirs:
        send(kind, theirs)
    check = NetworkCheck("curl", NetworkRules(), Person(), Away())
    with anyio.fail_after(60):
        await CommandProxy(check, ours).serve(clock)
    assert len(descriptors()) == len(before)


async def test_command_that_ends_before_its_port_is_open_leaves_nothing() -> None:
    ours, theirs = socket.socketpair()
    proxy = CommandProxy(NetworkCheck("curl", NetworkRules(), Person(), Away()), ours)
    with theirs, anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(proxy.serve, clock)
            await anyio.wait_all_tasks_blocked()
            proxy.close()
            proxy.close()
    assert ours.fileno() == -1
