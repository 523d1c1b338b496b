"""Failures of a server: each is one message, retried if useful, and never shows the key.

Covers forge_cli.models.openai.provider, forge_cli.models.openai.server, forge_cli.models.openai.written.
"""

import json
from dataclasses import replace

import pytest

from forge_cli.core.errors import ExitCode, ForgeError, ModelError, WorkerError
from forge_cli.core.messages import ModelEnv, ModelRequest, Restart, TextDelta
from forge_cli.files.settings import Settings
from forge_cli.models import openai
from forge_cli.models.http import Timeouts
from forge_cli.models.openai.dialects import ForcedDialect, NativeDialect
from forge_cli.models.openai.provider import OpenAIModel
from forge_cli.models.openai.server import Server
from tests.support.deadline import deadline

from .server import DONE, Reply, chunk, event, refusal, says
from .talk import ADD, USER, turn, turns

KEY = "sk-test-0123456789-0123456789-0123456789"
PAGE = "<!DOCTYPE html><html><head><style>p {}</style></head><body><h1>It\x1b[2J works!</h1></body></html>"
HTML = {"content-type": "text/html"}
OVERLOADED = {"error": {"message": "overloaded", "code": 503}}


def said(text: str) -> dict[str, object]:
    return {"error": {"message": text, "type": "some_error"}}


def coded(code: str) -> dict[str, object]:
    return {"error": {"message": "no more", "code": code}}


FINAL = {
    "401": (
        refusal(401, said(f"wrong key {KEY}")),
        "refused the key in OPENAI_API_KEY (HTTP 401: wrong key [redacted",
    ),
    "400 as text": (
        refusal(400, f"plain\n {KEY}"),
        "refused the request (HTTP 400: plain [redacted",
    ),
    "400 as a page": (refusal(400, PAGE), r"refused the request (HTTP 400: It\x1b[2J works!)"),
    "400 of a proxy": (refusal(400, {"detail": "no"}), "refused the request (HTTP 400: no)"),
    "400 in a list": (refusal(400, [said("no")]), "refused the request (HTTP 400: no)"),
    "400 in short": (refusal(400, {"error": "no"}), "refused the request (HTTP 400: no)"),
    "400, long": (
        refusal(400, "x" * 200_000),
        "refused the request (HTTP 400: " + "x" * 297 + "...)",
    ),
    "no room": (
        refusal(400, coded("context_length_exceeded")),
        "refused the request (HTTP 400: no more)\n  the conv",
    ),
    "no money": (
        refusal(429, coded("insufficient_quota")),
        "has no credit left for this key (HTTP 429: no more)",
    ),
    "in the stream": (
        Reply((event({"error": {"message": "bad", "code": 400}}),)),
        "refused the request (bad)",
    ),
    "a page": (
        Reply((PAGE.encode(),), headers=HTML),
        r"sent an invalid answer: It\x1b[2J works!",
    ),
}
TRANSIENT = {
    "500": (refusal(500, PAGE), r"failed (HTTP 500: It\x1b[2J works!)"),
    "503": (refusal(503, OVERLOADED), "failed (HTTP 503: overloaded)"),
    "cut at once": (Reply(end="cut"), "closed the connection before its answer was complete"),
    "no end": (
        Reply((chunk(role="assistant"),)),
        "closed the connection before its answer was complete",
    ),
    "nothing": (Reply((DONE,)), "closed the connection before its answer was complete"),
    "given up": (
        Reply((chunk("abort"), DONE)),
        "closed the connection before its answer was complete",
    ),
    "broken gzip": (
        Reply((b"abc",), headers={"content-encoding": "gzip"}),
        "closed the connection before its answer was complete",
    ),
    "no JSON": (
        Reply((event(f"Wait, {KEY}"),)),
        "sent an invalid answer: Wait, [redacted",
    ),
    "two objects": (
        Reply((event('{"choices": []} {}'),)),
        'sent an invalid answer: {"choices": []} {}',
    ),
    "no object": (Reply((event([1]),)), "sent an invalid answer: [1]"),
    "in the stream": (Reply((event(OVERLOADED), DONE)), "failed (overloaded)"),
    "in a field": (Reply((b'error: {"message": "slot lost"}\n\n',)), "failed (slot lost)"),
    "no reason": (Reply((event({"error": {"code": None}}),)), "failed ("),
}


def test_permanent_failure_is_not_retried(server, make, told) -> None:
    failures = []
    for reply, sentence in FINAL.values():
        server.will(reply)
        with pytest.raises(ModelError) as caught:
            turn(make(key=KEY))
        assert caught.value.exit_code == ExitCode.PROVIDER
        if f"openai:tiny: {server.url} {sentence}" not in str(caught.value) or KEY in str(
            caught.value
        ):
            failures.append((sentence, str(caught.value)))
    assert failures == told == []


