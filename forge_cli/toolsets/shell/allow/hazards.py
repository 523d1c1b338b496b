"""Why a simple command is more than its rule says: the allow side's strict look at words that a rule has matched."""

from __future__ import annotations

import re
from collections.abc import Sequence

from forge_cli.toolsets.shell.allow.lexer import ShellWord
from forge_cli.toolsets.shell.allow.programs import Argv, program_hazard
from forge_cli.toolsets.shell.programs.named import named_tool
from forge_cli.toolsets.shell.programs.subcommands import runner_named
from forge_cli.toolsets.shell.programs.table import program, program_named
from forge_cli.toolsets.shell.programs.wrappers import Wrapper, starts_commands, wrapper_named

_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,=-]+")
_TOOLS_AT_MOST = 8
_SCRIPT_OPTIONS = re.compile(r"-[exuvfn]+|--(?:posix|norc|noprofile|restricted)")


def command_hazard(words: Sequence[ShellWord], reach: int) -> str | None:
    """The objection to pre-approving these words by a pattern of ``reach`` tokens, or None."""
    if words[0].glob:
        return "the name of the program is a glob"
    if option := next((word.text for word in words if word.glob and word.text.startswith("-")), None):
        return f"{option} can become another option"
    argv = Argv([word.text for word in words], frozenset(place for place, word in enumerate(words) if word.glob))
    for _ in range(_TOOLS_AT_MOST):
        start, why = innermost(argv.words, reach)
        argv, reach = _behind(argv, start, argv.words[start]), reach - start
        why = why or program_hazard(program(argv.words[0]), argv, reach)
        tool = named_tool(argv.words)
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
