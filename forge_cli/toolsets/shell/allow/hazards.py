"""Why a simple command is more than its rule says: the allow side's strict look at words that a rule has matched."""

from __future__ import annotations

import re
from collections.abc import Sequence

from forge_cli.toolsets.shell.allow.lexer import ShellWord
from forge_cli.toolsets.shell.allow.programs import Argv, is_checked, program_hazard
from forge_cli.toolsets.shell.programs.wrappers import ANYWHERE, RUNNERS, SHELLS, WRAPPERS, program

_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,=-]+")
_SCRIPT_OPTIONS = re.compile(r"-[exuvfn]+|--(?:posix|norc|noprofile|restricted)")


def command_hazard(words: Sequence[ShellWord], reach: int) -> str | None:
    """What keeps these words from being pre-approved by a pattern of ``reach`` tokens; None when nothing does."""
    if words[0].glob:
        return "the name of the program is a glob"
    if option := next((word.text for word in words if word.glob and word.text.startswith("-")), None):
        return f"{option} can become another option"
    texts = [word.text for word in words]
    start, why = innermost(texts, reach)
    if why:
        return why
    globs = frozenset(place - start for place, word in enumerate(words) if word.glob and place >= start)
    return program_hazard(program(texts[start]), Argv(texts[start:], globs), reach - start)


def innermost(words: list[str], reach: int) -> tuple[int, str | None]:
    """Where the command inside all wrappers starts, when the pattern names it; else why it does not."""
    start, reparsed = 0, False
    while True:
        name = program(words[start])
        if name in SHELLS:
            return start, _shell_hazard(words, start, reach)
        inner = _inner(words, start, name)
        if inner == start:
            return start, None
        if inner is None or inner >= reach:
            return start, f"{name} starts another command, and no rule names that command with it"
        wrapper = WRAPPERS.get(name)
        if wrapper and wrapper.reparses and not reparsed:
            reparsed = True
            if not all(map(_PLAIN.fullmatch, words[start:])):
                return start, f"{name} reads its words once more, as a script"
        if wrapper and wrapper.feeds and _depends_on_words(program(words[inner])):
            return start, f"{name} gives {words[inner]} words that are not known"
        start = inner


def _inner(words: list[str], start: int, name: str) -> int | None:
    """Where the command inside a wrapper starts; ``start`` itself for what is no wrapper."""
    if name in WRAPPERS:
        return WRAPPERS[name].inner(words, start)
    if name in ANYWHERE:
        return None
    if name in RUNNERS and not RUNNERS[name].isdisjoint(words[start + 1 : start + 4]):
        direct = words[start + 1] in RUNNERS[name] and not "".join(words[start + 2 : start + 3]).startswith("-")
        return start + 2 if direct and start + 2 < len(words) else None
    return start


def _depends_on_words(name: str) -> bool:
    return is_checked(name) or name in WRAPPERS or name in ANYWHERE or name in SHELLS or "{" in name


def _shell_hazard(words: list[str], start: int, reach: int) -> str | None:
    pos = start + 1
    while pos < len(words) and _SCRIPT_OPTIONS.fullmatch(words[pos]):
        pos += 1
    if pos < min(len(words), reach) and not words[pos].startswith(("-", "+", "/dev/", "/proc/")):
        return None
    return f"{words[start]} is a shell, and no rule names the script that it would read"