def test_overlong_conversation_is_recognised(server, make) -> None:
    full = {"error": {"message": "full", "type": "exceed_context_size_error", "code": 400}}
    replies = [
        (refusal(400, coded("context_length_exceeded")), True),
        (
            refusal(
                400,
                said(
                    "This model's maximum context length is 4096 tokens, however you asked for 5000."
                ),
            ),
            True,
        ),
        (
            refusal(400, said("the request exceeds the available context size, try increasing it")),
            True,
        ),
        (Reply((event(full),)), True),
        (refusal(400, said("tools is wrong")), False),
    ]
    for reply, too_long in replies:
        server.will(reply)
        with pytest.raises(ModelError) as caught:
            turn(make(key=KEY))
        assert (reply.pieces, caught.value.too_long) == (reply.pieces, too_long)


def test_transient_failure_is_tried_five_times(server, make, told) -> None:
    failures = []
    for reply, sentence in TRANSIENT.values():
        told.clear()
        server.will(*[reply] * 5)
        with pytest.raises(ModelError) as caught:
            turn(make(key=KEY))
        said = str(caught.value)
        again = [f"; trying again ({number} of 5)" for number in range(2, 6)]
        if f"openai:tiny: {server.url} {sentence}" not in said or "(tried 5 times)" not in said:
            failures.append((sentence, said))
        if [line[-23:] for line in told] != again or KEY in str([said, *told]) or server.left:
            failures.append((sentence, told))
    assert failures == []


def test_missing_key_is_reported_when_the_server_requires_one(server, make) -> None:
    server.will(refusal(401, said("who are you?")))
    with pytest.raises(
        ModelError, match="requires a key \\(HTTP 401: who are you\\?\\)\n  set OPENAI_API_KEY"
    ):
        turn(make())


