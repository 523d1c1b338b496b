"""Clients without the secret delay nobody: heads have a timeout, and unknown connections are dropped first.

Covers forge_cli.ui.server.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream

from forge_cli.apps.serve.transports import HttpListener, TokenGate
from forge_cli.apps.web.access import AccessGate, PageAccess
from forge_cli.process.signals import in_loop
from forge_cli.ui import server
from forge_cli.ui.http import open_socket

WAIT = 60.0
HELD = {
    "nothing": "",
    "half a line": "GET / HT",
    "a line": "GET / HTTP/1.1\r\n",
    "half a header": "GET / HTTP/1.1\r\nHost: {host}\r\nX-Slow: ",
    "all but the end": "GET / HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {secret}\r\n",
    "an older protocol": "GET / HTTP/1.0\r\nX-A: b\r\n",
    "half a form": "POST /api/sessions HTTP/1.1\r\nHost: {host}\r\nContent-Le",
}
"""What a sender may have said who then says no more, before a request is complete."""
REFUSED = {
    "an empty line": "\r\n",
    "no secret": "GET /api/state HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "a wrong secret": "GET /api/state HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer x\r\n\r\n",
    "a cookie": "GET /api/state HTTP/1.1\r\nHost: {host}\r\nCookie: forge-{port}={secret}\r\n\r\n",
    "another name": "GET / HTTP/1.1\r\nHost: evil.example\r\nAuthorization: Bearer {secret}\r\n\r\n",
    "a body that is awaited": "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n",
    "a body that never comes": "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9999\r\n\r\nabc",
    "chunks that never end": "POST / HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
    "one and a half": "GET /api/ HTTP/1.1\r\nHost: {host}\r\n\r\nGET / HTTP/1.1\r\nHo",
    "two": "GET /api/ HTTP/1.1\r\nHost: {host}\r\n\r\nGET /api/ HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "another method": "OPTIONS / HTTP/1.1\r\nHost: {host}\r\n\r\n",
}
"""Requests that are answered, whose sender then stays."""
OWN = "GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {secret}\r\n\r\n"
App = Callable[[Any, Any, Any], Awaitable[None]]


async def answer(scope: Any, receive: Any, send: Any) -> None:
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
    )
    await send({"type": "http.response.body", "body": b"ok"})


@dataclass
class Host:
    """A server, and all that its owner knows."""

    port: int
    secret: str
    path: str = "/api/state"

    async def connect(self, said: str = "") -> SocketStream:
        stream = await anyio.connect_tcp("127.0.0.1", self.port)
        if said:
            await self.say(stream, said)
        return stream

    async def say(self, stream: SocketStream, said: str) -> None:
        fields = {
            "host": f"127.0.0.1:{self.port}",
            "port": self.port,
            "secret": self.secret,
            "path": self.path,
        }
        await stream.send(said.format(**fields).encode())

    async def ask(self, stream: SocketStream) -> str:
        """The status line for the owner."""
        await self.say(stream, OWN)
        return (await stream.receive()).decode().partition("\r\n")[0]


@asynccontextmanager
async def page(app: App = answer) -> AsyncIterator[Host]:
    with open_socket("127.0.0.1", 0) as listener:
        access = PageAccess(listener.getsockname()[1])
        async with running(AccessGate(app, access), listener):
            yield Host(access.port, access.secret)


@asynccontextmanager
async def tools(app: App = answer) -> AsyncIterator[Host]:
    listener = HttpListener(0)
    with listener.socket:
        async with running(TokenGate(app, listener), listener.socket):
            yield Host(listener.port, listener.token, "/mcp")


@asynccontextmanager
async def running(gate: Any, listener: Any) -> AsyncIterator[None]:
    started = server.new_server(gate)
    with anyio.fail_after(3 * WAIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(started.serve, [listener])
            yield
            started.should_exit = True


async def ended(stream: SocketStream) -> str:
    """All that comes until the other side ends the connection."""
    told = b""
    with anyio.fail_after(WAIT):
        while True:
            try:
                told += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return told.decode()


def play(
    story: Callable[[Host], Awaitable[None]], serving: Callable[..., Any] = page, app: App = answer
) -> None:
    async def work() -> None:
        async with serving(app) as host:
            await story(host)

    in_loop(work)


def give_time(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(server, "HEAD_TIMEOUT", seconds)
    monkeypatch.setattr(server, "IDLE_TIMEOUT", seconds)


def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    give_time(monkeypatch, 0.2)


@pytest.mark.parametrize("serving", [page, tools])
def test_stalled_client_is_disconnected(serving: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    quickly(monkeypatch)

    async def story(host: Host) -> None:
        told: dict[str, str] = {}

        async def wait(name: str, said: str) -> None:
            told[name] = await ended(await host.connect(said))

        async with anyio.create_task_group() as tasks:
            for name, said in {**HELD, **REFUSED}.items():
                tasks.start_soon(wait, name, said)
        assert {name: text for name, text in told.items() if name in HELD and text} == {}
        assert {
            name: told[name] for name in REFUSED if not told[name].startswith("HTTP/1.1 4")
        } == {}

    play(story, serving)


@pytest.mark.parametrize("said", ["", OWN])
def test_slow_head_has_no_extra_time(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quickly(monkeypatch)

    async def story(host: Host) -> None:
        stream = await host.connect(said)

        async def trickle() -> None:
            try:
                while True:
                    await host.say(stream, "G")
                    await anyio.sleep(0.05)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(trickle)
            told = await ended(stream)
            assert told.partition("\r\n")[0] == ("HTTP/1.1 200 OK" if said else "")

    play(story)


def test_answer_may_take_longer_than_a_head(monkeypatch: pytest.MonkeyPatch) -> None:
    quickly(monkeypatch)
    go_on = anyio.Event()

    async def answer_later(scope: Any, receive: Any, send: Any) -> None:
        await go_on.wait()
        await answer(scope, receive, send)

    async def story(host: Host) -> None:
        stream = await host.connect(OWN)
        for _ in range(3):
            await ended(await host.connect())
        go_on.set()
        assert (await ended(stream)).startswith("HTTP/1.1 200")

    play(story, app=answer_later)


@pytest.mark.parametrize("serving", [page, tools])
def test_unauthenticated_clients_are_dropped_before_the_owner(
    serving: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 3)
    monkeypatch.setattr(server, "MAX_STRANGERS", 20)
    give_time(monkeypatch, WAIT)  # only others end a connection, however slow the machine is

    async def story(host: Host) -> None:
        failures = []
        for name, said in {**HELD, **REFUSED}.items():
            async with AsyncExitStack() as held:
                first = await held.enter_async_context(await host.connect())
                answers = [await host.ask(first)]
                strangers = [
                    await held.enter_async_context(await host.connect(said)) for _ in range(45)
                ]
                answers.append(await host.ask(await held.enter_async_context(await host.connect())))
                answers.append(await host.ask(first))
                told = "".join([await ended(stream) for stream in strangers[:20]])
                if answers != ["HTTP/1.1 200 OK"] * 3 or " 200 " in told:
                    failures.append((name, answers))
        assert failures == []

    play(story, serving)


def test_authenticated_connections_are_limited() -> None:
    async def story(host: Host) -> None:
        async with AsyncExitStack() as held:
            answers = []
            for _ in range(5):
                answers.append(await host.ask(await held.enter_async_context(await host.connect())))
            assert [line.split()[1] for line in answers] == ["200", "200", "200", "200", "503"]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "MAX_CONNECTIONS", 4)
        patch.setattr(server, "MAX_STRANGERS", 1)
        play(story)
