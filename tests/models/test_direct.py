"""Requests without a client for everything: whatever a server may answer by HTTP/1.1 is read, or told in a sentence.

Covers forge_cli.models.direct.
"""

import socket
import threading
import zlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress

import anyio
import pytest

from forge_cli.models.direct import DirectClient
from forge_cli.models.failures import Endpoint, ProviderFailure
from forge_cli.models.http import HttpLine, Timeouts

OK = b"HTTP/1.1 200 OK\r\n"
PIECES = [b"3\r\nabc\r\n", b"2;more=1\r\nde\r\n", b"0\r\n\r\n"]


class Server:
    """Answers each request on each connection with the next of what it is to say; None closes."""

    def __init__(self, listening: socket.socket) -> None:
        self.listening = listening
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        self.answers: list[list[bytes | None]] = []
        self.connections = 0
        self.requests: list[bytes] = []
        self.hears_out = True
        """Does it read all of a request before it answers?"""
        self.left = threading.Event()
        """Set once a client needs no more of a server that does not."""
        self.ended = threading.Event()
        """Set once a connection has ended."""

    def serve(self) -> None:
        while True:
            try:
                line, _ = self.listening.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve_one, args=(line,), daemon=True).start()

    def _serve_one(self, line: socket.socket) -> None:
        self._answer(line)
        self.ended.set()

    def _answer(self, line: socket.socket) -> None:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with line, suppress(OSError):
            received = b""
            while piece := line.recv(65536):
                received += piece
                if self.hears_out and not received.endswith(b"{}"):
                    continue
                self.requests.append(received)
                received = b""
                for said in self.answers.pop(0):
                    if said is None:
                        return
                    line.sendall(said)
                if not self.hears_out:
                    self.left.wait(10)
                    return


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        found = Server(listening)
        threading.Thread(target=found.serve, daemon=True).start()
        yield found


def line_to(url: str, *, redirects: bool = False, read: float = 10) -> HttpLine:
    endpoint = Endpoint(address=url, address_variable="URL", key_variable="KEY", key_source=None)
    return HttpLine(url=url, endpoint=endpoint, timeouts=Timeouts(read=read), uses_proxies=redirects)


async def ask(line: HttpLine) -> tuple[int, bytes]:
    async with line.request("POST", body=b"{}") as answer:
        return answer.status_code, await answer.read()


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        with anyio.fail_after(20):
            await story()

    anyio.run(bounded)


BODIES: dict[str, list[bytes | None]] = {
    "length": [OK, b"content-length: 5\r\n\r\nab", b"cde"],
    "chunks": [OK + b"transfer-encoding: chunked\r\n\r\n", *PIECES],
    "until it closes": [OK + b"\r\nabc", b"de", None],
    "early hints": [b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK + b"content-length: 5\r\n\r\nabcde"],
    "gzip": [
        OK + b"content-encoding: gzip\r\nconnection: close\r\n\r\n",
        zlib.compress(b"abcde", wbits=31),
        None,
    ],
    "deflate": [OK + b"content-encoding: deflate\r\n\r\n" + zlib.compress(b"abcde"), None],
}


@pytest.mark.parametrize("name", BODIES)
def test_every_way_to_send_a_body_is_read(server: Server, name: str) -> None:
    server.answers = [BODIES[name], [OK + b"content-length: 2\r\n\r\nok"]]

    async def story() -> None:
        line = line_to(server.url)
        assert await ask(line) == (200, b"abcde")
        assert await ask(line) == (200, b"ok")
        await line.aclose()

    run(story)
    closes = None in BODIES[name]
    assert server.connections == (2 if closes else 1)


@pytest.mark.parametrize("name", BODIES)
def test_what_is_known_to_be_read_is_at_its_end(server: Server, name: str) -> None:
    server.answers = [BODIES[name]]

    async def story() -> None:
        line, heard = line_to(server.url), b""
        async with line.request("POST", body=b"{}") as answer:
            while piece := await answer.read_piece():
                assert not answer.is_read or heard + piece == b"abcde"
                heard += piece
            assert answer.is_read
        assert heard == b"abcde"
        await line.aclose()

    run(story)


def test_a_length_says_when_all_is_read(server: Server) -> None:
    server.answers = [[OK + b"content-length: 5\r\n\r\nab", b"cde"]]

    async def story() -> None:
        line, heard = line_to(server.url), b""
        async with line.request("POST", body=b"{}") as answer:
            while not answer.is_read:
                heard += await answer.read_piece()
        assert heard == b"abcde"
        await line.aclose()

    run(story)


