"""What goes wrong: tried again where that helps, a sentence and exit 7 where it does not, and never the key.

Covers forge_cli.models.anthropic.access, forge_cli.models.anthropic.provider.
"""

import socket
import ssl
import threading
from email.utils import formatdate
from time import time
from typing import Any

import anthropic
import anyio
import httpx2
import pytest

from forge_cli.core.calls import ToolCall
from forge_cli.core.errors import ExitCode, ForgeError, ModelError, WorkerError
from forge_cli.core.messages import Message, ModelEnv, ModelRequest
from forge_cli.models.anthropic import forge_models, make
from forge_cli.models.anthropic.access import Credentials
from forge_cli.models.anthropic.failures import explain, wait_wanted

from .server import Api, Cut, Deaf, Fails, Raw, Reply, Stall, say, thinking, tool_use
from .talk import Talk

ANSWER = say(thinking("Let me see."), "Here is the answer.", tool_use("toolu_1", "add", a=1))
EVENTS = len(ANSWER.encoded())
ENV = ModelEnv(folders=(), notify=lambda level, message: None)


def failure(talk: Talk) -> str:
    """The sentence of a turn that fails."""
    with pytest.raises(ModelError) as caught:
        talk.turn("Hi")
    assert caught.value.exit_code is ExitCode.PROVIDER
    assert talk.key not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_a_passing_trouble_is_tried_again(api: Api, talk: Talk, status: int) -> None:
    api.will(Fails(status), Fails(status), say("Hello."))
    turn = talk.turn("Hi")
    assert (turn.text, turn.restarts) == ("Hello.", [])
    assert [level for level, _ in talk.notes] == ["warning", "warning"]
    assert "trying again in 0.0 s (2 of 5)" in talk.notes[0][1]
    assert "trying again in 0.0 s (3 of 5)" in talk.notes[1][1]
    assert len({request.raw for request in api.received}) == 1


@pytest.mark.parametrize(
    ("reply", "sentences"),
    [
        (Fails(400, "invalid_request_error", "max_tokens: too many"), ["did not accept the request: max_tokens: too"]),
        (Fails(400, "invalid_request_error", "prompt is too long: 9 > 8"), ["prompt is too long", "new conversation"]),
        (Fails(401, "authentication_error", "no"), ["ANTHROPIC_API_KEY is not accepted", "openai:", "script:"]),
        (Fails(402, "billing_error", "no money"), ["a problem with the payment: no money", "billing"]),
        (Fails(403, "permission_error", "not yours"), ["the key in ANTHROPIC_API_KEY may not do this: not yours"]),
        (Fails(404, "not_found_error", "model: claude-x"), ["does not know this model: model: claude-x", "name"]),
        (Fails(413, "request_too_large", "too many bytes"), ["the request is too large", "attach less"]),
        (Fails(418, "teapot", "short and stout"), ["did not accept the request: short and stout"]),
        (Fails(422, "invalid_request_error", "no"), ["did not accept the request: no"]),
        (Fails(501, "api_error", "no"), ["trouble of its own"]),
        (Fails(529, headers={"x-should-retry": "false"}), ["it is overloaded"]),
        (Raw([b"<html>Log in</html>"], "text/html"), ["answered with text/html instead of a stream", "ANTHROPIC_BASE"]),
    ],
)
def test_what_cannot_be_mended_is_said_at_once(api: Api, talk: Talk, reply: Reply, sentences: list[str]) -> None:
    api.will(reply)
    said = failure(talk)
    assert [sentence for sentence in sentences if sentence not in said] == []
    assert said.startswith("anthropic:claude-haiku-5-5: ")
    assert (len(api.received), talk.notes) == (1, [])


def test_a_page_that_passes_for_a_stream_is_not_a_cut(api: Api, talk: Talk) -> None:
    api.will(*[Raw([b"<html>\n\nLog in</html>\n\n"])] * 5)
    said = failure(talk)
    assert "it answered with a stream in which there is no event (tried 5 times)" in said
    assert "ANTHROPIC_BASE_URL says" in said
    assert "broke off" not in "".join(map(str, talk.notes))


def test_the_request_is_named_for_whoever_asks_anthropic(api: Api, talk: Talk) -> None:
    api.will(Fails(400))
    assert "(request req_42)" in failure(talk)


