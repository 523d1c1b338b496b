"""Programs that are in no table: an option with a value that looks like a file or a program may be anything."""

from __future__ import annotations

import re
from collections.abc import Sequence

from forge_cli.toolsets.shell.programs.names import names
from forge_cli.toolsets.shell.programs.table import program_named

_NAMES_A_FILE = re.compile(r"[/~]|\A[.@]|\.[A-Za-z][A-Za-z0-9]{0,9}\Z")
_IS_CODE = re.compile(r"[;|&`$()<>]")
_TELLS_WHAT_TO_START = re.compile(
    r"exec|cmd|command|program|plugin|hook|script|shell|pager|editor|browser|load|module|library|config|rcfile|init"
    r"|require|import|eval|wrapper|helper|output|file|dir\b|prefix|root|path",
    re.IGNORECASE,
)
_URL = re.compile(r"https?://[^;|&`$()<>]*")
_STARTED_OFTEN = names(
    """python python3 perl ruby node php lua vi vim nano emacs less more sudo env xargs make curl wget ssh nc id rm"""
)


def unknown_option(words: Sequence[str], reach: int) -> str | None:
    """An option with a value in one word with it that may be a file or a program, and that no rule spells."""
    for place, word in enumerate(words[1:], 1):
        if word == "--":
            return None
        if place >= reach and word.startswith("-") and _may_start(word):
            return f"{words[0]} is not known here, and {word} may name a file or a program; a rule can spell it"
    return None


def passed_on(words: Sequence[str]) -> str | None:
    """An option among words for another program that may name a file or a program, in this word or the next."""
    for word in words:
        if word.startswith("-") and (_may_start(word) or _TELLS_WHAT_TO_START.search(word.partition("=")[0])):
            return word
    return None


def _may_start(option: str) -> bool:
    name, equals, value = option.partition("=")
    if not equals:
        return not option.startswith("--") and _looks_odd(option[2:])
    return value != "" and (_TELLS_WHAT_TO_START.search(name) is not None or _looks_odd(value))


def _looks_odd(value: str) -> bool:
    if _URL.fullmatch(value):
        return False
    first = value.split(maxsplit=1)[0] if value.strip() else ""
    return bool(_NAMES_A_FILE.search(value) or _IS_CODE.search(value)) or _is_often_started(first)


def _is_often_started(name: str) -> bool:
    return name in _STARTED_OFTEN or "shell" in program_named(name).kind
