"""What goes out: requests that the real API would take, whatever the history, and the same bytes as last time first.

Covers forge_cli.models.anthropic.catalog, forge_cli.models.anthropic.encode.
"""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.core.calls import ToolCall
from forge_cli.core.errors import ModelError
from forge_cli.core.messages import Attachment, CallResult, Message, ModelRequest, ToolSpec
from forge_cli.models.anthropic.encode import Encoder, kept

from .rules import Rules
from .server import Api, say, text, thinking, tool_use
from .talk import ADD, Talk

MODEL = "claude-haiku-5-5"
HEADERS = {"authorization": "Bearer x", "anthropic-version": "1", "content-type": "application/json"}


def sent(*messages: Message, system: str = "Be brief.", tools: tuple[ToolSpec, ...] = (ADD,)) -> Any:
    """The request for a history, which the real API would take."""
    body = Encoder(MODEL, 100).body(ModelRequest(system, messages, tools))
    return Rules().check(HEADERS, body)


def contents(*messages: Message) -> list[tuple[str, Any]]:
    return [(message["role"], message["content"]) for message in sent(*messages)["messages"]]


def test_a_whole_request(api: Api, talk: Talk) -> None:
    api.will(say("Hello."))
    talk.turn("Hi")
    (request,) = api.received
    ephemeral = {"type": "ephemeral"}
    assert request.data == {
        "model": MODEL,
        "max_tokens": 32_000,
        "stream": True,
        "cache_control": ephemeral,
        "tools": [{"name": "add", "description": "Add two numbers.", "input_schema": ADD.input_schema}],
        "system": [{"type": "text", "text": "Be brief.", "cache_control": ephemeral}],
        "messages": [{"role": "user", "content": [text("Hi")]}],
    }
    assert request.headers["authorization"] == f"Bearer {talk.key}"
    assert request.headers.get("x-stainless-retry-count", "0") == "0"


def test_nothing_empty_is_sent() -> None:
    request = sent(Message("user", "Hi"), system=" \n", tools=())
    assert "system" not in request
    assert "tools" not in request


def test_without_a_system_prompt_the_tools_are_cached() -> None:
    assert sent(Message("user", "Hi"), system="")["tools"][-1]["cache_control"] == {"type": "ephemeral"}


def test_results_come_together_and_first() -> None:
    calls = (ToolCall("a", "add", {"a": 1}), ToolCall("b", "add", {}))
    results = (CallResult("a", "add", "3"), CallResult("b", "add", "no such thing", is_error=True))
    task, said, got = Message("user", "Add."), Message("assistant", "", calls), Message("tool", results=results)
    assert contents(task, said, got, Message("user", "Next.")) == [
        ("user", [text("Add.")]),
        ("assistant", [tool_use("a", "add", a=1), tool_use("b", "add")]),
        (
            "user",
            [
                {"type": "tool_result", "tool_use_id": "a", "content": "3"},
                {"type": "tool_result", "tool_use_id": "b", "content": "no such thing", "is_error": True},
            ],
        ),
        ("user", [text("Next.")]),
    ]


@pytest.mark.parametrize("blank", ["", " ", "\n\t"])
def test_blank_things_the_api_would_refuse_are_left_out(blank: str) -> None:
    calls = (ToolCall("a", "add", {}), ToolCall("b", "add", {}))
    results = (CallResult("a", "add", blank), CallResult("b", "add", blank, is_error=True))
    native = kept(MODEL, [thinking("Hm."), text(blank)])
    assert contents(
        Message("user", "Add."),
        Message("assistant", blank, calls),
        Message("tool", results=results),
        Message("assistant", blank),
        Message("assistant", blank, native=native),
        Message("user", "Go on."),
    ) == [
        ("user", [text("Add.")]),
        ("assistant", [tool_use("a", "add"), tool_use("b", "add")]),
        (
            "user",
            [
                {"type": "tool_result", "tool_use_id": "a"},
                {"type": "tool_result", "tool_use_id": "b", "content": "failed without a message", "is_error": True},
            ],
        ),
        ("user", [text("Go on.")]),
    ]


def test_an_interrupted_turn_is_plain_text() -> None:
    history = [Message("user", "Go."), Message("assistant", "[Interrupted]"), Message("user", "Again.")]
    assert contents(*history)[1] == ("assistant", [text("[Interrupted]")])


def test_what_another_provider_kept_is_its_own_affair() -> None:
    said = Message("assistant", "Hi", native={"model": "gpt-4", "content": [{"type": "weird"}]})
    assert contents(Message("user", "a"), said, Message("user", "b"))[1] == ("assistant", [text("Hi")])
    odd = Message("assistant", "Hi", native=["anything"])
    assert contents(Message("user", "a"), odd, Message("user", "b"))[1] == ("assistant", [text("Hi")])


def test_text_that_utf8_cannot_carry_becomes_visible() -> None:
    assert contents(Message("user", "a\udc80b\ud83dc")) == [("user", [text("a\\udc80b\\ud83dc")])]


PNG, PDF = b"\x89PNG\r\n\x1a\n....", b"%PDF-1.7 ..."