BROKEN: dict[str, list[bytes | None]] = {
    "nothing": [None],
    "half a head": [OK, None],
    "half a body": [OK + b"content-length: 5\r\n\r\nab", None],
    "half a chunk": [OK + b"transfer-encoding: chunked\r\n\r\n" + PIECES[0], None],
    "not HTTP": [b"SSH-2.0-OpenSSH_9.9\r\n\r\n", None],
    "a head without end": [OK + b"x: " + b"y" * 200_000, None],
    "not gzip": [OK + b"content-encoding: gzip\r\ncontent-length: 5\r\n\r\nabcde"],
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_answer_that_is_broken_is_cut_off(server: Server, name: str) -> None:
    server.answers = [BROKEN[name], [OK + b"content-length: 2\r\n\r\nok"]]

    async def story() -> None:
        line = line_to(server.url)
        with pytest.raises(ProviderFailure, match="broke off before its answer was complete"):
            await ask(line)
        assert await ask(line) == (200, b"ok")
        await line.aclose()

    run(story)


def test_a_server_that_says_nothing_is_silent(server: Server) -> None:
    server.answers = [[]]

    async def story() -> None:
        line = line_to(server.url, read=0.2)
        with pytest.raises(ProviderFailure, match=r"said nothing for 0\.2 s"):
            await ask(line)
        await line.aclose()

    run(story)


def test_an_answer_counts_before_all_of_the_request_is_heard(server: Server) -> None:
    server.hears_out = False
    server.answers = [[b"HTTP/1.1 413 Too Long\r\ncontent-length: 2\r\n\r\nno"], [OK + b"content-length: 2\r\n\r\nok"]]

    async def story() -> None:
        line = line_to(server.url)
        async with line.request("POST", body=b"x" * 2**25) as answer:
            assert (answer.status_code, await answer.read()) == (413, b"no")
        server.left.set()
        assert await ask(line) == (200, b"ok")
        await line.aclose()

    run(story)
    assert server.connections == 2


@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_a_long_answer_waits_for_whoever_reads_it(server: Server, framing: str) -> None:
    size, parts = 2**20, 8
    chunk = b"%x\r\n%b\r\n" % (size, b"x" * size)
    length = [OK + b"content-length: %d\r\n\r\n" % (parts * size), *[b"x" * size] * parts]
    chunks = [OK + b"transfer-encoding: chunked\r\n\r\n", *[chunk] * parts, b"0\r\n\r\n"]
    server.answers = [length if framing == "length" else chunks, [OK + b"content-length: 2\r\n\r\nok"]]

    async def story() -> None:
        line, heard = line_to(server.url), 0
        async with line.request("POST", body=b"{}") as answer:
            while piece := await answer.read_piece():
                heard += len(piece)
                for _ in range(3):  # the loop reads what has arrived
                    await anyio.lowlevel.checkpoint()
        assert heard == parts * size
        assert await ask(line) == (200, b"ok")
        await line.aclose()

    run(story)
    assert server.connections == 1


def test_a_farewell_is_not_taken_for_an_answer(server: Server) -> None:
    late = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n"
    server.answers = [[OK + b"content-length: 2\r\n\r\nok", late, None], [OK + b"content-length: 3\r\n\r\nnew"]]

    async def story() -> None:
        line = line_to(server.url)
        assert await ask(line) == (200, b"ok")
        await anyio.to_thread.run_sync(server.ended.wait)
        for _ in range(5):  # the loop reads what has arrived
            await anyio.lowlevel.checkpoint()
        assert await ask(line) == (200, b"new")
        await line.aclose()

    run(story)
    assert server.connections == 2


def test_two_requests_at_once_have_a_connection_each(server: Server) -> None:
    server.answers = [[OK + b"content-length: 2\r\n\r\nok"]] * 2

    async def story() -> None:
        line = line_to(server.url)
        async with line.request("POST", body=b"{}") as one, line.request("POST", body=b"{}") as other:
            assert (await one.read(), await other.read()) == (b"ok", b"ok")
        await line.aclose()

    run(story)
    assert server.connections == 2


def test_an_answer_that_is_left_early_ends_its_connection(server: Server) -> None:
    server.answers = [[OK + b"content-length: 5\r\n\r\nab"], [OK + b"content-length: 2\r\n\r\nok"]]

    async def story() -> None:
        line = line_to(server.url)
        async with line.request("POST", body=b"{}") as answer:
            assert answer.is_success
        assert await ask(line) == (200, b"ok")
        await line.aclose()

    run(story)
    assert server.connections == 2


def test_clients_of_one_server_share_its_connections_until_the_last_one_is_closed(server: Server) -> None:
    server.answers = [[OK + b"content-length: 2\r\n\r\nok"] for _ in range(4)]

    async def story() -> None:
        first, second, other = (line_to(url) for url in (server.url, server.url, f"{server.url}/other"))
        assert await ask(first) == await ask(second) == await ask(other) == (200, b"ok")
        await first.aclose()
        second.connect_ahead()
        assert await ask(second) == (200, b"ok")
        await second.aclose()
        assert not server.ended.is_set()
        await other.aclose()
        await anyio.to_thread.run_sync(server.ended.wait, 10)

    run(story)
    assert (server.connections, server.ended.is_set()) == (1, True)


def test_a_redirect_is_followed_only_where_that_is_wanted(server: Server) -> None:
    there = f"HTTP/1.1 307 There\r\nlocation: {server.url}/there\r\ncontent-length: 0\r\n\r\n".encode()
    server.answers = [[there], [there], [there], [OK + b"content-length: 2\r\n\r\nok"]]

    async def story() -> None:
        plain, follows = line_to(server.url), line_to(server.url, redirects=True)
        assert await ask(plain) == (307, b"")
        assert await ask(follows) == (200, b"ok")
        await plain.aclose()
        await follows.aclose()

    run(story)
    assert server.requests[-1].startswith(b"POST /v1/there HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("http://127.0.0.1:8080/v1/messages", True),
        ("https://api.example.org", True),
        ("http://[::1]:80/v1", True),
        ("http://name:password@example.org/v1", False),
        ("http://example.org/v1?key=1", False),
        ("http://bücher.example/v1", False),
        ("http://example.org/a b", False),
        ("ftp://example.org/", False),
    ],
)
def test_an_unusual_address_is_left_to_the_client(url: str, plain: bool) -> None:
    assert DirectClient.takes(url) is plain
