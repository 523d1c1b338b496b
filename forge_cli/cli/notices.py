"""Warnings and questions of commands."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from forge_cli.core.errors import ExitCode, Terminated
from forge_cli.core.text import visible
from forge_cli.engine.plugins.scan import find_unknown_names, installed
from forge_cli.files.home import forge_home, user_home

if TYPE_CHECKING:
    from forge_cli.engine.runtime.options import RunOptions


def warn(sentence: str) -> None:
    """Print a warning to standard error."""
    # imported late here and below, because most commands neither warn nor ask
    from forge_cli.ui.wrap import wrap_for

    sys.stderr.write(wrap_for(sys.stderr, f"forge: {visible(sentence)}") + "\n")


def warn_of_unknown_plugins() -> None:
    """Warn about names in FORGE_LOAD_PLUGINS that match no plugin."""
    from forge_cli.ui.wrap import wrap_for

    for problem in find_unknown_names(installed(forge_home() / "cache")):
        sys.stderr.write(wrap_for(sys.stderr, f"warning: {visible(problem)}") + "\n")


def resume_command(command: str, asked: RunOptions, session_id: str) -> str:
    """Return the command that resumes a session in its folder, with its model and limits."""
    argv = ["forge", command, asked.named, "-r", session_id]
    if asked.workspace != Path.cwd().resolve():
        argv += ["-C", str(asked.workspace)]
    if asked.model is not None:
        argv += ["-m", asked.model]
    kept = {"--read-only": asked.read_only, "--locked": asked.locked}
    return shlex.join([*argv, *(flag for flag, given in kept.items() if given)])


def innermost(error: BaseException) -> BaseException:
    """Return the first error inside an exception group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def near(path: str | Path) -> str:
    """Return a path relative to the working directory or the home, if it is inside."""
    for folder, name in ((Path.cwd(), ""), (user_home(), "~/")):
        if str(path).startswith(f"{folder}/"):
            return f"{name}{str(path).removeprefix(f'{folder}/')}"
    return str(path)


def ask(prompt: str, at_end: str = "") -> str:
    """Return the typed line without surrounding spaces, or ``at_end`` at the end of input.

    Esc ends the command as Ctrl+C does.
    """
    from forge_cli.process.signals import in_loop
    from forge_cli.ui.terminal.console import new_console
    from forge_cli.ui.terminal.input import LineReader, QuestionLeft

    try:
        line = in_loop(LineReader(new_console()).ask, prompt)
    except QuestionLeft as left:
        raise Terminated(ExitCode.HUNG_UP if left.hung_up else ExitCode.INTERRUPTED) from None
    return at_end if line is None else line.strip()
