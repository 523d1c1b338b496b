"""Every provider with one client: each HTTP/1.1 response is read or reported.

Covers forge_cli.models.http.
"""

import socket
import zlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager

import anyio
import pytest

from forge_cli.core.calls import ToolCall
from forge_cli.core.errors import ModelError
from forge_cli.core.messages import Message, ModelRequest, TextDelta
from forge_cli.models.failures import Endpoint, ProviderFailure
from forge_cli.models.http import HttpClient, Timeouts
from tests.models.anthropic.server import say, tool_use
from tests.models.openai.server import calls
from tests.support.providers import KEY, MAKERS
from tests.support.wire import FINE, HOLD, OK, Piece, Wire, chunked, cut, wire

TEXT, ARGS = "Grüße, 世界 🌍!", {"a": 1, "b": "ü"}
_ANTHROPIC = b"".join(say(TEXT, tool_use("toolu_1", "add", **ARGS)).encoded())
_OPENAI = b"".join(calls(("toolu_1", "add", ARGS), text=TEXT).pieces)
STREAMS = {"anthropic": _ANTHROPIC, "sdk": _ANTHROPIC, "openai": _OPENAI}
STREAM = b"content-type: text/event-stream\r\n"


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def heard(provider: str, url: str, turns: int = 1, seconds: float = 15) -> str:
    """The text and calls of a model in some turns, or the message of its failure."""

    async def story() -> str:
        model, said = MAKERS[provider](url, [], 10), ""
        try:
            with anyio.fail_after(seconds):
                for _ in range(turns):
                    async for delta in model.stream(ModelRequest("", [Message("user", "Hi")], ())):
                        if isinstance(delta, TextDelta):
                            said += delta.text
                        if isinstance(delta, ToolCall):
                            said += f" {delta.name}({delta.args})"
            return said
        except (ModelError, TimeoutError) as error:
            return f"{type(error).__name__}: {error}"
        finally:
            await model.aclose()

    return anyio.run(story)


WHOLE = f"{TEXT} add({ARGS})"


def misheard(answer: Callable[[bytes], list[Piece]], turns: int = 1) -> list[tuple[str, str]]:
    """The providers that do not read an answer as they should; ``answer`` makes one of a stream."""
    failures = []
    for provider, stream in STREAMS.items():
        with wire(answer(stream)) as server:
            if (found := heard(provider, server.url, turns)) != WHOLE * turns:
                failures.append((provider, found))
    return failures


def test_chunks_of_any_size_and_line_end_are_read() -> None:
    failures = {}
    for size in (1, 2, 3, 7, 4096):
        for ending in (b"\n", b"\r\n"):
            failures[size, ending] = misheard(
                lambda stream, size=size, ending=ending: chunked(
                    *cut(stream.replace(b"\n", ending), size)
                )
            )
    assert {case: found for case, found in failures.items() if found} == {}


def test_events_without_data_are_skipped() -> None:
    noise = [
        b"data:\n\n",
        b"data: \n\n",
        b"data\n\n",
        b"data: null\n\n",
        b"event: message_delta\ndata: null\n\n",
    ]
    noise += [
        b"event: message_delta\ndata:\n\n",
        b": keep-alive\n\n",
        b"event: x\n\n",
        b"id: 1\nretry: 2\n\n",
    ]
    failures = {
        each: misheard(
            lambda stream, each=each: chunked(each + stream.replace(b"\n\n", b"\n\n" + each))
        )
        for each in noise
    }
    assert {each: found for each, found in failures.items() if found} == {}


def test_compressed_answer_is_read_but_not_requested() -> None:
    def gzip(data: bytes) -> bytes:
        return zlib.compress(data, wbits=31)

    for coding, pack in ((b"gzip", gzip), (b"GZIP", gzip), (b"deflate", zlib.compress)):
        head = STREAM + b"content-encoding: %b\r\n" % coding
        for size in (1, 4096):
            assert (
                misheard(
                    lambda stream, size=size, head=head, pack=pack: chunked(
                        *cut(pack(stream), size), head=head
                    )
                )
                == []
            )
    for provider in ("anthropic", "openai"):
        with wire(chunked(STREAMS[provider])) as server:
            heard(provider, server.url)
        assert b"accept-encoding: identity\r\n" in server.requests[0].lower()


@pytest.mark.long
def test_complete_answer_does_not_wait_for_the_connection_to_close() -> None:
    assert misheard(lambda stream: [*chunked(stream)[:-1], HOLD], turns=2) == []
    assert misheard(lambda stream: [OK + STREAM + b"\r\n" + stream, HOLD], turns=2) == []


def test_connection_is_reused_after_a_complete_answer() -> None:
    for provider, stream in STREAMS.items():
        with wire(chunked(*cut(stream, 100))) as server:
            assert heard(provider, server.url, turns=3) == WHOLE * 3
        assert (provider, server.connections) == (provider, 1)


def test_valid_stream_is_read_with_any_content_type() -> None:
    """Gateways drop the type, or name another one."""
    heads = [
        b"",
        *(
            b"content-type: %b\r\n" % name
            for name in (b"application/octet-stream", b"text/plain", b"x", b"")
        ),
    ]
    for head in heads:
        assert misheard(lambda stream, head=head: chunked(stream, head=head)) == []
    for provider in ("anthropic", "sdk"):
        for name in (b"application/json", b"text/html", b"image/png", b"text/plain", b"x"):
            with wire(chunked(b"\n", head=b"content-type: %b\r\n" % name)) as server:
                assert f"an invalid answer: {name.decode()} instead of a stream" in heard(
                    provider, server.url
                )


