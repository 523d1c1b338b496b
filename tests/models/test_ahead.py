"""A connection is open before the first request: nothing is sent on it, one request uses it, and a failure is silent.

Covers forge_cli.models.connection and forge_cli.models.direct.
"""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import anyio
import pytest

from forge_cli.core.errors import ModelError
from forge_cli.models import connection
from forge_cli.models.failures import Endpoint, ProviderFailure
from forge_cli.models.http import HttpLine, Timeouts

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Listener:
    """Counts connections and what came over them, and answers each request."""

    def __init__(self, server: socket.socket) -> None:
        self.server = server
        self.url = f"http://127.0.0.1:{server.getsockname()[1]}"
        self.received: list[bytearray] = []
        self.ended = threading.Semaphore(0)

    def serve(self) -> None:
        while True:
            try:
                line, _ = self.server.accept()
            except OSError:
                return
            self.received.append(bytearray())
            threading.Thread(target=self._answer, args=(line, self.received[-1]), daemon=True).start()

    def _answer(self, line: socket.socket, received: bytearray) -> None:
        with line, suppress(ConnectionError):
            while piece := line.recv(65536):
                received += piece
                if piece.endswith(b"{}"):
                    line.sendall(ANSWER)
        self.ended.release()


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = Listener(server)
        threading.Thread(target=found.serve, daemon=True).start()
        yield found


def line_to(url: str, **options: bool) -> HttpLine:
    endpoint = Endpoint(address=url, address_variable="URL", key_variable="KEY", key_source=None)
    return HttpLine(url=url, endpoint=endpoint, timeouts=Timeouts(read=10), **options)


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await anyio.lowlevel.checkpoint()


async def body_of(line: HttpLine) -> bytes:
    async with line.request("POST", body=b"{}") as response:
        return await response.read()


def run(story: Callable[[], object]) -> None:
    async def bounded() -> None:
        with anyio.fail_after(20):
            await story()  # type: ignore[misc]

    anyio.run(bounded)


def test_the_first_request_finds_it_open(listener: Listener) -> None:
    async def story() -> None:
        line = line_to(listener.url, uses_proxies=True)
        line.connect_ahead()
        await until(lambda: listener.received)
        assert listener.received == [b""]
        assert [await body_of(line), await body_of(line)] == [b"ok", b"ok"]
        assert len(listener.received) == 1
        await line.aclose()

    run(story)


def test_a_request_may_come_while_it_is_being_opened(listener: Listener) -> None:
    async def story() -> None:
        line = line_to(listener.url)
        line.connect_ahead()
        assert await body_of(line) == b"ok"
        assert len(listener.received) == 1
        await line.aclose()

    run(story)


def test_one_that_nobody_uses_is_closed(listener: Listener) -> None:
    async def story() -> None:
        line = line_to(listener.url)
        line.connect_ahead()
        await until(lambda: listener.received)
        await line.aclose()
        await until(lambda: listener.ended.acquire(blocking=False))
        assert listener.received == [b""]

    run(story)


def test_one_that_is_old_is_not_used(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "FRESH", 0.0)

    async def story() -> None:
        line = line_to(listener.url)
        line.connect_ahead()
        await until(lambda: listener.received)
        assert await body_of(line) == b"ok"
        assert listener.received[0] == b""
        assert len(listener.received) == 2
        await line.aclose()

    run(story)


@pytest.mark.parametrize("waits", [True, False])
def test_a_failure_is_that_of_the_request(waits: bool) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"

        async def story() -> None:
            line = line_to(url)
            line.connect_ahead()
            if waits:
                await anyio.wait_all_tasks_blocked()
            with pytest.raises(ProviderFailure, match="cannot be reached: Connection refused"):
                await body_of(line)
            await line.aclose()

        run(story)


def test_a_proxy_is_left_alone(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", listener.url)

    async def story() -> None:
        line = line_to("http://api.example.org", uses_proxies=True)
        line.connect_ahead()
        assert await body_of(line) == b"ok"
        assert listener.received[0].startswith(b"POST http://api.example.org/ ")
        await line.aclose()

    run(story)


def test_settings_that_are_nonsense_are_told_by_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/at/all.pem")
    monkeypatch.setattr("forge_cli.models.http.certificates", _unreadable)

    async def story() -> None:
        line = line_to("https://127.0.0.1:9")
        line.connect_ahead()
        with pytest.raises(ModelError, match="no connection can be made ready"):
            await body_of(line)
        await line.aclose()

    run(story)


def _unreadable() -> ssl.SSLContext:
    return ssl.create_default_context(cafile="/nowhere/at/all.pem")