@pytest.mark.parametrize("status", [429, 500, 529])
def test_five_attempts_are_enough(api: Api, talk: Talk, status: int) -> None:
    api.will(*[Fails(status, message="Still wrong")] * 5)
    said = failure(talk)
    assert "Still wrong" in said
    assert "(tried 5 times)" in said
    assert (len(api.received), len(talk.notes)) == (5, 4)


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("after", range(EVENTS))
def test_a_stream_that_is_cut_anywhere_starts_again(api: Api, talk: Talk, after: int, reset: bool) -> None:
    api.will(Cut(ANSWER, after, reset), ANSWER)
    turn = talk.turn("Hi")
    assert (turn.text, turn.stop) == ("Here is the answer.", "tool_use")
    assert turn.calls == (ToolCall("toolu_1", "add", {"a": 1}),)
    assert len(talk.notes) == 1
    shown = sum("text_delta" in event.decode() for event in ANSWER.encoded()[:after])
    assert len(turn.restarts) <= (1 if shown else 0)
    assert turn.restarts or not shown or reset


def test_an_end_without_the_last_event_is_a_cut(api: Api, talk: Talk) -> None:
    api.will(Raw(ANSWER.encoded()[:-1]), say("Hello."))
    turn = talk.turn("Hi")
    assert (turn.text, turn.calls) == ("Hello.", ())
    assert turn.restarts == ["the connection broke off in the middle of the answer"]


def test_a_cut_after_the_last_event_does_no_harm(api: Api, talk: Talk) -> None:
    api.will(Cut(ANSWER, EVENTS))
    assert talk.turn("Hi").calls == (ToolCall("toolu_1", "add", {"a": 1}),)
    assert talk.notes == []


@pytest.mark.parametrize("kind", ["overloaded_error", "api_error", "rate_limit_error", "timeout_error"])
def test_an_error_within_the_stream_is_tried_again(api: Api, talk: Talk, kind: str) -> None:
    error = b'event: error\ndata: {"type": "error", "error": {"type": "%s", "message": "Busy"}}\n\n' % kind.encode()
    api.will(Raw([*ANSWER.encoded()[:10], error]), say("Hello."))
    turn = talk.turn("Hi")
    assert (turn.text, len(turn.restarts)) == ("Hello.", 1)
    assert ": Busy (request req_42); trying again" in talk.notes[0][1]


def test_an_error_within_the_stream_that_stays_is_said(api: Api, talk: Talk) -> None:
    api.will(Raw([b'event: error\ndata: {"error": {"type": "invalid_request_error", "message": "No."}}\n\n']))
    assert "did not accept the request: No." in failure(talk)


GARBAGE = [
    b"".join(event * 2 if b"content_block_stop" in event else event for event in ANSWER.encoded()),
    b"event: message_start\ndata: {not json\n\n",
    b"event: message_start\ndata: \xff\xfe\n\n",
    b"event: message_start\ndata: 42\n\n",
    b"event: message_start\ndata: {}\n\n",
    b'event: message_start\ndata: {"type": "message_start"}\n\n',
    b'event: content_block_stop\ndata: {"type": "content_block_stop", "index": 7}\n\n',
    b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 0, "delta": null}\n\n',
    b'event: content_block_start\ndata: {"type": "content_block_start", "content_block": {"type": "tool_use"}}\n\n'
    b'event: content_block_stop\ndata: {"type": "content_block_stop", "index": 0}\n\n',
    b"\0\1\2 nothing of any kind \n\n",
    b"",
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda garbage: repr(garbage[:40]))
def test_garbage_is_tried_again_and_never_believed(api: Api, talk: Talk, garbage: bytes) -> None:
    api.will(Raw([garbage]), Raw([garbage]), ANSWER)
    assert talk.turn("Hi").calls == (ToolCall("toolu_1", "add", {"a": 1}),)
    assert len(talk.notes) == 2


def test_garbage_without_end_is_given_up(api: Api, talk: Talk) -> None:
    api.will(*[Raw([GARBAGE[1]])] * 5)
    said = failure(talk)
    assert "sent something that cannot be read (tried 5 times)" in said
    assert f"ANTHROPIC_BASE_URL says {api.url}" in said


