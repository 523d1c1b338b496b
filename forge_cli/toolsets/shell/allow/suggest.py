"""The pattern that would cover a command: no wider than its program and subcommand, and only where it would help."""

from __future__ import annotations

import re
from collections.abc import Sequence

from forge_cli.toolsets.shell.allow.hazards import command_hazard, innermost
from forge_cli.toolsets.shell.allow.lexer import ShellWord
from forge_cli.toolsets.shell.programs.names import names
from forge_cli.toolsets.shell.programs.wrappers import SHELLS, program

_HAVE_SUBCOMMANDS = names(
    """git gh hg svn cargo rustup go npm pnpm yarn bun deno pip pipx uv poetry pdm hatch nox docker podman kubectl helm
    terraform brew apt apt-get dnf systemctl journalctl make just task dotnet mvn gradle conda bundle aws gcloud az"""
)
_RUN_FILES = SHELLS | names("python pypy node ruby perl php")
_TOKEN = re.compile(r"[!-~]+")


def suggestion_for(words: Sequence[ShellWord]) -> str | None:
    """A pattern for a rule that would pre-approve this command; None when none would."""
    texts = [word.text for word in words]
    start, why = innermost(texts, len(texts))
    if why:
        return None
    length = start + 1 + _own_words(texts[start:])
    tokens = texts[:length]
    if not all(map(_TOKEN.fullmatch, tokens)) or command_hazard(words, length):
        return None
    return " ".join(tokens)


def _own_words(words: Sequence[str]) -> int:
    """How many words after the program say what it is called for."""
    name, rest = program(words[0]), words[1:]
    if name in _RUN_FILES:
        return next((place + 1 for place, word in enumerate(rest) if not word.startswith("-")), len(rest))
    return int(name in _HAVE_SUBCOMMANDS and bool(rest) and re.fullmatch(r"[a-z][a-z0-9:_-]*", rest[0]) is not None)
