"""Requests: each message encoded once, every call with its result, files if the model supports them.

Covers forge_cli.models.openai.dialects.
"""

import base64

import pytest

from forge_cli.core.calls import ToolCall, is_legal_id
from forge_cli.core.media import Image
from forge_cli.core.messages import Attachment, CallResult, Message, ModelRequest, ToolSpec
from forge_cli.models.openai.dialects import ForcedDialect, NativeDialect

from .server import says
from .talk import ADD, USER, turn, turns

CALLED = Message(
    "assistant", "Adding.", (ToolCall("a", "add", {"a": 1}), ToolCall("b", "add", {"a": "ü"}))
)
GAVE = Message(
    "tool",
    results=(CallResult("a", "add", "1"), CallResult("b", "add", "a must be a number", True)),
)


def test_conversation_is_encoded_completely(server, make) -> None:
    server.will(says("2"))
    turn(
        make(),
        USER,
        CALLED,
        GAVE,
        Message("assistant", "1"),
        Message("user", "more"),
        system="Count.",
        tools=(ADD,),
    )
    (request,) = server.requests
    first = {"id": "a", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    second = {"id": "b", "type": "function", "function": {"name": "add", "arguments": '{"a": "ü"}'}}
    assert request.body == {
        "model": "tiny",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "add",
                    "description": ADD.description,
                    "parameters": ADD.input_schema,
                },
            }
        ],
        "messages": [
            {"role": "system", "content": "Count."},
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": "Adding.", "tool_calls": [first, second]},
            {"role": "tool", "tool_call_id": "a", "content": "1"},
            {"role": "tool", "tool_call_id": "b", "content": "Error: a must be a number"},
            {"role": "assistant", "content": "1"},
            {"role": "user", "content": "more"},
        ],
    }
    assert "authorization" not in request.headers


def test_key_is_sent_only_in_its_header(server, make) -> None:
    server.will(says("hi"))
    turn(make(key="local-key-12345678"))
    (request,) = server.requests
    assert request.headers["authorization"] == "Bearer local-key-12345678"
    assert b"local-key" not in request.raw


def test_invalid_call_is_sent_back_in_a_valid_form(server, make) -> None:
    odd = (
        ToolCall("a", "rm -rf /", {}, unreadable="{"),
        ToolCall("b", "", {}),
        ToolCall("c", "x" * 99, {"s": "\ud800"}),
    )
    gave = Message(
        "tool", results=tuple(CallResult(call.id, call.name, "no", True) for call in odd)
    )
    server.will(says("sorry"))
    turn(make(), USER, Message("assistant", calls=odd), gave)
    assistant = server.requests[0].messages[1]
    assert assistant["content"] is None
    assert [call["function"]["name"] for call in assistant["tool_calls"]] == [
        "rm_-rf__",
        "unknown",
        "x" * 64,
    ]
    assert assistant["tool_calls"][0]["function"]["arguments"] == "{}"


def test_attachments_are_encoded_by_type(server, make) -> None:
    files = (
        Attachment("a.txt", "text/plain", "Grüße".encode()),
        Attachment("a.rs", "application/octet-stream", b"fn main() {}"),
        Attachment("a.png", "image/png", b"\x89PNG\0"),
        Attachment("a.pdf", "application/pdf", b"%PDF-1.7"),
        Attachment("a\x1b.bin", "application/zip", b"PK\0\0"),
        Attachment("latin.txt", "text/plain", b"\xe4"),
    )
    server.will(says("nice"))
    turn(make(), Message("user", "look", attachments=files))
    assert server.requests[0].messages[0]["content"] == [
        {"type": "text", "text": "look"},
        {"type": "text", "text": "[The attached file a.txt]\nGrüße"},
        {"type": "text", "text": "[The attached file a.rs]\nfn main() {}"},
        {
            "type": "image_url",
            "image_url": {
                "url": "data:image/png;base64," + base64.b64encode(b"\x89PNG\0").decode()
            },
        },
        unseen("a.pdf (application/pdf, 8 bytes)"),
        unseen("a\\x1b.bin (application/zip, 4 bytes)"),
        unseen("latin.txt (text/plain, 1 bytes)"),
    ]


