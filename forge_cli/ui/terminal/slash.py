"""Parser of slash commands and of the arguments of ``forge tools call``."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct, field

from forge_cli.core.errors import UsageError
from forge_cli.core.text import did_you_mean, visible
from forge_cli.core.wire import JsonObject
from forge_cli.schema.json.forms import OptionValue, args_from, boolean_options
from forge_cli.schema.tool import Tool, is_manual_tool

BUILTINS = (
    *("help", "model", "clear", "status", "tools", "exit", "add-dir", "approvals", "attach"),
    *("compact", "mcp", "mode", "name", "plan", "ps", "reload", "resume", "rewind", "save"),
    *("draft", "review", "apply", "drop"),
    *("sessions", "show", "trace", "undo"),
)
TOOL_COMMANDS = ("tool", "t")
FLAGS = frozenset({"i"})
"""Options without a value; ``-i`` asks for the fields of a tool."""

_PAIR = re.compile(r"([^\W\d][\w.-]*)=(.*)", re.DOTALL)
# A negative number is a value, not an option.
_NUMBER = re.compile(r"-\.?\d")
_TOKEN = re.compile(r"""[ \t\r\n]*((?:[^ \t\r\n\\'"]|\\.|'[^']*'|"(?:\\.|[^"\\])*")*)""", re.DOTALL)


class CommandError(UsageError):
    """An invalid command; ``column`` counts from 1, and is 0 for an argv."""

    def __init__(self, message: str, column: int, *, hint: str) -> None:
        super().__init__(f"column {column}: {message}" if column else message, hint=hint)
        self.column = column


class ParsedCommand(Struct, frozen=True):
    """A parsed command such as ``/tool git_push --branch main``."""

    name: str
    args: tuple[str, ...] = ()
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    columns: Mapping[str, int] = field(default_factory=dict)
    """The column of each option."""
    argv: tuple[str, ...] = ()
    """The tokens after the name."""


class ClassifiedCommand(Struct, frozen=True):
    """A command with its kind: built in, a tool, or unknown."""

    type: Literal["builtin", "tool", "unknown"]
    parsed: ParsedCommand
    tool_name: str | None = None


class Token(Struct, frozen=True):
    """A token of a line without its quotes, and the column at which it begins."""

    text: str
    column: int


def is_command(text: str) -> bool:
    """Return True if the line is a command; a path such as ``/etc/hosts`` is not."""
    return re.match(r"/[A-Za-z][A-Za-z0-9_-]*(\s|$)", text) is not None


def parse_command(text: str) -> ParsedCommand:
    """Parse a line with the quotes of a shell; raise CommandError with the column of a problem."""
    start = len(text) - len(text.lstrip())
    start += text[start : start + 1] == "/"  # the slash is optional
    tokens = list(split_tokens(text, start))
    if not tokens or not tokens[0].text:
        raise CommandError("missing command after /", start + 1, hint="/help lists the commands")
    name, *rest = tokens
    args, options, columns = _parse(rest, FLAGS)
    return ParsedCommand(
        name.text, tuple(args), options, columns, tuple(token.text for token in rest)
    )


def split_tokens(text: str, start: int = 0) -> Iterator[Token]:
    """Yield the tokens of a line, quoted and escaped as in a POSIX shell, without expansions."""
    place = start
    while found := _TOKEN.match(text, place):
        end = found.end()
        if text[end : end + 1] == "\\":
            hint = "write \\\\ for a backslash"
            raise CommandError("unexpected backslash at the end", end + 1, hint=hint)
        if text[end : end + 1] in ("'", '"'):
            raise CommandError(f"unclosed quote {text[end]}", end + 1, hint="close every quote")
        if not found[1]:
            return
        yield Token(shlex.split(found[1])[0], found.start(1) + 1)
        place = end


def json_object(text: str | None) -> JsonObject:
    """Return the object of ``--json-input``; empty if the option is not given."""
    try:
        given = {} if text is None else json.loads(text)
    except (ValueError, RecursionError) as error:
        hint = "quote it as in --json-input '{...}'"
        raise UsageError(f"--json-input is not JSON: {error}", hint=hint) from None
    if not isinstance(given, dict):
        hint = """as in --json-input '{"path": "/a"}'"""
        raise UsageError("--json-input must be a JSON object", hint=hint)
    return given


def parse_arguments(
    argv: Sequence[str], flags: Collection[str] = ()
) -> tuple[list[str], dict[str, OptionValue]]:
    """Return plain arguments and options.

    Options are ``--key value``, ``--key=value``, ``-k value``, ``key=value`` and ``--flag``. The
    options in ``flags`` are booleans, which only take the values true and false.
    """
    plain, options, _ = _parse([Token(item, 0) for item in argv], flags)
    return plain, options


def _parse(
    tokens: Sequence[Token], flags: Collection[str]
) -> tuple[list[str], dict[str, OptionValue], dict[str, int]]:
    plain: list[str] = []
    options: dict[str, OptionValue] = {}
    columns: dict[str, int] = {}
    rest = list(tokens)
    while rest:
        token = rest.pop(0)
        item = token.text
        name = token.text.removeprefix("--" if token.text.startswith("--") else "-")
        if item == "--":
            plain += [each.text for each in rest]
            break
        if pair := _PAIR.fullmatch(name if _is_option(item) else item):
            name = pair[1]
            _add(options, name, pair[2])
        elif not _is_option(item):
            plain.append(item)
            continue
        else:
            if not name or name.startswith(("=", "-")):
                hint = "write --KEY VALUE, or -- before an argument that begins with a dash"
                raise CommandError(f"option '{item}' has no name", token.column, hint=hint)
            _add(options, name, _value(rest, is_flag=name in flags))
        columns.setdefault(name, token.column)
    return plain, options, columns


def _is_option(item: str) -> bool:
    return len(item) > 1 and item.startswith("-") and not _NUMBER.match(item)


def _value(rest: list[Token], *, is_flag: bool) -> str | bool:
    """Remove and return the value of an option; True if it is a flag."""
    if not rest or _is_option(rest[0].text) or (is_flag and rest[0].text not in ("true", "false")):
        return True
    return rest.pop(0).text


def _add(options: dict[str, OptionValue], name: str, value: str | bool) -> None:
    """Add an option; a repeated option becomes a list."""
    before = options.get(name)
    if before is None or isinstance(value, bool):
        options[name] = value
    elif isinstance(before, list):
        before.append(value)
    else:
        options[name] = [str(before), value]


def classify_command(parsed: ParsedCommand, tools: Iterable[Tool]) -> ClassifiedCommand:
    """Return whether a command is built in, a tool for people, or unknown; built-in ones win."""
    callable_by_hand = {tool.name for tool in tools if is_manual_tool(tool)}
    if parsed.name in BUILTINS:
        return ClassifiedCommand("builtin", parsed)
    if parsed.name in TOOL_COMMANDS and parsed.args and parsed.args[0] in callable_by_hand:
        return ClassifiedCommand("tool", parsed, parsed.args[0])
    if parsed.name in callable_by_hand:
        return ClassifiedCommand("tool", parsed, parsed.name)
    return ClassifiedCommand("unknown", parsed)


def read_typed_args(tool: str, schema: JsonObject, argv: Sequence[str]) -> tuple[JsonObject, bool]:
    """Return the typed arguments of a tool, and whether ``-i`` asks for the others."""
    names = list(schema.get("properties", {}))
    plain, options = parse_arguments(argv, boolean_options(schema) | FLAGS)
    # A tool with a field "i" keeps that option for itself.
    form = "i" in options and "i" not in names and bool(options.pop("i"))
    if plain:
        hint = f"usage: /{tool} {' '.join(_usage(schema, name) for name in names)}".rstrip()
        raise UsageError(f"'{visible(plain[0])}' is neither KEY=VALUE nor --KEY VALUE", hint=hint)
    args = args_from(options, schema)
    for given in args:
        if given not in names and schema.get("additionalProperties") is False:
            hint = did_you_mean(given, names, ", ".join(names) or "it has no options")
            raise UsageError(f"/{tool} has no option '{visible(given)}'", hint=hint)
    return args, form


def _usage(schema: JsonObject, name: str) -> str:
    if name in boolean_options(schema):
        option = f"--{name}"
    else:
        option = f"--{name} VALUE"
    if name in schema.get("required", ()):
        return option
    return f"[{option}]"
