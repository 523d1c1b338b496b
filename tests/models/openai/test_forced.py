"""Models without tool calls: forced into JSON, parsed, and informed of the results."""

import json

import pytest
from jsonschema import Draft202012Validator

from forge_cli.core.calls import ToolCall
from forge_cli.core.messages import CallResult, Message, TextDelta, ToolSpec, TurnEnd, Usage
from forge_cli.models.openai.dialects import ForcedDialect

from .server import Reply, chunk, says
from .talk import ADD, USER, calls_of, plain, turn

TREE = ToolSpec(
    "tree",
    "Grow.",
    {
        "$defs": {"node": {"type": "object"}},
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/node"}},
    },
)
KINDS = ToolSpec(
    "kinds",
    "",
    {
        "type": "object",
        "properties": {
            "level": {"enum": ["low", "high"], "default": "low"},
            "names": {
                "type": "array",
                "items": {"type": "string", "pattern": "(?=x)"},
                "uniqueItems": True,
            },
            "when": {
                "type": "object",
                "properties": {"day": {"type": "string", "format": "date"}},
                "required": ["day"],
            },
            "more": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
        "required": ["level"],
    },
)

THEN = (
    'If this is enough, give your final answer as {"answer": "TEXT"}; otherwise call the next tool.'
)


def test_forced_model_gets_instructions_and_a_schema(server, make) -> None:
    server.will(says('{"answer": "hi"}'))
    turn(make(ForcedDialect()), system="Count.", tools=(ADD, TREE))
    (request,) = server.requests
    system = request.messages[0]["content"]
    assert system.startswith("Count.\n\n# How to answer\n")
    assert "## add\nAdd two numbers.\nInput, as JSON Schema: {" in system
    schema = request.body["response_format"]["json_schema"]["schema"]
    number = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert schema["anyOf"][1] == {
        "type": "object",
        "properties": {
            "tool": {"const": "add"},
            "input": {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": number},
                "required": ["a"],
                "additionalProperties": False,
            },
        },
        "required": ["tool", "input"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("answer", "fits"),
    [
        ({"answer": "hi"}, True),
        ({"tool": "add", "input": {"a": 1}}, True),
        ({"tool": "tree", "input": {"anything": [1]}}, True),
        (
            {
                "tool": "kinds",
                "input": {"level": "low", "names": ["b"], "when": {"day": "x"}, "more": {"y": 1}},
            },
            True,
        ),
        ({"tool": "kinds", "input": {"level": "middle"}}, False),
        ({"tool": "add", "input": {}}, False),
        ({"tool": "add"}, False),
        ({"tool": "other", "input": {}}, False),
        ({"answer": "hi", "tool": "add", "input": {"a": 1}}, False),
        ({}, False),
    ],
)
def test_forced_schema_accepts_only_valid_calls(answer, fits) -> None:
    schema = ForcedDialect().offer([ADD, TREE, KINDS])["response_format"]["json_schema"]["schema"]
    assert Draft202012Validator(schema).is_valid(answer) is fits
    assert not {"$ref", "pattern", "format", "oneOf", "minimum"} & set(
        json.dumps(schema).split('"')
    )


def test_final_answer_is_shown_when_complete(server, make) -> None:
    server.will(says('{"ans', 'wer": "Grü', 'ße"}'))
    assert turn(make(ForcedDialect()), tools=(ADD,)) == [
        TextDelta("Grüße"),
        TurnEnd("end", Usage(11, 7)),
    ]


@pytest.mark.parametrize(
    "text",
    ['{"tool": "add", "input": {"a": 1}}', '```json\n{"tool": "add", "input": {"a": 1}}\n```'],
)
def test_forced_call_is_read_from_the_answer(server, make, text) -> None:
    server.will(says(text))
    heard = turn(make(ForcedDialect()), tools=(ADD,))
    assert list(map(plain, calls_of(heard))) == [("add", {"a": 1})]
    assert heard[1:] == [TurnEnd("tool_use", Usage(11, 7))]


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ('{"tool": "add"}', ("add", {}, None)),
        ('{"tool": "unknown", "input": {}}', ("unknown", {}, None)),
        ('{"tool": "add", "input": [1]}', ("add", {}, "[1]")),
    ],
)
def test_invalid_forced_call_is_left_to_the_gate(server, make, text, call) -> None:
    server.will(says(text))
    (made,) = calls_of(turn(make(ForcedDialect()), tools=(ADD,)))
    assert (made.name, made.args, made.unreadable) == call


@pytest.mark.parametrize(
    "text", ["Just words.", '{"a": 1}', '{"answer": 7}', '[{"answer": "x"}]', '{"answer": "x"', "{"]
)
def test_other_text_is_the_answer(server, make, text) -> None:
    server.will(says(text))
    assert turn(make(ForcedDialect()), tools=(ADD,)) == [
        TextDelta(text),
        TurnEnd("end", Usage(11, 7)),
    ]


def test_call_cut_by_length_is_not_made(server, make, told) -> None:
    server.will(says('{"tool": "add", "inp', finish="length"))
    heard = turn(make(ForcedDialect()), tools=(ADD,))
    assert heard == [TextDelta('{"tool": "add", "inp'), TurnEnd("max_tokens", Usage(11, 7))]
    assert len(told) == 1


def test_cut_without_shown_text_needs_no_restart(server, make) -> None:
    server.will(
        Reply((chunk(content='{"tool": "add", "input": {"a": 1}}'),), end="cut"),
        says('{"answer": "hi"}'),
    )
    assert turn(make(ForcedDialect()), tools=(ADD,)) == [
        TextDelta("hi"),
        TurnEnd("end", Usage(11, 7)),
    ]


def test_history_uses_the_same_form_as_the_instructions(server, make) -> None:
    history = [
        USER,
        Message(
            "assistant", calls=(ToolCall("a", "add", {"a": 1}), ToolCall("b", "add", {"a": 2}))
        ),
        Message(
            "tool", results=(CallResult("a", "add", "1"), CallResult("b", "add", "too big", True))
        ),
        Message("assistant", "One."),
        Message("user", "more"),
    ]
    server.will(says('{"answer": "hi"}'))
    turn(make(ForcedDialect()), *history, tools=(ADD,))
    assert server.requests[0].messages[1:] == [
        {"role": "user", "content": "hello"},
        {
            "role": "assistant",
            "content": '{"tool": "add", "input": {"a": 1}}\n{"tool": "add", "input": {"a": 2}}',
        },
        {"role": "user", "content": f"add gave:\n1\n\nadd failed:\ntoo big\n\n{THEN}"},
        {"role": "assistant", "content": '{"answer": "One."}'},
        {"role": "user", "content": "more"},
    ]


def test_request_without_tools_forces_no_schema(server, make) -> None:
    server.will(says("hi"))
    assert turn(make(ForcedDialect())) == [TextDelta("hi"), TurnEnd("end", Usage(11, 7))]
    assert "response_format" not in server.requests[0].body
