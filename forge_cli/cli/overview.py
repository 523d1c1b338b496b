"""The help: commands by purpose, and options by how often they are used."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

ROOT = "forge"


def _read_table() -> dict[str, list[str]]:
    """Return the help text of each command or group, followed by its examples."""
    found: dict[str, list[str]] = {}
    for line in Path(__file__).with_name("commands.txt").read_text("utf-8").splitlines():
        if line.startswith(" "):
            found[next(reversed(found))].append(line.strip())  # an example of the last command
        elif line and not line.startswith("#"):
            name, _, text = line.partition(": ")
            found[name] = [text]
    return found


TABLE = _read_table()
COMMANDS = {name: text for name, (text, *examples) in TABLE.items() if examples and name != ROOT}
"""Help texts of forge's own commands; entry points ``command.NAME`` name their modules."""
SECTIONS = {
    "Everyday": (
        "run",
        "chat",
        "web",
        "inbox",
        "attach",
        "logs",
        "send",
        "stop",
        "drafts",
        "undo",
        "approvals",
        "sessions",
    ),
    "Look": ("approve", "replay", "models", "config", "doctor", "report", "docs", "help"),
    "Make": ("worker", "tools", "plugins", "mcp", "test", "keys", "lock", "trust"),
    "Run elsewhere": ("batch", "serve"),
}
"""The sections of the main help; commands of plugins come last."""
FROM_PACKAGES = "From packages"
OPTIONS = {
    "Often used": (
        "model",
        "interactive",
        "print",
        "y",
        "cd",
        "attach",
        "task",
        "output",
        "port",
        "no-open",
    ),
    "Limits": ("max-turns", "max-tokens", "max-cost", "max-time", "concurrency", "retries"),
    "Sessions": ("continue", "resume", "fork", "ephemeral", "record", "replay", "restart"),
    "Output": ("output-format", "json", "output-schema", "trace"),
}
"""The sections of commands with many options; other options go to the last one."""
MANY = 12


def examples_of(path: Sequence[str]) -> Sequence[str]:
    """Return the examples of a command, or the first example of each command of a group."""
    name = " ".join(path) or ROOT
    if examples := TABLE.get(name, [""])[1:]:
        return examples
    firsts: list[str] = []
    for command, (_, *examples) in TABLE.items():
        if command.startswith(f"{name} "):
            firsts.append(examples[0])
    return firsts[:3]


def write_overview(commands: Mapping[str, Any], formatter: Any, *, by_sections: bool) -> None:
    """Write a line for each command."""
    order = [name.split()[-1] for name in COMMANDS]
    listed = {"Commands": tuple(sorted(commands, key=[*order, *commands].index))}
    if by_sections:
        known = set(chain.from_iterable(SECTIONS.values()))
        listed = {**SECTIONS, FROM_PACKAGES: tuple(sorted(commands.keys() - known))}
    width = max(map(len, commands), default=0)
    for title, names in listed.items():
        rows = [
            (f"{name:<{width}}", commands[name].get_short_help_str(200))
            for name in names
            if name in commands
        ]
        _write_rows(title, rows, formatter)


def write_parameters(parameters: Sequence[Any], context: Any, formatter: Any) -> None:
    """Write a line for each argument and option, without the types that typer would add."""
    arguments = [each for each in parameters if each.param_type_name == "argument"]
    _write_rows(
        "Arguments",
        [(re.sub(r" <.*>$", "", name), text) for name, text in _rows(arguments, context)],
        formatter,
    )
    options = [each for each in parameters if each.param_type_name == "option"]
    listed = {"Options": options}
    if len(options) > MANY:
        title = {}
        for known, names in OPTIONS.items():
            title.update(dict.fromkeys(names, known))
        listed = {known: [] for known in (*OPTIONS, "More")}
        for option in options:
            name = max(option.opts, key=len).lstrip("-")  # --model rather than -m
            listed[title.get(name, "More")].append(option)
    for name, group in listed.items():
        _write_rows(name, _rows(group, context), formatter)


def _rows(parameters: Sequence[Any], context: Any) -> list[tuple[str, str]]:
    return [record for each in parameters if (record := each.get_help_record(context))]


def _write_rows(title: str, rows: Sequence[tuple[str, str]], formatter: Any) -> None:
    if rows:
        with formatter.section(title):
            formatter.write_dl([(re.sub(r"<(.*)>$", r"\1", name), text) for name, text in rows])
