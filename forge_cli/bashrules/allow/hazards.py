"""Why a simple command is more than its rule says, and the patterns of rules that would cover one."""

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
_TOOLS_AT_MOST = 8
_CHOOSES_FILES = re.compile(r"--(?:in|ex)clude(?:-dir)?=[^?\[]*")
"""Options that stay what they are, and choose no more files, whatever names a star in them finds."""
_SCRIPT_OPTIONS = re.compile(r"-[exuvfn]+|--(?:posix|norc|noprofile|restricted)")

_TOKEN = re.compile(r"[!-~]+")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_SUBCOMMAND = re.compile(r"[a-z][a-z0-9:_-]*")
_RUNS_NEXT = ("run", "run-script")
"""Subcommands whose next word is what they run."""
_NEVER_GRANTED = frozenset({"state", "interactive"})
_BY_ITS_WORDS = word_set(
    "rm rmdir unlink shred dd truncate mv kill pkill killall chmod chown chgrp mount umount fdisk sfdisk parted mkfs "
    "iptables ip6tables nft ufw sysctl modprobe rmmod useradd usermod userdel crontab curl wget http https xh"
)
"""Programs of which only all words tell what would be lost, or what would be sent where."""
_KEYWORDS = word_set(
    "if then elif else fi for while until do done case esac select function coproc in time { } ! [[ ]] break continue "
    "exit return wait jobs fg bg times"
)
"""Words of the shell itself; what begins with one is no command that a rule could mean."""


def command_hazard(
    words: Sequence[ShellWord], reach: int, *, known_only: bool = False
) -> str | None:
    """The objection to pre-approving these words by a pattern of ``reach`` tokens, or None.

    With ``known_only`` an option asks that no table knows, of whatever program.
    """
    if words[0].glob:
        return "the name of the program is a glob"
    options = (word.text for word in words if word.glob and word.text.startswith("-"))
    if option := next((text for text in options if not _CHOOSES_FILES.fullmatch(text)), None):
        return f"{option} can become another option"
    argv = Argv(
        [word.text for word in words],
        frozenset(place for place, word in enumerate(words) if word.glob),
    )
    for _ in range(_TOOLS_AT_MOST):
        start, why = innermost(argv.words, reach)
        argv, reach = _behind(argv, start, argv.words[start]), reach - start
        tool = named_tool(argv.words)
        why = why or program_hazard(
            program(argv.words[0]), argv, reach, known_only=known_only and tool is None
        )
        if why or tool is None:
            return why
        argv, reach = _behind(argv, *tool), reach - tool[0]
    return "it names one tool after the other"


def _behind(argv: Argv, start: int, name: str) -> Argv:
    """The words from ``start`` on, the first of which is a tool's name."""
    globs = frozenset(place - start for place in argv.globs if place > start)
    return Argv([name, *argv.words[start + 1 :]], globs)


def innermost(words: list[str], reach: int) -> tuple[int, str | None]:
    """The start of the command inside all wrappers, when the pattern names it; else why it does not."""
    start, reparsed = 0, False
    while True:
        name = program(words[start])
        if "shell" in program_named(name).kind:
            return start, _shell_hazard(words, start, reach)
        wrapper, inner = _inner(words, start, name)
        if inner == start:
            return start, None
        if inner is None or inner >= reach:
            return start, f"{name} starts another command, and no rule names that command with it"
        if wrapper.reparses and not reparsed:
            reparsed = True
            if not all(map(_PLAIN.fullmatch, words[start:])):
                return start, f"{name} reads its words once more, as a script"
        if wrapper.feeds and _depends_on_words(program(words[inner])):
            return start, f"{name} gives {words[inner]} words that are not known"
        start = inner


def _inner(words: list[str], start: int, name: str) -> tuple[Wrapper, int | None]:
    """The start of the command inside a wrapper; ``start`` itself where there is none."""
    if wrapper := wrapper_named(name):
        return wrapper, wrapper.inner(words, start)
    if "starter" in program_named(name).kind:
        return Wrapper(), None
    runner = runner_named(name)
    return (runner.wrapper, runner.inner(words, start)) if runner else (Wrapper(), start)


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
    """A pattern for a rule that would pre-approve this command; None when none would."""
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
    """How many words after the program say what it is called for."""
    name, rest = program(words[0]), words[1:]
    found, known = program_named(name), known_paths(name)
    if name == "git":
        return git_form(words, lambda behind: _subcommands(behind, found.words("nested")))
    if "subcommands" in found.kind:
        return _subcommands(rest, found.words("nested"))
    if known:
        return known.end(words)
    if not found.kind.isdisjoint({"shell", "runs_file"}):
        operand = _through_operand(words)
        module = words.index("-m") + 1 if "modules" in found.kind and "-m" in words[:operand] else 0
        return module + _own_words(words[module:]) if module else operand
    return 0 if found.rows else _subcommands(rest, ("*",))


def _through_operand(words: Sequence[str]) -> int:
    """How many words behind the first name its first operand; all of them where it may be the value of an option."""
    behind = enumerate(pairwise(words), 1)
    found = (
        at
        for at, (before, word) in behind
        if not before.startswith("-") and not word.startswith("-")
    )
    return next(found, len(words) - 1)


def _subcommands(words: Sequence[str], nested: Sequence[str]) -> int:
    """How many of the first words are a path of subcommands, below the groups ``nested``; ``*`` is any one word."""
    groups, count = [group.split("/") for group in nested], 0
    while count < len(words) and _SUBCOMMAND.fullmatch(words[count]):
        count += 1
        if not any(len(group) == count and all(map(fnmatchcase, words, group)) for group in groups):
            break
    return count


def grantable_pattern(words: Sequence[ShellWord]) -> str | None:
    """The pattern that a person may be offered for a command: what would cover it.

    There is none for what starts any other program, and none that says nothing but that a program runs
    what it is told, nor for forms that discard or rewrite: they ask each time.
    """
    texts = [word.text for word in words]
    name = program(texts[0])
    found = program_named(name)
    inner = texts[innermost(texts, len(texts))[0] :]
    if discards(inner) or any(
        path_ends(inner, 0, program_named(program(inner[0])).words("ungranted"))
    ):
        return None
    if (
        not _NAME.fullmatch(texts[0])
        or starts_commands(found)
        or not found.kind.isdisjoint(_NEVER_GRANTED)
    ):
        return None
    cover = suggestion_for(words)
    if cover and "/".join(cover.split()[1:]) in found.words("nested"):
        return None
    told = (
        not found.kind.isdisjoint({"interpreter", "subcommands"})
        or runner_named(name)
        or known_paths(name)
    )
    if cover is None or (cover == texts[0] and told):
        return None
    return None if _is_group(cover.split()) else cover


def _is_group(words: Sequence[str]) -> bool:
    """Whether a pattern is a group of subcommands alone, such as ``docker compose``: its rule would cover none."""
    name = program(words[0])
    return (
        name != "git"
        and known_paths(name) is not None
        and _own_words([*words, "x"]) > _own_words(words)
    )
