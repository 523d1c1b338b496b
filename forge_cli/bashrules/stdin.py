"""The input of a shell that waits for lines: which commands may read it, and which lines move the shell."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from forge_cli.bashrules.allow.folders import CommandPlace
from forge_cli.bashrules.allow.values import Redirect, Simple
from forge_cli.bashrules.block.quoting import bare_words
from forge_cli.bashrules.line import ReadLine
from forge_cli.bashrules.programs.git import GitWords, git_is, git_rows
from forge_cli.bashrules.programs.table import program, program_named

_HARMLESS = frozenset({"--noprofile", "--norc"})
_READ_COMMANDS = frozenset({"shell", "reads_script", "starter"})
_BECOME_SHELLS = frozenset({"sudo", "doas", "shell"})
"""Programs that start one unless they are told what else to start; the variable ``$SHELL`` names one."""
_INPUT = frozenset({"<", "<<", "<<<", "<>"})
_ANYWHERE = "cd /\n"
"""In place of lines that may have changed the folder in a way that is not seen."""
_OWN_INPUT = ("stdin", "/dev/", "/proc/")


def is_bare_shell(line: ReadLine) -> bool:
    """Whether a command is nothing but bash, which reads a line as the rules do: other shells have another grammar."""
    simple = line.commands
    if len(simple) != 1 or simple[0].redirects or simple[0].assigned:
        return False
    name, *options = simple[0].texts
    return name == "bash" and set(options) <= _HARMLESS


def may_be_shell(command: str) -> bool:
    """Whether something in a command may take its input for commands, in another grammar than that of bash."""
    names = set(map(program, chain.from_iterable(bare_words(command)))) - {"bash", "rbash"}
    if not names.isdisjoint(_BECOME_SHELLS):
        return True
    return any(not program_named(name).kind.isdisjoint(_READ_COMMANDS) for name in names)


def moves_shell(line: ReadLine) -> str:
    """Return the text if it may change the folder or make links; what cannot be read may go anywhere."""
    if line.unreadable is not None:
        return _ANYWHERE
    if any(command.assigned for command in line.commands):  # CDPATH, say
        return _ANYWHERE
    start = CommandPlace()
    return line.text if any(start.after(command) != start for command in line.commands) else ""


def may_read(line: ReadLine) -> bool:
    """Whether a command of these lines may read what is written after them."""
    return _reader(line) is not None


def may_read_itself(line: ReadLine) -> bool:
    """Whether a command of these lines may read the lines after its own: bash has not read them when it starts."""
    reader = _reader(line)
    if reader is None:
        return False
    end = line.text.find("\n", reader)
    return end >= 0 and line.text[end:].strip() != ""


def _reader(line: ReadLine) -> int | None:
    """The place of the first command that may read."""
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
    """Whether the input of a command is surely not that of the shell."""
    given = any(
        redirect.operator in _INPUT and redirect.descriptor.lstrip("0") == ""
        for redirect in command.redirects
    )
    copied = any(
        redirect.operator in ("<&", ">&") and _copies_input(redirect)
        for redirect in command.redirects
    )
    return (given or command.piped) and not copied


def _copies_input(redirect: Redirect) -> bool:
    """Whether a descriptor becomes the input, or a copy of the input another descriptor."""
    number, target = redirect.descriptor.lstrip("0"), redirect.target.text.rstrip("-").lstrip("0")
    implied = redirect.descriptor == "" and redirect.operator == ">&"
    return (number == "" and not implied) or target == ""


def _names_input(word: str) -> bool:
    """``-`` by itself, attached to an option or behind ``=``, and the files that stand for the input."""
    return (word.endswith("-") and (word == "-" or word[:1] == "-")) or any(
        name in word for name in _OWN_INPUT
    )


def _git_reads_nothing(words: Sequence[str]) -> bool:
    place = GitWords(words).subcommand(-1)
    subcommand, options = (
        "".join(words[place : place + 1]),
        [word for word in words[place + 1 :] if word[:1] == "-"],
    )
    if git_is(subcommand, "no_input"):
        return True
    plain = frozenset[str]().union(*(row.no_input for row in git_rows(subcommand)))
    return bool(plain) and all(_is_plain(word, plain) for word in options)


def _is_plain(option: str, plain: frozenset[str]) -> bool:
    if option.startswith("--"):
        return option == "--" or option.partition("=")[0] in plain
    return all(f"-{letter}" in plain for letter in option[1:])
