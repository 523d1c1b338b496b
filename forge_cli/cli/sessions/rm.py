"""``forge sessions rm``: deletes sessions."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from forge_cli.cli.options import new_app
from forge_cli.cli.sessions.common import NAMED
from forge_cli.core.text import visible
from forge_cli.record.changes import remove_session
from forge_cli.record.log import find_own_session
from forge_cli.record.overview import INDEX

app = new_app()


@app.command()
def rm(
    sessions: Annotated[list[str], typer.Argument(metavar="ID", help=f"Sessions, each {NAMED}.")],
) -> None:
    """Delete sessions, without asking; a session in use is kept."""
    paths = dict.fromkeys(find_own_session(session) for session in sessions)
    for path in paths:
        remove_session(path)
        # the index contains the task, too; the next list makes a new one
        path.with_name(INDEX).unlink(missing_ok=True)
        sys.stdout.write(visible(f"removed {path.stem}") + "\n")
