"""Commands with a slash, and the arguments of tools, as people type them.

Covers forge_cli.schema.json.forms.
"""

import shlex

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from forge_cli import Tool, classify_command, parse_command
from forge_cli.core.errors import UsageError
from forge_cli.schema.json.input_schema import InputSchema
from forge_cli.schema.tool_fields import ManualExecution
from forge_cli.terminal import is_command
from forge_cli.ui.terminal.slash import (
    CommandError,
    args_from,
    boolean_options,
    parse_arguments,
    split_tokens,
)


async def nothing(args: object, context: object) -> str:
    return ""


def tool(name: str, mode: str = "both") -> Tool:
    schema = {"type": "object", "properties": {}}
    return Tool(
        name=name,
        description="",
        input_schema=schema,
        execute=nothing,
        manual=ManualExecution(mode),
    )


TOOLS = [
    tool("git_push", "manual"),
    tool("run_tests", "both"),
    tool("read_file", "llm"),
    tool("help", "manual"),
]


@pytest.mark.parametrize(
    "text", ["/help", "/model x", "/git_push --branch main", "/t x", "/a-b_c1", "/x\n"]
)
def test_commands_are_recognised(text: str) -> None:
    assert is_command(text)


@pytest.mark.parametrize(
    "text", ["", "/", "//", "/ help", "help", " /help", "/etc/hosts", "/1", "/-x", "a /help", "/é"]
)
def test_messages_to_the_model_are_not_commands(text: str) -> None:
    assert not is_command(text)


@pytest.mark.parametrize(
    ("text", "args", "options"),
    [
        ("/x", (), {}),
        ("/x a 'b c' \"d e\"", ("a", "b c", "d e"), {}),
        ("/x --a 1 --b=2 c=3", (), {"a": "1", "b": "2", "c": "3"}),
        ("/x --flag", (), {"flag": True}),
        ("/x --flag --a b", (), {"flag": True, "a": "b"}),
        ("/x -i", (), {"i": True}),
        ("/x --n -5 --m -.5 -7", ("-7",), {"n": "-5", "m": "-.5"}),
        ("/x --a '' b=''", (), {"a": "", "b": ""}),
        ("/x --a - -", ("-",), {"a": "-"}),
        ("/x a=b=c --d=e=f", (), {"a": "b=c", "d": "e=f"}),
        ("/x tag=1 tag=2 --tag 3", (), {"tag": ["1", "2", "3"]}),
        ("/x -- --a b=c", ("--a", "b=c"), {}),
        ("/x größe=5 a.b=1", (), {"größe": "5", "a.b": "1"}),
        ("/x https://e.org/?a=b 3=4", ("https://e.org/?a=b", "3=4"), {}),
        ("/x text='two\nlines'", (), {"text": "two\nlines"}),
        ("/x -k v -n -5 -i a", ("a",), {"k": "v", "n": "-5", "i": True}),
        ("/x -k=v -b --c d", (), {"k": "v", "b": True, "c": "d"}),
        ('/x a\\ b "c\\"d\\\\" \'e\\\'', ("a b", 'c"d\\', "e\\"), {}),
    ],
)
def test_arguments_and_options_are_parsed(
    text: str, args: tuple[str, ...], options: dict[str, object]
) -> None:
    parsed = parse_command(text)
    assert (parsed.name, parsed.args, parsed.options) == ("x", args, options)


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("/x a 'open", 6, "unclosed quote '"),
        ('/x "a"b"', 8, 'unclosed quote "'),
        ("/x \\", 4, "unexpected backslash at the end"),
        ("/x a --=5", 6, "option '--=5' has no name"),
        ("  /x ---", 6, "option '---' has no name"),
        ("  /", 4, "missing command after /"),
    ],
)
def test_parse_error_names_its_column(text: str, column: int, says: str) -> None:
    with pytest.raises(CommandError) as caught:
        parse_command(text)
    assert (caught.value.column, caught.value.message) == (column, f"column {column}: {says}")


