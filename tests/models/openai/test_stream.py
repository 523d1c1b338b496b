"""The stream of a model: text, calls, usage and stop reason, also from nonstandard servers."""

import json
import re

import pytest

from forge_cli.core.calls import ToolCall
from forge_cli.core.messages import CallResult, Message, Restart, TextDelta, TurnEnd, Usage

from .server import DONE, Reply, call_delta, calls, chunk, event, says, usage
from .talk import ADD, USER, calls_of, end_of, plain, text_of, turn


def test_text_is_streamed(server, make) -> None:
    server.will(says("Hel", "lo"))
    assert turn(make()) == [TextDelta("Hel"), TextDelta("lo"), TurnEnd("end", Usage(11, 7))]


def test_calls_with_interleaved_arguments_are_assembled(server, make) -> None:
    server.will(
        calls(("call_a", "add", {"a": 1}), ("call_b", "add", {"a": 2, "b": 3}), text="Adding.")
    )
    assert turn(make(), tools=(ADD,)) == [
        TextDelta("Adding."),
        ToolCall("call_a", "add", {"a": 1}),
        ToolCall("call_b", "add", {"a": 2, "b": 3}),
        TurnEnd("tool_use", Usage(11, 7)),
    ]


@pytest.mark.parametrize(
    "deltas",
    [
        [call_delta(None, None, "add", '{"a": 1}'), call_delta(None, None, "add", '{"a": 2}')],
        [call_delta(0, "", "add", '{"a": 1}'), call_delta(0, "", "add", '{"a": 2}')],
        [call_delta(0, "x", "add", '{"a": 1}'), call_delta(0, "y", "add", '{"a": 2}')],
        [call_delta(0, "x", "add", {"a": 1}), call_delta(1, "x", "add", {"a": 2})],
        [
            call_delta(None, "x", "add", '{"a"'),
            call_delta(None, "x", None, ": 1}"),
            call_delta(None, "y", "add", '{"a": 2}'),
        ],
        [
            call_delta(0, "x", "add", '{"a"'),
            call_delta(0, "x", "add", ": 1}"),
            call_delta(1, "y", "add", '{"a": 2}'),
        ],
        [
            call_delta(None, None, "add", '{"a"'),
            call_delta(None, None, None, ": 1}"),
            call_delta(0, "y", "add", '{"a": 2}'),
        ],
    ],
    ids=[
        "no index, no id",
        "empty ids",
        "index always 0",
        "one id",
        "by id",
        "repeated",
        "goes on",
    ],
)
@pytest.mark.parametrize("finish", ["stop", "tool_calls"])
def test_calls_in_nonstandard_forms_are_read(server, make, deltas, finish) -> None:
    server.will(Reply((*deltas, chunk(finish), DONE)))
    heard = turn(make(), tools=(ADD,))
    first, second = calls_of(heard)
    assert (plain(first), plain(second)) == (("add", {"a": 1}), ("add", {"a": 2}))
    assert first.id != second.id
    assert all(re.fullmatch(r"x|y|[0-9a-f]{9}", call.id) for call in (first, second))
    assert end_of(heard) == TurnEnd("tool_use", Usage())


def test_id_used_in_an_earlier_turn_is_replaced(server, make) -> None:
    made = Message("assistant", calls=(ToolCall("call_0", "add", {"a": 1}),))
    server.will(says("first"), calls(("call_0", "add", {"a": 2})))
    model = make()
    turn(model)
    (call,) = calls_of(
        turn(model, USER, made, Message("tool", results=(CallResult("call_0", "add", "1"),)))
    )
    assert call.id != "call_0"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", ToolCall("c", "add", {})),
        (" ", ToolCall("c", "add", {})),
        ("{}", ToolCall("c", "add", {})),
        ('{"a": 1', ToolCall("c", "add", {}, unreadable='{"a": 1')),
        ("[1]", ToolCall("c", "add", {}, unreadable="[1]")),
        ('{"a": NaN}', ToolCall("c", "add", {}, unreadable='{"a": NaN}')),
        ("[" * 100_000, ToolCall("c", "add", {}, unreadable="[" * 100_000)),
    ],
    ids=["nothing", "blank", "empty", "broken", "a list", "NaN", "deep"],
)
def test_arguments_that_are_not_an_object_are_reported(server, make, arguments, expected) -> None:
    server.will(Reply((call_delta(0, "c", "add", arguments), chunk("tool_calls"), DONE)))
    assert calls_of(turn(make(), tools=(ADD,))) == [expected]


