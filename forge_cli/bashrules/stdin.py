"""The input of a waiting shell: commands that may read it, and lines that move the shell."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from forge_cli.bashrules.allow.folders import CommandPlace
from forge_cli.bashrules.allow.values import Redirect, Simple
from forge_cli.bashrules.block.quoting import bare_words
from forge_cli.bashrules.line import ReadLine
from forge_cli.bashrules.programs.git import GitWords, git_is, git_rows
from forge_cli.bashrules.programs.table import program, program_named

_HARMLESS_OPTIONS = frozenset({"--noprofile", "--norc"})
_READ_COMMANDS = frozenset({"shell", "reads_script", "starter"})
_BECOME_SHELLS = frozenset({"sudo", "doas", "shell"})
"""Programs that start a shell by default; ``$SHELL`` names one, too."""
_INPUT = frozenset({"<", "<<", "<<<", "<>"})
_ANYWHERE = "cd /\n"
"""A replacement for lines that may have changed the folder in an unknown way."""
_OWN_INPUT = ("stdin", "/dev/", "/proc/")


def is_bare_shell(line: ReadLine) -> bool:
    """Return True for bash alone, which reads lines as the rules do; other shells differ."""
    simple = line.commands
    if len(simple) != 1 or simple[0].redirects or simple[0].assigned:
        return False
    name, *options = simple[0].texts
    return name == "bash" and set(options) <= _HARMLESS_OPTIONS


def may_be_shell(command: str) -> bool:
    """Return True if a command may start a shell that reads its input in another grammar."""
    names = set(map(program, chain.from_iterable(bare_words(command)))) - {"bash", "rbash"}
    if not names.isdisjoint(_BECOME_SHELLS):
        return True
    return any(not program_named(name).kind.isdisjoint(_READ_COMMANDS) for name in names)


def moves_shell(line: ReadLine) -> str:
    """Return the text if it may change the folder or make links, or else an empty text."""
    if line.unreadable is not None:
        return _ANYWHERE
    if any(command.assigned for command in line.commands):  # CDPATH changes what cd does
        return _ANYWHERE
    start = CommandPlace()
    if any(start.after(command) != start for command in line.commands):
        return line.text
    return ""


def may_read(line: ReadLine) -> bool:
    """Return True if a command of these lines may read what is written after them."""
    return _reader(line) is not None


def may_read_itself(line: ReadLine) -> bool:
    """Return True if a command may read the lines after its own, before bash reads them."""
    reader = _reader(line)
    if reader is None:
        return False
    end = line.text.find("\n", reader)
    return end >= 0 and line.text[end:].strip() != ""


def _reader(line: ReadLine) -> int | None:
    """Return the place of the first command that may read the input, or None."""
    if line.unreadable is not None:
        return 0
    return next((command.at for command in line.commands if not _reads_nothing(command)), None)


def _reads_nothing(command: Simple) -> bool:
    if command.assigned:
        return False
    if _has_own_input(command):
        return True
    if any(word.unknown for word in command.words):
        return False
    name, *rest = command.texts or [":"]
    if any(map(_names_input, rest)):
        return False
    if name == "git":
        return _git_reads_nothing(rest)
    if name == "cat":
        return any(not word.startswith("-") for word in rest)
    return "no_input" in program_named(name).kind


def _has_own_input(command: Simple) -> bool:
    """Return True if a command cannot read the input of the shell."""
    has_own = command.piped
    for redirect in command.redirects:
        if redirect.operator in _INPUT and redirect.descriptor.lstrip("0") == "":
            has_own = True
        if redirect.operator in ("<&", ">&") and _copies_input(redirect):
            return False
    return has_own


def _copies_input(redirect: Redirect) -> bool:
    """Return True if ``<&`` or ``>&`` replaces the input, or copies it to another descriptor."""
    number = redirect.descriptor.lstrip("0")
    target = redirect.target.text.rstrip("-").lstrip("0")
    is_output = redirect.descriptor == "" and redirect.operator == ">&"
    return (number == "" and not is_output) or target == ""


def _names_input(word: str) -> bool:
    """Return True for ``-``, alone or attached to an option, and for files like /dev/stdin."""
    if word.startswith("-") and word.endswith("-"):
        return True
    return any(name in word for name in _OWN_INPUT)


def _git_reads_nothing(words: Sequence[str]) -> bool:
    place = GitWords(words).subcommand(-1)
    subcommand = "".join(words[place : place + 1])
    options = [word for word in words[place + 1 :] if word[:1] == "-"]
    if git_is(subcommand, "no_input"):
        return True
    plain = frozenset[str]().union(*(row.no_input for row in git_rows(subcommand)))
    return bool(plain) and all(_is_plain(word, plain) for word in options)


def _is_plain(option: str, plain: frozenset[str]) -> bool:
    if option.startswith("--"):
        return option == "--" or option.partition("=")[0] in plain
    return all(f"-{letter}" in plain for letter in option[1:])
