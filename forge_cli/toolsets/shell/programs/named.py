"""Programs that start a tool by its name: ``python -m mypy`` and ``yarn eslint`` are judged as the tool itself."""

from __future__ import annotations

import re
from collections.abc import Sequence

from forge_cli.toolsets.shell.programs.subcommands import subcommands
from forge_cli.toolsets.shell.programs.table import program, program_named

_IN_ENVIRONMENT = re.compile(r"[\w.-]+:[\w.-]+")
"""``hatch run test:pytest``."""


def named_tool(words: Sequence[str]) -> tuple[int, str] | None:
    """The tool that a program is told to start by name, and where it stands."""
    found = program_named(program(words[0]))
    tools = found.names("tools")
    if _IN_ENVIRONMENT.fullmatch(words[0]):
        return 0, words[0].rpartition(":")[2]
    if not tools:
        return None
    if "modules" in found.kind:
        module = python_module(words) if "python" in found.kind else _taken_module(words)
        return (module[0], _tool(module[1])) if module and _tool(module[1]) in tools else None
    places = list(subcommands(words, 0))
    places += [
        after
        for pos in places
        if list(words[pos : pos + 1]) in (["run"], ["run-script"])
        for after in subcommands(words, pos)
    ]
    return next(((pos, words[pos]) for pos in places if pos < len(words) and words[pos] in tools), None)


def python_module(words: Sequence[str]) -> tuple[int, str] | None:
    """The module that ``python -m`` starts, and the place of the word that ends with its name."""
    pos = 1
    while pos < len(words) and words[pos].startswith("-") and words[pos] != "-":
        word = words[pos]
        for place, letter in enumerate(word[1:], 2):
            if letter == "m" and not word.startswith("--"):
                if word[place:]:
                    return pos, word[place:]
                return (pos + 1, words[pos + 1]) if pos + 1 < len(words) else None
            if letter in "WX":
                pos += place == len(word)
                break
        pos += 1
    return None


def _taken_module(words: Sequence[str]) -> tuple[int, str] | None:
    """The same for programs that take ``-m`` among options of their own."""
    for pos, word in enumerate(words[1:-1], 1):
        if word in ("-m", "--module"):
            return pos + 1, words[pos + 1]
        if word.startswith(("-m", "--module=")):
            return pos, word.removeprefix("--module=").removeprefix("-m")
    return None


def _tool(module: str) -> str:
    """``pip.__main__`` and ``pip._internal`` are pip."""
    return module.partition(".")[0].lower() if module.lower() != "py.test" else "pytest"
