"""Commands as text for people: quoted where a shell needs it, on one line, and shortened."""

from __future__ import annotations

import re

from forge_cli.bashrules.allow.lexer import ShellWord
from forge_cli.bashrules.allow.values import Redirect, Simple
from forge_cli.bashrules.block.frames import FoundCommand
from forge_cli.bashrules.block.quoting import restore
from forge_cli.bashrules.text import shortened, visible

PLAIN_WORD = re.compile(r"[A-Za-z0-9_./:@%+,=-]+")
_MAX_NESTED = 2000
"""Characters up to which a nested command is shown as it is written."""


def shown_command(command: Simple) -> str:
    """Return a command as text, with its assignments and redirections."""
    words = [word.text if word.unknown else quoted_word(word.text) for word in command.words]
    words = [*map(_shown_assignment, command.assigned), *words]
    return visible(" ".join([*words, *map(_shown_redirect, command.redirects)]))


def _shown_assignment(word: ShellWord) -> str:
    name, _, value = word.text.partition("=")
    if word.pieces or not value:
        return f"{name}={value}"
    return f"{name}={quoted_word(value)}"


def _shown_redirect(redirect: Redirect) -> str:
    """Return ``2>&1`` or ``> out.txt``; of a here-document, only the operator."""
    operator = f"{redirect.descriptor}{redirect.operator}"
    if redirect.operator == "<<":
        return operator
    blank = "" if operator.endswith("&") else " "
    return f"{operator}{blank}{quoted_word(redirect.target.text)}"


def found_text(command: str, found: FoundCommand) -> str:
    """Return the text of a command in the line.

    A long nested command is composed of its words, because texts of nested commands contain one
    another.
    """
    if found.nested and found.end - found.start > _MAX_NESTED:
        return visible(" ".join(quoted_word(restore(word)) for word in found.words))
    return without_padding(command[found.start : found.end])


def without_padding(text: str) -> str:
    """Return the text on one line with single blanks."""
    return visible(" ".join(text.split()))


def quoted_word(word: str) -> str:
    """Return a word as a shell would need it, in quotes unless it is plain."""
    if PLAIN_WORD.fullmatch(word):
        return word
    return "'" + word.replace("'", "'\\''") + "'"


def in_quotes(text: str) -> str:
    """Return a text in quotes, cut if it is too long for a sentence."""
    return f"'{shortened(text)}'"
