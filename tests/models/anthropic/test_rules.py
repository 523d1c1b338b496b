"""The rules that the server on this machine applies are those of the real API: each is seen to refuse."""

import json
from typing import Any

import pytest

from .rules import Block, Refused, Rules
from .server import text, thinking, tool_use

HEADERS = {"authorization": "Bearer x", "anthropic-version": "1", "content-type": "application/json"}
USER = {"role": "user", "content": "Hi"}
CALLS = {"role": "assistant", "content": [tool_use("a", "add"), tool_use("b", "add")]}


def result(call_id: str, **fields: Any) -> Block:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "3", **fields}


def user(*blocks: Block) -> Block:
    return {"role": "user", "content": list(blocks)}


def request(*messages: Block, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 10, "stream": True, "messages": list(messages or [USER]), **fields}


def tool(name: str, **schema: Any) -> Block:
    return {"name": name, "input_schema": {"type": "object", **schema}}


CACHE = {"cache_control": {"type": "ephemeral"}}
REFUSED = {
    "Extra inputs are not permitted": request(temperature=1),
    "first message must use": request({"role": "assistant", "content": "Hi"}, USER),
    "prefill": request(USER, {"role": "assistant", "content": "Hi"}),
    "non-empty content": request(user()),
    "must be non-empty": request(user(text(""))),
    "non-whitespace": request(user(text("Hi")), user(text(" \n"))),
    "without `tool_result` blocks immediately after": request(USER, CALLS, user(result("a"))),
    "ids were found without": request(USER, CALLS),
    "unexpected `tool_use_id`": request(USER, CALLS, user(result("a"), result("b"), result("c"))),
    "unexpected `tool_use_id` found": request(user(result("a"))),
    "a single result": request(USER, CALLS, user(result("a"), result("b"), result("b"))),
    "must begin with": request(USER, CALLS, user(text("So:"), result("a"), result("b"))),
    "ids must be unique": request(USER, {"role": "assistant", "content": [tool_use("a", "x"), tool_use("a", "x")]}),
    "cannot be empty if": request(USER, CALLS, user(result("a", content="", is_error=True), result("b"))),
    "cannot be `thinking`": request(USER, {"role": "assistant", "content": [thinking("Hm.")]}, USER),
    "names must be unique": request(tools=[tool("a"), tool("a")]),
    "name: String should match": request(tools=[tool("a b")]),
    "should be 'object'": request(tools=[{"name": "a", "input_schema": {"type": "array"}}]),
    "maximum of 4 blocks": request(user(*({**text(str(n)), **CACHE} for n in range(4))), **CACHE),
    "validation error": request({"role": "robot", "content": "Hi"}),
    "base64": request(user({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "?"}})),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_the_api_refuses(sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        Rules().check(HEADERS, json.dumps(REFUSED[sentence]).encode())


@pytest.mark.parametrize(
    "raw", [b"", b"{", b'{"a": NaN}', b'{"a": "\\ud800"}', b'{"a": 1, "a": 2}', b'{"a": "\xff"}'], ids=repr
)
def test_what_is_no_json(raw: bytes) -> None:
    with pytest.raises(Refused, match="not valid JSON"):
        Rules().check(HEADERS, raw)


@pytest.mark.parametrize("missing", HEADERS)
def test_headers_are_needed(missing: str) -> None:
    with pytest.raises(Refused, match=missing):
        Rules().check({**HEADERS, missing: ""}, json.dumps(request()).encode())


def test_thinking_must_come_back() -> None:
    rules, said = Rules(), [thinking("Hm."), tool_use("a", "add")]
    rules.handed_out(said, paused=False)
    for sent in (said[1:], [thinking("Hm!"), said[1]]):
        body = request(USER, {"role": "assistant", "content": sent}, user(result("a")))
        with pytest.raises(Refused, match="cannot be modified"):
            rules.check(HEADERS, json.dumps(body).encode())
    body = request(USER, {"role": "assistant", "content": said}, user(result("a")))
    assert rules.check(HEADERS, json.dumps(body).encode()) == body


def test_consecutive_messages_of_one_role_are_taken() -> None:
    body = request(USER, CALLS, user(result("b"), result("a"), text("Next.")), USER)
    assert Rules().check(HEADERS, json.dumps(body).encode()) == body
