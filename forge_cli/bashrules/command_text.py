"""Texts of commands as people see them: quoted where a shell needs it, on one line, cut."""

from __future__ import annotations

import re

from forge_cli.bashrules.allow.lexer import ShellWord
from forge_cli.bashrules.allow.values import Redirect, Simple
from forge_cli.bashrules.block.frames import FoundCommand
from forge_cli.bashrules.block.quoting import restore
from forge_cli.bashrules.text import shortened, visible

PLAIN_WORD = re.compile(r"[A-Za-z0-9_./:@%+,=-]+")
_NESTED_MAX = 2000


def shown_command(command: Simple) -> str:
    words = [word.text if word.unknown else quoted_word(word.text) for word in command.words]
    words = [*map(_shown_assignment, command.assigned), *words]
    return visible(" ".join([*words, *map(_shown_redirect, command.redirects)]))


def _shown_assignment(word: ShellWord) -> str:
    name, _, value = word.text.partition("=")
    return f"{name}={value if word.pieces or not value else quoted_word(value)}"


def _shown_redirect(redirect: Redirect) -> str:
    """``2>&1``, ``> out.txt``; of a here-document only the operator."""
    operator = f"{redirect.descriptor}{redirect.operator}"
    if redirect.operator == "<<":
        return operator
    return f"{operator}{'' if operator.endswith('&') else ' '}{quoted_word(redirect.target.text)}"


def found_text(command: str, found: FoundCommand) -> str:
    """The command as it stands in the line; long nested ones would repeat one another and are put together again."""
    if found.nested and found.end - found.start > _NESTED_MAX:
        return visible(" ".join(quoted_word(restore(word)) for word in found.words))
    return without_padding(command[found.start : found.end])


def without_padding(text: str) -> str:
    return visible(" ".join(text.split()))


def quoted_word(word: str) -> str:
    return word if PLAIN_WORD.fullmatch(word) else "'" + word.replace("'", "'\\''") + "'"


def in_quotes(text: str) -> str:
    return f"'{shortened(text)}'"