def test_attachments_join_the_message() -> None:
    files = (
        Attachment("notes.txt", "text/plain", "Grüße\n".encode()),
        Attachment("empty.md", "text/markdown", b""),
        Attachment("photo.png", "image/png", PNG),
        Attachment("paper.pdf", "application/pdf", PDF),
    )
    ((role, blocks),) = contents(Message("user", "Read these.", attachments=files))
    assert role == "user"
    assert blocks[:2] == [
        text("The attached file notes.txt:\n\nGrüße\n"),
        text("The attached file empty.md:\n\n[it is empty]"),
    ]
    assert [block["type"] for block in blocks[2:]] == ["image", "document", "text"]
    assert blocks[2]["source"] == {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgouLi4u"}
    assert (blocks[3]["source"]["media_type"], blocks[3]["title"]) == ("application/pdf", "paper.pdf")


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        (Attachment("film.mp4", "video/mp4", b"\0"), "film.mp4 cannot be attached: Anthropic's models take no video"),
        (Attachment("pic.tiff", "image/tiff", b"II*"), "pic.tiff cannot be attached: Anthropic's models take no image"),
        (Attachment("old.txt", "text/plain", b"gr\xfc\xdfe"), "old.txt cannot be attached: it is said to be text/"),
    ],
)
def test_a_file_the_model_cannot_take_is_a_sentence(api: Api, talk: Talk, file: Attachment, sentence: str) -> None:
    with pytest.raises(ModelError, match=sentence):
        talk.turn(Message("user", "Look.", attachments=(file,)))
    assert api.received == []


def test_each_request_begins_with_the_bytes_of_the_one_before(api: Api, talk: Talk) -> None:
    turns = [say(thinking(f"Hm {n}."), f"Part {n}", tool_use(f"toolu_{n}", "add", a=n)) for n in range(6)]
    api.will(*turns, say("Done."))
    talk.turns(7)
    bodies = [request.raw for request in api.received]
    for before, after in pairwise(bodies):
        assert before.endswith(b"]}")
        assert after.startswith(before[:-2] + b",")


def test_history_that_was_rewritten_is_encoded_anew() -> None:
    encoder = Encoder(MODEL, 100)
    first = [Message("user", "One"), Message("assistant", "Two"), Message("user", "Three")]
    encoder.body(ModelRequest("", first, ()))
    compacted, edited = [Message("user", "Summary"), first[2]], [first[0], Message("assistant", "2"), first[2]]
    for rewritten in (compacted, edited, first[:1], first):
        request = ModelRequest("", rewritten, ())
        assert encoder.body(request) == Encoder(MODEL, 100).body(request)


def test_new_tools_and_instructions_are_noticed() -> None:
    encoder, messages = Encoder(MODEL, 100), [Message("user", "Hi")]
    for system, tools in [("a", (ADD,)), ("b", (ADD,)), ("b", ()), ("b", (ADD, ToolSpec("mul", "", ADD.input_schema)))]:
        request = ModelRequest(system, messages, tools)
        assert encoder.body(request) == Encoder(MODEL, 100).body(request)


words = st.text(max_size=12)
inputs = st.dictionaries(words, st.one_of(st.integers(), words, st.lists(words, max_size=2)), max_size=2)


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """What the loop can make: tasks, answers with and without calls, interruptions, a result for every call."""
    history: list[Message] = []
    numbers = iter(range(1000))
    for _ in range(draw(st.integers(1, 4))):
        history.append(Message("user", draw(words.filter(str.strip))))
        for _ in range(draw(st.integers(0, 3))):
            calls = [ToolCall(f"c{next(numbers)}", "add", draw(inputs)) for _ in range(draw(st.integers(0, 3)))]
            said = draw(words)
            uses = [tool_use(call.id, call.name, **call.args) for call in calls]
            blocks = [thinking(draw(words)), text(said), *uses]
            native = draw(st.sampled_from([None, kept(MODEL, blocks), kept("another", blocks)]))
            history.append(Message("assistant", said, tuple(calls), native=native))
            results = [CallResult(call.id, call.name, draw(words), draw(st.booleans())) for call in calls]
            history += [Message("tool", results=tuple(results))] if results else []
    return [*history, Message("user", "last")]


@given(histories(), words)
def test_any_history_makes_requests_that_are_taken(history: list[Message], system: str) -> None:
    encoder = Encoder(MODEL, 100)
    for length, message in enumerate(history, 1):
        if message.role != "assistant":
            request = ModelRequest(system, history[:length], (ADD,))
            body = encoder.body(request)
            Rules().check(HEADERS, body)
            assert json.loads(body) == json.loads(Encoder(MODEL, 100).body(request))


def made(ids: tuple[str, str]) -> dict[str, object]:
    """What the model itself said, ids included."""
    blocks = [{"type": "tool_use", "id": one, "name": "add", "input": {"a": 1}} for one in ids]
    return {"model": "claude-haiku-5-5", "content": blocks}


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("ids", [("same", "same"), ("", ""), ("a b", "ä.1")], ids=["same", "empty", "illegal"])
def test_a_history_with_bad_ids_is_repaired_in_requests(
    api: Api, talk: Talk, native: bool, ids: tuple[str, str]
) -> None:
    """As sessions have it that were recorded from careless servers."""
    history = [Message("user", "hi")]
    for each in (ids, ids):
        history.append(
            Message(
                "assistant",
                calls=tuple(ToolCall(one, "add", {"a": 1}) for one in each),
                native=made(each) if native else None,
            )
        )
        history.append(Message("tool", results=tuple(CallResult(one, "add", "1") for one in each)))
    talk.history = history
    api.will(say("Hello."))
    assert talk.turn("Well?").text == "Hello."
    assert api.refused == []