def test_a_line_that_breaks_before_the_answer(api: Api, talk: Talk) -> None:
    api.will(Deaf(), say("Hello."))
    assert talk.turn("Hi").text == "Hello."
    assert f"{api.url} cannot be reached" in talk.notes[0][1]


def test_silence_is_a_cut(api: Api, talk: Talk) -> None:
    talk.silence = 0.2
    api.will(Stall(ANSWER, 9), say("Hello."))
    turn = talk.turn("Hi")
    assert (turn.text, turn.restarts) == ("Hello.", ["it did not answer in time"])


def test_nobody_listens(talk: Talk) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        talk.url = f"http://127.0.0.1:{free.getsockname()[1]}"
        said = failure(talk)
    assert f"{talk.url} cannot be reached" in said
    assert "(tried 5 times)" in said
    assert "ANTHROPIC_BASE_URL" in said


def test_a_server_that_speaks_no_http(talk: Talk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def shout() -> None:
            for _ in range(5):
                line, _address = server.accept()
                line.recv(65536)
                line.sendall(b"SSH-2.0-OpenSSH_9.9\r\n")
                line.close()

        threading.Thread(target=shout, daemon=True).start()
        talk.url = f"http://127.0.0.1:{server.getsockname()[1]}"
        assert "cannot be reached" in failure(talk)


def test_a_certificate_that_is_not_trusted_is_not_tried_again() -> None:
    error = anthropic.APIConnectionError(request=httpx2.Request("POST", "https://example.org"))
    error.__cause__ = httpx2.ConnectError("failed")
    error.__cause__.__cause__ = ssl.SSLCertVerificationError("self-signed certificate")
    failed = explain(error, Credentials("ANTHROPIC_API_KEY", "x", "https://example.org"))
    assert (failed.sentence, failed.passing) == ("the certificate of https://example.org is not trusted", False)


def test_a_bug_is_no_failure() -> None:
    with pytest.raises(ZeroDivisionError):
        explain(ZeroDivisionError(), Credentials("ANTHROPIC_API_KEY", "x"))


def test_the_server_says_how_long_to_wait(api: Api, talk: Talk) -> None:
    api.will(Fails(429, headers={"retry-after": "0.25"}), Fails(429, headers={"retry-after-ms": "120"}), say("Hello."))
    assert talk.turn("Hi").text == "Hello."
    assert "in 0.2 s (2 of 5)" in talk.notes[0][1]
    assert "in 0.1 s (3 of 5)" in talk.notes[1][1]


def test_a_wait_that_is_too_long_is_left_to_the_user(api: Api, talk: Talk) -> None:
    api.will(Fails(429, headers={"retry-after": "3600"}))
    assert "it asks to be left alone for 3600 seconds" in failure(talk)


def test_waits_may_be_dates_or_nonsense() -> None:
    assert wait_wanted({}) is None
    assert wait_wanted({"retry-after": "soon"}) is None
    assert wait_wanted({"retry-after": "-3"}) == 0
    assert wait_wanted({"retry-after-ms": "x", "retry-after": "2"}) == 2
    assert wait_wanted({"retry-after": formatdate(time() - 60, usegmt=True)}) == 0
    wanted = wait_wanted({"retry-after": formatdate(time() + 60, usegmt=True)})
    assert wanted is not None
    assert 50 < wanted <= 60


def test_a_secret_that_the_server_repeats_is_not_repeated(api: Api, talk: Talk) -> None:
    api.will(Fails(500, message=f"bad key {talk.key}!"), Fails(401, message=f"bad key {talk.key}!"))
    said = failure(talk)
    assert "bad key [redacted:" in said
    assert talk.key not in str(talk.notes)


def test_interrupting_ends_a_wait_at_once(api: Api, talk: Talk) -> None:
    api.will(Fails(429, headers={"retry-after": "100"}))

    async def hear(scope: anyio.CancelScope) -> None:
        talk.notes = _Cancelling(scope)
        provider = talk.provider()
        with scope:
            async for _ in provider.stream(ModelRequest("", [Message("user", "Hi")], ())):
                pass
        await provider.aclose()

    async def interrupted() -> bool:
        with anyio.fail_after(10):
            scope = anyio.CancelScope()
            await hear(scope)
            return scope.cancelled_caught

    assert anyio.run(interrupted)


class _Cancelling(list[Any]):
    """Notes that end a scope with the first of them."""

    def __init__(self, scope: anyio.CancelScope) -> None:
        super().__init__()
        self._scope = scope

    def append(self, item: Any) -> None:
        self._scope.cancel()


def test_interrupting_in_the_middle_of_an_answer_leaves_the_provider_usable(api: Api, talk: Talk) -> None:
    api.will(Stall(ANSWER, 9), say("Hello."))

    async def story() -> str:
        provider, request, heard = talk.provider(), ModelRequest("", [Message("user", "Hi")], ()), ""
        with anyio.fail_after(10):
            with anyio.CancelScope() as scope:
                async for _ in provider.stream(request):
                    scope.cancel()
            async for delta in provider.stream(request):
                heard += getattr(delta, "text", "")
            await provider.aclose()
        return heard

    assert anyio.run(story) == "Hello."


@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_missing_key_names_the_variable_and_other_ways(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
    with pytest.raises(ModelError) as caught:
        make("claude-haiku-5-5", ENV)
    said = str(caught.value)
    assert said.startswith("ANTHROPIC_API_KEY is not set, and anthropic:claude-haiku-5-5 needs it")
    assert "openai:MODEL" in said
    assert "script:FILE" in said
    (factory,) = forge_models()
    assert (factory.missing() or "").startswith("ANTHROPIC_API_KEY is not set, and anthropic:MODEL needs it; set it")


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("ANTHROPIC_API_KEY", "sk-ant-\nabcdefghijklmnop", "ANTHROPIC_API_KEY holds characters that no key has"),
        ("ANTHROPIC_API_KEY", "sk-ant-schlüssel", "ANTHROPIC_API_KEY holds characters that no key has"),
        ("ANTHROPIC_API_KEY", "export KEY=x", "ANTHROPIC_API_KEY holds characters that no key has"),
        ("ANTHROPIC_BASE_URL", "localhost:8080", "ANTHROPIC_BASE_URL is not an address"),
        ("ANTHROPIC_BASE_URL", "http://", "ANTHROPIC_BASE_URL is not an address"),
        ("ANTHROPIC_BASE_URL", "http://a:b:c", "ANTHROPIC_BASE_URL is not an address"),
        ("ANTHROPIC_BASE_URL", "http://[::1", "ANTHROPIC_BASE_URL is not an address"),
    ],
)
def test_an_unusable_environment_is_named(
    api: Api, monkeypatch: pytest.MonkeyPatch, name: str, value: str, sentence: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ModelError) as caught:
        make("claude-haiku-5-5", ENV)
    assert sentence in str(caught.value)
    assert "abcdefghijklmnop" not in str(caught.value)