def unseen(what: str) -> dict[str, str]:
    return {"type": "text", "text": f"[The attached file {what} cannot be shown to this model.]"}


@pytest.mark.parametrize("dialect", [NativeDialect, ForcedDialect])
def test_rewritten_history_is_encoded_again(server, make, dialect) -> None:
    summary = Message("user", "In short: 1")
    server.will(says("a"), says("b"), says("c"))
    old, new = (USER, CALLED, GAVE), (summary, CALLED, GAVE)
    turns(make(dialect()), *(ModelRequest("", messages, ()) for messages in (old, new, old)))
    first, second, third = [request.message_bytes for request in server.requests]
    assert second == first.replace(b"hello", b"In short: 1")
    assert third == first


def test_tools_may_change_between_requests(server, make) -> None:
    other = ToolSpec("other", "", {"type": "object", "properties": {}})
    server.will(says("a"), says("b"), says("c"))
    turns(make(), *(ModelRequest("", (USER,), tools) for tools in ([ADD], [ADD, other], [])))
    names = [
        [tool["function"]["name"] for tool in request.body.get("tools", [])]
        for request in server.requests
    ]
    assert names == [["add"], ["add", "other"], []]


class Counted(dict):
    """A schema that counts how often it is encoded."""

    encoded = 0

    def items(self):
        self.encoded += 1
        return super().items()


def test_tools_that_stay_the_same_are_encoded_once(server, make) -> None:
    """The loop makes their specifications anew for each turn."""
    schema = Counted(ADD.input_schema)
    histories = (USER,), (USER, CALLED, GAVE), (USER, CALLED, GAVE, USER)
    server.will(says("a"), says("b"), says("c"))
    turns(
        make(),
        *(
            ModelRequest("Add.", history, [ToolSpec("add", "Add two numbers.", schema)])
            for history in histories
        ),
    )
    assert schema.encoded == 1
    first, *others = [request.body["tools"] for request in server.requests]
    assert first[0]["function"]["parameters"] == ADD.input_schema
    assert others == [first, first]


@pytest.mark.parametrize(
    "ids", [("same", "same"), ("", ""), ("a b", "ä.1")], ids=["same", "empty", "illegal"]
)
def test_history_with_invalid_ids_is_repaired_in_requests(
    server, make, ids: tuple[str, str]
) -> None:
    """As sessions have it that were recorded from careless servers."""
    history = [Message("user", "hi")]
    for each in (ids, ids):
        history.append(
            Message("assistant", calls=tuple(ToolCall(one, "add", {"a": 1}) for one in each))
        )
        history.append(Message("tool", results=tuple(CallResult(one, "add", "1") for one in each)))
    server.will(says("hi"))
    turn(make(), *history, Message("user", "well?"), tools=(ADD,))
    sent = server.requests[-1].body["messages"]
    made = [call["id"] for message in sent for call in message.get("tool_calls", ())]
    assert [message["tool_call_id"] for message in sent if message["role"] == "tool"] == made
    assert len(set(made)) == 4
    assert all(is_legal_id(each) for each in made)


@pytest.mark.parametrize("dialect", [NativeDialect, ForcedDialect])
def test_images_of_results_follow_them_for_models_with_vision(server, make, dialect) -> None:
    image = CallResult.of("a", "shot", Image(b"\x89PNG\0", "image/png", "A cat"), is_error=False)
    told = Message("tool", results=(image, CallResult("b", "add", "1")))
    for images in (True, False):
        server.will(says("ok"))
        chosen = dialect()
        chosen.images = images
        turn(make(chosen), USER, CALLED, told)
    seeing, blind = (request.body["messages"] for request in server.requests)
    assert seeing[:-1] == blind
    assert "A cat\n[image: image/png, " in str(blind[2]["content"])
    first, picture = seeing[-1]["content"]
    assert (seeing[-1]["role"], first["text"]) == ("user", "[The image that shot gave, call a]")
    assert base64.b64decode(picture["image_url"]["url"].partition(",")[2]) == b"\x89PNG\0"
