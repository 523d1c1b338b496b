"""Whether a command may read what is written to the shell that started it, and so take a piece of it away."""

from __future__ import annotations

from forge_cli.toolsets.shell.allow.lexer import Unreadable
from forge_cli.toolsets.shell.allow.parser import Simple, read_line
from forge_cli.toolsets.shell.programs.git import GitWords
from forge_cli.toolsets.shell.programs.names import names

_READS_NOTHING = names(
    """echo printf true false : test [ pwd cd type exit ls mkdir touch date id whoami uname hostname basename dirname
    seq sleep stat du df nproc uptime find"""
)
_GIT_READS_NOTHING = names(
    """add blame branch checkout describe diff fetch log ls-files ls-tree merge-base pull push remote reset restore
    rev-list rev-parse show stash status switch tag"""
)
_INPUT = frozenset({"<", "<<", "<<<", "<>"})


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
    """Where the first command stands that may read."""
    try:
        return next((command.at for command in read_line(text) if not _reads_nothing(command)), None)
    except Unreadable:
        return 0


def _reads_nothing(command: Simple) -> bool:
    given = any(redirect.operator in _INPUT and redirect.descriptor in ("", "0") for redirect in command.redirects)
    if (given or command.piped) and all(redirect.operator != "<&" for redirect in command.redirects):
        return True
    name, *rest = [word.text for word in command.words] or [":"]
    if any(word == "-" or word.endswith("=-") or "stdin" in word or "/dev/" in word for word in rest):
        return False
    if name == "git":
        place = GitWords(rest).subcommand(-1)
        return place < len(rest) and rest[place] in _GIT_READS_NOTHING
    if name == "cat":
        return any(not word.startswith("-") for word in rest)
    return name in _READS_NOTHING
