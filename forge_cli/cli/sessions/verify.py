"""``forge sessions verify``: an integrity check of logs."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.sessions.common import NAMED
from forge_cli.core.errors import ExitCode, UsageError
from forge_cli.core.text import visible
from forge_cli.record.log import find_session, session_files
from forge_cli.record.reading import verdict_sentence, verify_session
from forge_cli.ui.table import RED, paint, print_json
from forge_cli.ui.wrap import wrap_for

app = new_app()


@app.command()
def verify(
    session: Annotated[
        str | None, typer.Argument(metavar="ID", help=f"A session, {NAMED}. Default: all sessions.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All sessions (the default).")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check that no line of a log was changed, removed or moved.

    The exit code is 1 if one was. Lines removed from the end of a log cannot be detected.
    """
    if session and every:
        raise UsageError(f"--all and {visible(session)} contradict each other; keep one")
    paths = [find_session(session)] if session else session_files()
    rows = [verify_session(path) for path in paths]
    if as_json:
        print_json(rows)
    else:
        sys.stdout.writelines(_line(row) + "\n" for row in rows)
    if not all(row["ok"] for row in rows):
        raise typer.Exit(ExitCode.FAILED)


def _line(row: dict[str, Any]) -> str:
    text = wrap_for(sys.stdout, visible(verdict_sentence(row)))
    return text if row["ok"] else paint(text, RED)