@given(st.text(st.sampled_from("ab \t\n\\'\"=-/é")))
def test_tokens_follow_shell_rules(text: str) -> None:
    try:
        known = shlex.split(text)
    except ValueError:
        with pytest.raises(CommandError) as caught:
            list(split_tokens(text))
        assert 1 <= caught.value.column <= len(text)
        return
    tokens = list(split_tokens(text))
    assert [token.text for token in tokens] == known
    assert all(text[token.column - 1 : token.column].strip() for token in tokens)


@given(st.text())
@example("/x --=5")
@example("/x ---")
@example("/\0")
def test_parsing_raises_only_usage_errors(text: str) -> None:
    for line in (text, f"/x {text}"):
        try:
            parsed = parse_command(line)
        except UsageError:
            continue
        assert parsed.name
        assert classify_command(parsed, TOOLS).type in ("builtin", "tool", "unknown")
    is_command(text)


@pytest.mark.parametrize(
    ("text", "type", "name"),
    [
        ("/help", "builtin", None),
        ("/exit now", "builtin", None),
        ("/tool git_push --branch main", "tool", "git_push"),
        ("/t git_push", "tool", "git_push"),
        ("/git_push --branch main", "tool", "git_push"),
        ("/run_tests", "tool", "run_tests"),
        ("/tool help", "tool", "help"),
        ("/read_file path=a", "unknown", None),
        ("/tool read_file", "unknown", None),
        ("/tool", "unknown", None),
        ("/tool nosuch", "unknown", None),
        ("/nosuch", "unknown", None),
    ],
)
def test_command_is_classified(text: str, type: str, name: str | None) -> None:
    found = classify_command(parse_command(text), TOOLS)
    assert (found.type, found.tool_name) == (type, name)
    assert found.parsed == parse_command(text)


SCHEMA = {
    "type": "object",
    "properties": {
        "plain": {"type": "boolean"},
        "maybe": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        "named": {"$ref": "#/$defs/Flag"},
        "either": {"type": ["boolean", "string"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "more_tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
        "one_or_many": {"anyOf": [{"type": "array"}, {"type": "string"}]},
        "anything": True,
        "dry-run": {"type": "string"},
    },
    "$defs": {"Flag": {"type": "boolean"}},
}


def test_flag_accepts_only_true_or_false_as_its_value() -> None:
    flags = boolean_options(SCHEMA)
    assert parse_arguments(["--plain", "word", "--maybe", "tags=x"], flags) == (
        ["word"],
        {"plain": True, "maybe": True, "tags": "x"},
    )
    assert parse_arguments(["--plain", "false", "--either", "word"], flags) == (
        [],
        {"plain": "false", "either": "word"},
    )


def test_dashes_and_single_items_are_converted() -> None:
    typed = {
        "more-tags": "a",
        "tags": "[1]",
        "one-or-many": "x",
        "dry-run": "y",
        "no-such": "z",
        "anything": "w",
    }
    assert args_from(typed, SCHEMA) == {
        "more_tags": ["a"],
        "tags": "[1]",
        "one_or_many": "x",
        "dry-run": "y",
        "no-such": "z",
        "anything": "w",
    }
    assert args_from({"tags": ["a", "b"]}, SCHEMA) == {"tags": ["a", "b"]}
    assert args_from({"a": True}, {}) == {"a": True}


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("5", 5),
        ("[5]", [5]),
        ("a", ["a"]),
        ('{"a": 1}', {"a": 1}),
        ("null", ["null"]),
        ("1.5", ["1.5"]),
    ],
)
def test_single_value_becomes_a_list_only_if_no_other_type_fits(typed: str, read: object) -> None:
    items = {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "string"}]}}
    schema = {
        "type": "object",
        "properties": {"v": {"anyOf": [{"type": "integer"}, items, {"type": "object"}]}},
    }
    assert InputSchema(schema).validate(args_from({"v": typed}, schema)) == {"v": read}
