"""Whether a command may read what is written to the shell that started it, and so take a piece of it away."""

from __future__ import annotations

from collections.abc import Sequence

from forge_cli.toolsets.shell.allow.lexer import UnreadableLine
from forge_cli.toolsets.shell.allow.parser import read_line
from forge_cli.toolsets.shell.allow.values import Redirect, Simple
from forge_cli.toolsets.shell.programs.git import GitWords, git_is, git_rows
from forge_cli.toolsets.shell.programs.table import program_named

_INPUT = frozenset({"<", "<<", "<<<", "<>"})
_OWN_INPUT = ("stdin", "/dev/", "/proc/")


def may_read(text: str) -> bool:
    """Whether a command of these lines may read what is written after them."""
    return _reader(text) is not None


def may_read_itself(text: str) -> bool:
    """Whether a command of these lines may read the lines after its own: bash has not read them when it starts."""
    reader = _reader(text)
    if reader is None:
        return False
    end = text.find("\n", reader)
    return end >= 0 and text[end:].strip() != ""


def _reader(text: str) -> int | None:
    """The place of the first command that may read."""
    try:
        return next((command.at for command in read_line(text) if not _reads_nothing(command)), None)
    except UnreadableLine:
        return 0


def _reads_nothing(command: Simple) -> bool:
    if _has_own_input(command):
        return True
    if any(word.unknown for word in command.words):
        return False
    name, *rest = [word.text for word in command.words] or [":"]
    if any(map(_names_input, rest)):
        return False
    if name == "git":
        return _git_reads_nothing(rest)
    if name == "cat":
        return any(not word.startswith("-") for word in rest)
    return "no_input" in program_named(name).kind


def _has_own_input(command: Simple) -> bool:
    """Whether the input of a command is surely not that of the shell."""
    given = any(redirect.operator in _INPUT and redirect.descriptor.lstrip("0") == "" for redirect in command.redirects)
    copied = any(redirect.operator in ("<&", ">&") and _copies_input(redirect) for redirect in command.redirects)
    return (given or command.piped) and not copied


def _copies_input(redirect: Redirect) -> bool:
    """Whether a descriptor becomes the input, or a copy of the input another descriptor."""
    number, target = redirect.descriptor.lstrip("0"), redirect.target.text.rstrip("-").lstrip("0")
    implied = redirect.descriptor == "" and redirect.operator == ">&"
    return (number == "" and not implied) or target == ""


def _names_input(word: str) -> bool:
    """``-`` by itself, attached to an option or behind ``=``, and the files that stand for the input."""
    return (word.endswith("-") and (word == "-" or word[:1] == "-")) or any(name in word for name in _OWN_INPUT)


def _git_reads_nothing(words: Sequence[str]) -> bool:
    place = GitWords(words).subcommand(-1)
    subcommand, options = "".join(words[place : place + 1]), [word for word in words[place + 1 :] if word[:1] == "-"]
    if git_is(subcommand, "no_input"):
        return True
    plain = frozenset(option for row in git_rows(subcommand) for option in row.no_input.split())
    return bool(plain) and all(_is_plain(word, plain) for word in options)


def _is_plain(option: str, plain: frozenset[str]) -> bool:
    if option.startswith("--"):
        return option == "--" or option.partition("=")[0] in plain
    return all(f"-{letter}" in plain for letter in option[1:])
