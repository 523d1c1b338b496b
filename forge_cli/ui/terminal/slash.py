"""Commands that people type with a slash, and the arguments of ``forge tools call``, read the same way."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from forge_cli.core.errors import UsageError
from forge_cli.core.fields import alternatives, kinds
from forge_cli.core.signature import JsonObject
from forge_cli.core.tool import Tool, is_manual_tool

BUILTINS = ("help", "model", "clear", "status", "tools", "exit")
TOOL_COMMANDS = ("tool", "t")

_PAIR = re.compile(r"([^\W\d][\w.-]*)=(.*)", re.DOTALL)
_NUMBER = re.compile(r"-\.?\d")

OptionValue = str | bool | list[str]


@dataclass(frozen=True)
class ParsedCommand:
    """``/tool git_push --branch main``: the name after the slash, the plain arguments, the options."""

    name: str
    args: tuple[str, ...] = ()
    options: Mapping[str, OptionValue] = field(default_factory=dict)


@dataclass(frozen=True)
class ClassifiedCommand:
    type: Literal["builtin", "tool", "unknown"]
    parsed: ParsedCommand
    tool_name: str | None = None


def is_command(text: str) -> bool:
    """Is this line a command, and not something said to the model? A path such as ``/etc/hosts`` is none."""
    return re.match(r"/[A-Za-z][A-Za-z0-9_-]*(\s|$)", text) is not None


def parse_command(text: str) -> ParsedCommand:
    """Read a line that ``is_command``; quotes work as in a shell."""
    try:
        argv = shlex.split(text.strip().removeprefix("/"))
    except ValueError as error:
        raise UsageError(f"cannot read the command: {error}", hint="close every quote") from None
    if not argv or not argv[0]:
        raise UsageError("a slash alone is not a command", hint="/help lists the commands")
    args, options = parse_arguments(argv[1:])
    return ParsedCommand(argv[0], tuple(args), options)


def parse_arguments(argv: Sequence[str], flags: Collection[str] = ()) -> tuple[list[str], dict[str, OptionValue]]:
    """Plain arguments and options: ``--key value``, ``--key=value``, ``key=value``, ``--flag``, ``-i``.

    Options in ``flags`` are booleans and take no value after them, unless that is true or false.
    """
    plain: list[str] = []
    options: dict[str, OptionValue] = {}
    rest = list(argv)
    while rest:
        item = rest.pop(0)
        if item == "--":
            plain += rest
            break
        if pair := _PAIR.fullmatch(item.removeprefix("--") if item.startswith("--") else item):
            _add(options, pair[1], pair[2])
        elif item.startswith("--"):
            name = item.removeprefix("--")
            _add(options, name, _value(rest, is_flag=name in flags))
        elif len(item) > 1 and item.startswith("-") and not _NUMBER.match(item):
            _add(options, item.removeprefix("-"), True)
        else:
            plain.append(item)
    return plain, options


def _value(rest: list[str], *, is_flag: bool) -> str | bool:
    if not rest or (rest[0].startswith("-") and len(rest[0]) > 1 and not _NUMBER.match(rest[0])):
        return True
    if is_flag and rest[0] not in ("true", "false"):
        return True
    return rest.pop(0)


def _add(options: dict[str, OptionValue], name: str, value: str | bool) -> None:
    """An option given again makes a list."""
    before = options.get(name)
    if before is None or isinstance(value, bool):
        options[name] = value
    elif isinstance(before, list):
        before.append(value)
    else:
        options[name] = [str(before), value]


def classify_command(parsed: ParsedCommand, tools: Iterable[Tool]) -> ClassifiedCommand:
    """Is it one of forge's own commands, or a tool that a person may call? Built-in commands win."""
    callable_by_hand = {tool.name for tool in tools if is_manual_tool(tool)}
    if parsed.name in BUILTINS:
        return ClassifiedCommand("builtin", parsed)
    if parsed.name in TOOL_COMMANDS and parsed.args and parsed.args[0] in callable_by_hand:
        return ClassifiedCommand("tool", parsed, parsed.args[0])
    if parsed.name in callable_by_hand:
        return ClassifiedCommand("tool", parsed, parsed.name)
    return ClassifiedCommand("unknown", parsed)


def boolean_options(schema: JsonObject) -> frozenset[str]:
    """The names of a tool's boolean arguments."""
    return frozenset(name for name, admitted in _admitted(schema).items() if admitted == {"boolean"})


def args_from(options: Mapping[str, OptionValue], schema: JsonObject) -> JsonObject:
    """Options as the args of a tool: names may use dashes for underscores, and one value is enough for a list."""
    admitted = _admitted(schema)
    found: JsonObject = {}
    for option, value in options.items():
        name = option if option in admitted else option.replace("-", "_")
        name = name if name in admitted else option
        is_item = "array" in admitted.get(name, ()) and isinstance(value, str) and not value.startswith("[")
        found[name] = [value] if is_item and "string" not in admitted[name] else value
    return found


def _admitted(schema: JsonObject) -> dict[str, frozenset[str]]:
    """The JSON types that each argument may have; null is left out, since nobody types it."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    return {
        name: frozenset(kind for branch in alternatives(declared, schema) for kind in kinds(branch)) - {"null"}
        for name, declared in properties.items()
    }