def test_a_token_will_do(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", " a-token\n")
    api.will(say("Hello."), Fails(401))

    async def story() -> None:
        provider, request = make("claude-haiku-5-5", ENV), ModelRequest("", [Message("user", "Hi")], ())
        with anyio.fail_after(10):
            assert [delta async for delta in provider.stream(request)]
            with pytest.raises(ModelError, match="the key in ANTHROPIC_AUTH_TOKEN is not accepted"):
                assert [delta async for delta in provider.stream(request)]
            await provider.aclose()

    anyio.run(story)
    assert api.received[0].headers["authorization"] == "Bearer a-token"


def test_the_config_may_know_the_window(api: Api) -> None:
    env = ModelEnv(folders=(), notify=lambda level, message: None, options={"context": 8192})
    (factory,) = forge_models()
    assert factory.missing() is None
    assert factory.make("claude-haiku-5-5", env).context_window == 8192


def test_a_schema_cannot_be_forced(api: Api) -> None:
    env = ModelEnv(folders=(), notify=lambda level, message: None, options={"tools": "schema"})
    with pytest.raises(WorkerError, match="calls tools by itself"):
        make("claude-haiku-5-5", env)


def test_a_proxy_that_is_nonsense_is_a_sentence(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "socks9://nowhere")
    with pytest.raises(ForgeError, match="look at the proxy and certificate settings"):
        talk.turn("Hi")