def test_answer_cut_by_length_keeps_only_complete_calls(server, make, told) -> None:
    whole, half = call_delta(0, "c", "add", '{"a": 1}'), call_delta(1, "d", "add", '{"a": ')
    server.will(
        Reply(
            (chunk(content="So"), whole, half, call_delta(2, "e", "add", ""), chunk("length"), DONE)
        )
    )
    heard = turn(make(), tools=(ADD,))
    assert heard == [
        TextDelta("So"),
        ToolCall("c", "add", {"a": 1}),
        TurnEnd("max_tokens", Usage()),
    ]
    assert told == [
        "openai:tiny: the answer was cut off at the server's limit of tokens; 2 unfinished call(s) dropped"
    ]


@pytest.mark.parametrize(
    "reply",
    [
        Reply((chunk(refusal="I will not."), call_delta(0, "c", "add", "{}"), chunk("stop"), DONE)),
        Reply(
            (
                chunk(content="I will not."),
                call_delta(0, "c", "add", "{}"),
                chunk("content_filter"),
                DONE,
            )
        ),
    ],
    ids=["refusal", "filter"],
)
def test_refusal_is_reported_and_makes_no_call(server, make, told, reply) -> None:
    server.will(reply)
    assert turn(make()) == [TextDelta("I will not."), TurnEnd("refusal", Usage())]
    assert told == ["openai:tiny: the model or its server declined to answer"]


def test_refusal_without_text_gets_a_message(server, make) -> None:
    server.will(Reply((chunk("content_filter"), DONE)))
    assert turn(make()) == [
        TextDelta("[The model declined to answer]"),
        TurnEnd("refusal", Usage()),
    ]


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (b"", Usage()),
        (
            usage(100, 5, prompt_tokens_details={"cached_tokens": 80}),
            Usage(20, 5, cache_read_tokens=80),
        ),
        (usage(100, 5, prompt_tokens_details=None), Usage(100, 5)),
        (
            event({"choices": [], "usage": {"prompt_tokens": "many", "completion_tokens": -3}}),
            Usage(),
        ),
        (event({"usage": {"completion_tokens": 5}}), Usage(0, 5)),
    ],
    ids=["none", "cached", "no details", "nonsense", "half"],
)
def test_usage_is_read_from_every_form(server, make, last, expected) -> None:
    server.will(Reply((chunk(content="x"), chunk("stop"), last, DONE)))
    assert end_of(turn(make())).usage == expected


def test_surrogate_halves_are_joined_and_lone_ones_replaced(server, make) -> None:
    server.will(says("a\ud83c", "\udf0db", "\udf0dc", "d\ud83c"))
    assert text_of(turn(make())) == "a🌍b\ufffdcd"


@pytest.mark.parametrize("end", ["well", "cut", "silence", "signs"])
def test_finished_answer_needs_no_done_event(server, make, end, told) -> None:
    server.will(Reply((chunk(content="hi"), chunk("stop")), end=end))
    assert turn(make(read=1000)) == [TextDelta("hi"), TurnEnd("end", Usage())]
    assert told == []


def test_end_without_a_reason_is_an_end(server, make) -> None:
    server.will(Reply((chunk("", content="hi"), DONE)))
    assert turn(make()) == [TextDelta("hi"), TurnEnd("end", Usage())]


def test_server_without_streaming_is_supported(server, make) -> None:
    message = {
        "role": "assistant",
        "content": [{"type": "text", "text": "hi"}],
        "tool_calls": [_whole("c", '{"a": 1}')],
    }
    whole = {
        "choices": [{"message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 3},
    }
    server.will(Reply((json.dumps(whole).encode(),), headers={"content-type": "application/json"}))
    heard = turn(make(), tools=(ADD,))
    assert heard == [TextDelta("hi"), ToolCall("c", "add", {"a": 1}), TurnEnd("tool_use", Usage(3))]


def _whole(id: str, arguments: str) -> dict[str, object]:
    return {"id": id, "type": "function", "function": {"name": "add", "arguments": arguments}}


def test_cut_stream_is_restarted_without_the_partial_call(server, make, told) -> None:
    half = Reply((chunk(content="Let me"), call_delta(0, "c", "add", '{"a": 1}')), end="cut")
    server.will(half, calls(("d", "add", {"a": 2}), text="Now"))
    stopped = f"{server.url} closed the connection before its answer was complete"
    assert turn(make(), tools=(ADD,)) == [
        TextDelta("Let me"),
        Restart(stopped),
        TextDelta("Now"),
        ToolCall("d", "add", {"a": 2}),
        TurnEnd("tool_use", Usage(11, 7)),
    ]
    assert told == [f"openai:tiny: {stopped}; trying again (2 of 5)"]
    assert server.requests[0].raw == server.requests[1].raw


def test_cut_without_text_needs_no_restart(server, make) -> None:
    server.will(Reply((call_delta(0, "c", "add", '{"a": 1}'),), end="cut"), says("hi"))
    assert turn(make()) == [TextDelta("hi"), TurnEnd("end", Usage(11, 7))]