def test_content_types_are_case_insensitive() -> None:
    for name in (
        b"Text/Event-Stream",
        b"TEXT/EVENT-STREAM;Charset=UTF-8",
        b"text/event-stream ; charset=utf-8",
    ):
        assert (
            misheard(lambda stream, name=name: chunked(stream, head=b"content-type: %b\r\n" % name))
            == []
        )
    whole = b'{"choices": [{"message": {"content": "Hello."}, "finish_reason": "stop"}]}'
    with wire(chunked(whole, head=b"content-type: Application/JSON\r\n")) as server:
        assert heard("openai", server.url) == "Hello."
    for provider in MAKERS:
        with wire(chunked(b"<p>Log in</p>", head=b"content-type: Text/HTML\r\n")) as server:
            assert "sent an invalid answer" in heard(provider, server.url)


def redirect(status: int, target: str) -> list[Piece]:
    return [f"HTTP/1.1 {status} There\r\nlocation: {target}\r\ncontent-length: 0\r\n\r\n".encode()]


@pytest.mark.long
def test_redirect_never_leaves_the_origin() -> None:
    failures = []
    for provider in MAKERS:
        with wire(FINE) as elsewhere, wire([]) as server:
            port, own = elsewhere.url.rpartition(":")[2], server.url.rpartition(":")[2]
            targets = (
                *(
                    f"{elsewhere.url}/v1/messages",
                    f"//127.0.0.1:{port}/x",
                    f"http://localhost:{own}/x",
                ),
                *(
                    f"https://127.0.0.1:{own}/x",
                    f"http://x@127.0.0.1:{port}",
                    f"http://127.0.0.1:{own}@127.0.0.1:{port}/",
                ),
            )
            for status in (301, 302, 303, 307, 308):
                for target in targets:
                    server.answers = [redirect(status, target)]
                    said = heard(provider, server.url)
                    if (
                        not said.startswith("ModelError")
                        or "redirects to " not in said
                        or KEY in said
                    ):
                        failures.append((provider, status, target, said))
            server.answers = [redirect(307, "/further"), redirect(307, f"{elsewhere.url}/x")]
            failures += (
                [] if "redirects to " in heard(provider, server.url) else [(provider, "further")]
            )
            assert (elsewhere.connections, elsewhere.requests) == (0, [])
    assert failures == []


def test_redirect_within_the_origin_keeps_the_body_or_is_refused() -> None:
    for provider, stream in STREAMS.items():
        for status in (307, 308):
            with wire(redirect(status, "/there?x=1"), chunked(stream)) as server:
                assert heard(provider, server.url) == WHOLE
            first, second = (request.partition(b"\r\n\r\n")[2] for request in server.requests)
            assert first == second
            assert server.requests[1].startswith(b"POST /there?x=1 HTTP/1.1\r\n")
        for status, target in (
            (303, "/there"),
            (301, "/there"),
            (307, "/v1"),
            (307, "nowhere://"),
            (307, "http://["),
        ):
            with wire(redirect(status, target)) as server:
                assert " redirects" in heard(provider, server.url), (provider, status, target)


def endpoint_at(url: str) -> Endpoint:
    return Endpoint(address=url, address_variable="URL", key_variable="KEY", key_source=None)


def client_at(url: str, *, trust_env: bool = False, **timeouts: float) -> HttpClient:
    return HttpClient(
        url=url, endpoint=endpoint_at(url), timeouts=Timeouts(**timeouts), trust_env=trust_env
    )


async def ask(client: HttpClient) -> tuple[int, str]:
    async with client.request("POST", body=b"{}") as answer:
        return answer.status_code, await answer.read_beginning()


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        with anyio.fail_after(60):
            await story()

    anyio.run(bounded)


@contextmanager
def deaf() -> Iterator[str]:
    """An address at which no connection comes about: as many wait there as may."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_timeout_names_the_address_and_a_remedy() -> None:
    async def story() -> None:
        with deaf() as url, wire([HOLD]) as silent:
            told = []
            for client in (client_at(url, connect=0.2), client_at(silent.url, read=0.2)):
                with pytest.raises(ProviderFailure) as caught:
                    await ask(client)
                told.append(f"{caught.value.problem}; {caught.value.hint}")
                await client.aclose()
        assert told == [
            f"{url} cannot be reached: no connection within 0.2 s; is the server running? URL says where it is",
            f"{silent.url} did not respond for 0.2 s; models.NAME.timeout in the config gives a slow server more time",
        ]

    run(story)


def test_cookies_are_not_kept() -> None:
    async def story(server: Wire) -> None:
        client = client_at(server.url)
        assert await ask(client) == await ask(client) == (200, "ok")
        await client.aclose()

    with wire([OK + b"set-cookie: who=me\r\ncontent-length: 2\r\n\r\nok"]) as server:
        run(lambda: story(server))
    assert [b"cookie" in request.lower() for request in server.requests] == [False, False]


def test_proxies_of_the_environment_are_optional(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(server: Wire) -> None:
        client = client_at("http://api.example.org/v1", trust_env=True)
        assert await ask(client) == (200, "ok")
        await client.aclose()

    with wire(FINE) as proxy, wire(chunked(_OPENAI)) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        run(lambda: story(proxy))
        assert proxy.requests[0].startswith(b"POST http://api.example.org/v1 HTTP/1.1\r\n")
        assert heard("openai", server.url) == WHOLE
        assert proxy.connections == 1