def test_silence_timeout_comes_from_the_config(server, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    options = Settings.model_validate({"models": {"openai:tiny": {"timeout": 0.2}}}).options(
        "openai:tiny"
    )
    env = ModelEnv(
        folders=(), notify=lambda *_: None, options=options.model_dump(exclude_none=True)
    )
    server.will(*[Reply(end="silence")] * 2)
    with pytest.raises(
        ModelError,
        match="did not respond for 0.2 s \\(tried 2 times\\)\n  models.NAME.timeout in the config",
    ):
        turn(openai.make("tiny", env))


def test_slow_local_server_has_time_and_is_not_asked_twice(server, monkeypatch) -> None:
    at = Server.at(server.url)
    assert (at.timeouts.first, at.timeouts.read) == (3600, 300)
    assert Server.at("https://models.example/v1").timeouts.first is None
    slow = OpenAIModel(
        "tiny",
        replace(at, timeouts=Timeouts(first=0.4, read=0.1)),
        NativeDialect(),
        lambda *_: None,
    )
    server.will(Reply(end="silence"))
    with deadline(20), pytest.raises(ModelError, match=r"did not respond for 0.4 s\n"):
        turn(slow)


def test_progress_of_reading_the_prompt_is_reported(server, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    told: list[str] = []
    env = ModelEnv(folders=(), notify=lambda _, text: told.append(text))
    progress = [
        event({"choices": [], "prompt_progress": {"total": 50, "processed": done}})
        for done in (0, 20, 24, 50)
    ]
    answer = says("hi")
    server.will(
        replace(answer, pieces=(*progress, *answer.pieces)),
        refusal(400, said("return_progress: unknown")),
        answer,
    )
    model = openai.make("tiny", env)
    assert turn(model)[0] == turn(model)[0] == TextDelta("hi")
    assert told == ["the model reads the prompt: 40 %"]
    assert [request.body.get("return_progress") for request in server.requests] == [
        True,
        True,
        None,
    ]


WRITTEN = {
    "JSON": '{"name": "add", "arguments": {"a": 1}}',
    "in a fence": '```json\n{"name": "add", "arguments": {"a": 1}}\n```',
    "behind words": 'I will do it.\n{"name": "add", "parameters": {"a": 1}}',
    "in tags": '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>',
    "in a list": '[{"name": "add", "arguments": {"a": 1}}]',
    "with other keys": '{"tool": "add", "input": {"a": 1}}',
    "with a type": '{"type": "function", "function": {"name": "add", "arguments": "{}"}}',
    "several": '{"name": "add", "arguments": {}}\n{"name": "add", "arguments": {}}',
    "as a function": "add(a=1)",
    "as a function with words behind": "add(1, 2)\nThis adds them.",
    "as a line": "Let me see.\nadd(a=1, b=2)",
    "in code": "```python\nadd(a=1)\n```",
    "in code with a module": "```\nfunctions.add(a=1)\n```",
    "as a function over lines": "add(\n  a=1,\n)",
}
UNKNOWN = {
    "JSON": '{"name": "run_tests", "arguments": {}}',
    "in a fence": '```json\n{"name": "run_tests", "arguments": {"path": "."}}\n```',
    "as a function": "run_tests(path='.')",
    "with other keys": '{"action": "run_tests", "action_input": "x"}',
}
NO_CALLS = {
    "words": "It is 3.",
    "a name in words": "I would call add(1, 2) to find out.",
    "data": '{"name": "Ana", "age": 3}',
    "data of a person": '{"name": "Ana", "parameters": {"a": 1}, "email": "a@example.org"}',
    "a list of data": '[{"name": "Ana"}, {"name": "Bob"}]',
    "code": "```python\ndef total(a, b):\n    return sum_of(a, b)\n```",
    "a word and brackets": "print(hello)",
    "a heading": "Note (important): done",
    "numbers": "[1, 2, 3]",
    "long": "word " * 10_000 + '{"name": "x", "arguments": {}}',
}


def test_call_written_as_text_is_reported(server, make, told) -> None:
    schema = 'models: {"openai:tiny": {tools: schema}} in the config may help'
    sentences = {
        f"openai:tiny: a call of add was written as text, so it was not made; {schema}": WRITTEN,
        "openai:tiny: a call of run_tests was written as text, so it was not made, and there is no such tool; "
        + schema: UNKNOWN,
        "": NO_CALLS,
    }
    failures = []
    for sentence, cases in sentences.items():
        for name, text in cases.items():
            server.will(says(text))
            turns(make(), ModelRequest("", (USER,), (ADD,)))
            if told != [sentence] * bool(sentence) or any(not line.urgent for line in told):
                failures.append((name, list(told)))
            told.clear()
    assert failures == []
    server.will(says(WRITTEN["JSON"]))
    turns(make(), ModelRequest("", (USER,), ()))
    assert told == []


def test_call_written_as_text_despite_a_schema_suggests_a_larger_model(server, make, told) -> None:
    server.will(says(json.dumps({"answer": WRITTEN["as a function"]})))
    turns(make(ForcedDialect()), ModelRequest("", (USER,), (ADD,)))
    assert told == [
        "openai:tiny: a call of add was written as text, so it was not made; a larger model calls tools more reliably"
    ]


def test_keep_alive_signals_are_not_an_answer(server, make) -> None:
    for sign in (b": still here\n\n", chunk(), chunk(role="assistant", content="")):
        server.will(*[Reply((chunk(content="hm"),), end="signs", sign=sign)] * 2)
        with (
            deadline(20),
            pytest.raises(ModelError, match="did not respond for 0.2 s \\(tried 2 times\\)"),
        ):
            turn(make(read=0.2))


def test_text_before_a_silence_is_discarded(server, make) -> None:
    server.will(Reply((chunk(content="hm"),), end="silence"), says("hi"))
    heard = turn(make(read=1))
    assert heard[:3] == [
        TextDelta("hm"),
        Restart(f"{server.url} did not respond for 1 s"),
        TextDelta("hi"),
    ]


def test_delays_grow_and_the_server_may_set_them(server, make, told) -> None:
    server.will(
        refusal(503),
        refusal(503),
        refusal(429, retry_after="0.03"),
        refusal(429, retry_after="0"),
        says("hi"),
    )
    turn(make(delays=(0.001, 0.002, 0.003, 0.004)))
    said = [line.partition("trying again ")[2] for line in told]
    first, second, fourth = (float(said[number].split()[1]) for number in (0, 1, 3))
    assert 0.001 <= first <= 0.00125 < 0.002 <= second <= 0.0025
    assert said[2] == "in 0.03 s (4 of 5)"
    assert 0.004 <= fourth <= 0.005


@pytest.mark.parametrize(
    "base",
    [
        "localhost:8080",
        "ftp://x/v1",
        "http://",
        "http://[::1/v1",
        "http://x:99999/v1",
        "http://x /v1",
        "https:x",
    ],
)
def test_invalid_address_is_an_error(base) -> None:
    with pytest.raises(
        ForgeError, match="OPENAI_BASE_URL is not the address of a server\n  it begins with http"
    ):
        Server.at(base)


@pytest.mark.parametrize("key", ["ключ-ключ", "two\nlines", "bell\x07"])
def test_invalid_key_is_not_shown(key) -> None:
    with pytest.raises(ModelError) as caught:
        Server.at("http://x/v1", key)
    assert "OPENAI_API_KEY contains characters that are invalid in a key" in str(caught.value)
    assert key not in str(caught.value)


def test_addresses_are_shown_without_secrets() -> None:
    found = Server.at("https://me:secret@host:1/api/v1/chat/completions/?token=abc", KEY)
    assert found.url == "https://me:secret@host:1/api/v1/chat/completions?token=abc"
    assert found.endpoint.address == "https://host:1/api/v1"
    assert not any(secret in repr(found) for secret in ("secret", "abc", KEY))
    assert found.timeouts == Timeouts(connect=10, read=300)


def test_openai_has_no_sdk_transport() -> None:
    env = ModelEnv(folders=(), notify=lambda level, message: None, options={"transport": "sdk"})
    with pytest.raises(WorkerError, match="openai:tiny has no other transport than http"):
        openai.make("tiny", env)
