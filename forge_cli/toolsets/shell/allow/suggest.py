"""The patterns that would cover a command: for a policy, and those that a person may grant at a prompt."""

from __future__ import annotations

import re
from collections.abc import Sequence

from forge_cli.toolsets.shell.allow.hazards import command_hazard, innermost
from forge_cli.toolsets.shell.allow.lexer import ShellWord
from forge_cli.toolsets.shell.programs.names import names
from forge_cli.toolsets.shell.programs.subcommands import known_paths, runner_named
from forge_cli.toolsets.shell.programs.table import program, program_named
from forge_cli.toolsets.shell.programs.wrappers import starts_commands

_TOKEN = re.compile(r"[!-~]+")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_SUBCOMMAND = re.compile(r"[a-z][a-z0-9:_-]*")
_RUNS_NEXT = ("run", "run-script")
"""Subcommands whose next word is what they run."""
_NEVER_GRANTED = frozenset({"state", "interactive"})
_NEVER_ALONE = names("rm rmdir unlink shred dd truncate mv kill pkill killall chmod chown chgrp")
"""Programs whose name alone does not tell what would be lost."""


def suggestion_for(words: Sequence[ShellWord]) -> str | None:
    """A pattern for a rule that would pre-approve this command; None when none would."""
    texts = [word.text for word in words]
    start, why = innermost(texts, len(texts))
    if why:
        return None
    length = start + 1 + _own_words(texts[start:])
    if texts[length - 1] in _RUNS_NEXT and not "".join(texts[length : length + 1]).startswith("-"):
        length += 1
    tokens = texts[:length]
    if not all(map(_TOKEN.fullmatch, tokens)) or command_hazard(words, length):
        return None
    return " ".join(tokens)


def _own_words(words: Sequence[str]) -> int:
    """How many words after the program say what it is called for."""
    name, rest = program(words[0]), words[1:]
    kind, known = program_named(name).kind, known_paths(name)
    if "subcommands" not in kind and known:
        return known.end(words)
    if not kind.isdisjoint({"shell", "runs_file"}):
        return next((place + 1 for place, word in enumerate(rest) if not word.startswith("-")), len(rest))
    return int("subcommands" in kind and bool(rest) and _SUBCOMMAND.fullmatch(rest[0]) is not None)


def grantable_pattern(words: Sequence[ShellWord]) -> str | None:
    """The pattern that a person may be offered for a command: what would cover it.

    There is none for what starts any other program, and none that says nothing but that a program destroys or runs
    what it is told.
    """
    texts = [word.text for word in words]
    name = program(texts[0])
    found = program_named(name)
    if not _NAME.fullmatch(texts[0]) or starts_commands(found) or not found.kind.isdisjoint(_NEVER_GRANTED):
        return None
    cover = suggestion_for(words)
    told = not found.kind.isdisjoint({"interpreter", "subcommands"}) or runner_named(name) or known_paths(name)
    return None if cover == texts[0] and (told or name in _NEVER_ALONE) else cover
