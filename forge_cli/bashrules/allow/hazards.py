"""Why a simple command may do more than its rule says, and patterns that would cover it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import pairwise

from forge_cli.bashrules.allow.lexer import ShellWord
from forge_cli.bashrules.allow.programs import Argv, program_hazard
from forge_cli.bashrules.programs.discarding import discards, git_form
from forge_cli.bashrules.programs.subcommands import (
    Wrapper,
    known_paths,
    named_tool,
    path_ends,
    runner_named,
    starts_commands,
    wrapper_named,
)
from forge_cli.bashrules.programs.table import program, program_named, word_set

_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,=-]+")
_MAX_TOOLS = 8
"""Tools that may start one another, as in ``poetry run python -m pytest``."""
_CHOOSES_FILES = re.compile(r"--(?:in|ex)clude(?:-dir)?=[^?\[]*")
"""Options that keep their meaning whatever names a star in them finds."""
_SCRIPT_OPTIONS = re.compile(r"-[exuvfn]+|--(?:posix|norc|noprofile|restricted)")

_TOKEN = re.compile(r"[!-~]+")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_SUBCOMMAND = re.compile(r"[a-z][a-z0-9:_-]*")
_RUNS_NEXT = ("run", "run-script")
"""Subcommands that run their next word."""
_NEVER_GRANTED = frozenset({"state", "interactive"})
_BY_ITS_WORDS = word_set(
    "rm rmdir unlink shred dd truncate mv kill pkill killall chmod chown chgrp mount umount fdisk "
    "sfdisk parted mkfs iptables ip6tables nft ufw sysctl modprobe rmmod useradd usermod userdel "
    "crontab curl wget http https xh"
)
"""Programs of which every word matters, because they lose data or send it elsewhere."""
_KEYWORDS = word_set(
    "if then elif else fi for while until do done case esac select function coproc in time { } ! "
    "[[ ]] break continue exit return wait jobs fg bg times"
)
"""Words of the shell itself, with which no command begins."""


def command_hazard(
    words: Sequence[ShellWord], reach: int, *, known_only: bool = False
) -> str | None:
    """Return why a pattern of ``reach`` tokens must not pre-approve these words, or None.

    With ``known_only``, an option that no table knows asks, whatever the program.
    """
    if words[0].glob:
        return "the name of the program is a glob"
    for word in words:
        is_option = word.glob and word.text.startswith("-")
        if is_option and not _CHOOSES_FILES.fullmatch(word.text):
            return f"{word.text} can become another option"
    globs = frozenset(place for place, word in enumerate(words) if word.glob)
    argv = Argv([word.text for word in words], globs)
    for _ in range(_MAX_TOOLS):
        start, why = innermost(argv.words, reach)
        argv = _behind(argv, start, argv.words[start])
        reach -= start
        tool = named_tool(argv.words)
        why = why or program_hazard(
            program(argv.words[0]), argv, reach, known_only=known_only and tool is None
        )
        if why or tool is None:
            return why
        # `poetry run pytest`: the tool is judged like a program of its own
        argv = _behind(argv, *tool)
        reach -= tool[0]
    return "too many tools start one another"


def _behind(argv: Argv, start: int, name: str) -> Argv:
    """Return the words from ``start`` on, the first replaced by the name of a tool."""
    globs = frozenset(place - start for place in argv.globs if place > start)
    return Argv([name, *argv.words[start + 1 :]], globs)


def innermost(words: list[str], reach: int) -> tuple[int, str | None]:
    """Return the start of the command inside all wrappers, and why a pattern may not reach it."""
    start = 0
    is_reparsed = False
    while True:
        name = program(words[start])
        if "shell" in program_named(name).kind:
            return start, _shell_hazard(words, start, reach)
        wrapper, inner = _inner(words, start, name)
        if inner == start:
            return start, None
        if inner is None or inner >= reach:
            return start, f"{name} starts another command, and no rule names that command with it"
        if wrapper.reparses and not is_reparsed:
            is_reparsed = True
            if not all(map(_PLAIN.fullmatch, words[start:])):
                return start, f"{name} reads its words a second time, as a script"
        if wrapper.feeds and _depends_on_words(program(words[inner])):
            return start, f"{name} gives {words[inner]} words that are not known"
        start = inner


def _inner(words: list[str], start: int, name: str) -> tuple[Wrapper, int | None]:
    """Return the start of the command inside a wrapper; ``start`` itself if there is none."""
    if wrapper := wrapper_named(name):
        return wrapper, wrapper.inner(words, start)
    if "starter" in program_named(name).kind:
        return Wrapper(), None
    runner = runner_named(name)
    if runner is None:
        return Wrapper(), start
    return runner.wrapper, runner.inner(words, start)


def _depends_on_words(name: str) -> bool:
    return program_named(name).minds_words or starts_commands(program_named(name)) or "{" in name


def _shell_hazard(words: list[str], start: int, reach: int) -> str | None:
    pos = start + 1
    while pos < len(words) and _SCRIPT_OPTIONS.fullmatch(words[pos]):
        pos += 1
    if pos < min(len(words), reach) and not words[pos].startswith(("-", "+", "/dev/", "/proc/")):
        return None
    return f"{words[start]} is a shell, and no rule names the script that it would read"


def suggestion_for(words: Sequence[ShellWord]) -> str | None:
    """Return a pattern of a rule that would pre-approve this command, or None."""
    texts = [word.text for word in words]
    start, why = innermost(texts, len(texts))
    if why or program(texts[start]) in _BY_ITS_WORDS or texts[start] in _KEYWORDS:
        return None
    length = start + 1 + _own_words(texts[start:])
    if texts[length - 1] in _RUNS_NEXT:
        length += _through_operand(texts[length - 1 :])
    tokens = texts[:length]
    if not all(map(_TOKEN.fullmatch, tokens)) or command_hazard(words, length):
        return None
    return " ".join(tokens)


def _own_words(words: Sequence[str]) -> int:
    """Return how many words after the program name its task, such as a subcommand."""
    name = program(words[0])
    rest = words[1:]
    found = program_named(name)
    nested = found.words("nested")
    if name == "git":
        return git_form(words, lambda behind: _subcommands(behind, nested))
    if "subcommands" in found.kind:
        return _subcommands(rest, nested)
    if known := known_paths(name):
        return known.end(words)
    if not found.kind.isdisjoint({"shell", "runs_file"}):
        operand = _through_operand(words)
        if "modules" in found.kind and "-m" in words[:operand]:
            module = words.index("-m") + 1
            return module + _own_words(words[module:])
        return operand
    return 0 if found.rows else _subcommands(rest, ("*",))


def _through_operand(words: Sequence[str]) -> int:
    """Return how many words there are up to the first operand; all if it may be a value."""
    for at, (before, word) in enumerate(pairwise(words), 1):
        if not before.startswith("-") and not word.startswith("-"):
            return at
    return len(words) - 1


def _subcommands(words: Sequence[str], nested: Sequence[str]) -> int:
    """Return how many words are a path of subcommands, below ``nested`` groups; ``*`` is any."""
    groups = [group.split("/") for group in nested]
    count = 0
    while count < len(words) and _SUBCOMMAND.fullmatch(words[count]):
        count += 1
        if not any(len(group) == count and all(map(fnmatchcase, words, group)) for group in groups):
            break
    return count


def grantable_pattern(words: Sequence[ShellWord]) -> str | None:
    """Return the pattern that a person may be offered for a command, or None.

    Nothing is offered for a program that starts others, for a pattern that only says that a
    program runs its arguments, or for a form that discards or rewrites: these ask each time.
    """
    texts = [word.text for word in words]
    name = program(texts[0])
    found = program_named(name)
    inner = texts[innermost(texts, len(texts))[0] :]
    ungranted = program_named(program(inner[0])).words("ungranted")
    if discards(inner) or any(path_ends(inner, 0, ungranted)):
        return None
    if not _NAME.fullmatch(texts[0]) or starts_commands(found):
        return None
    if not found.kind.isdisjoint(_NEVER_GRANTED):
        return None
    cover = suggestion_for(words)
    if cover is None or "/".join(cover.split()[1:]) in found.words("nested"):
        return None
    runs_arguments = not found.kind.isdisjoint({"interpreter", "subcommands"})
    if cover == texts[0] and (runs_arguments or runner_named(name) or known_paths(name)):
        return None
    return None if _is_group(cover.split()) else cover


def _is_group(words: Sequence[str]) -> bool:
    """Return True for a group of subcommands alone, such as ``docker compose``."""
    name = program(words[0])
    if name == "git" or known_paths(name) is None:
        return False
    return _own_words([*words, "x"]) > _own_words(words)
