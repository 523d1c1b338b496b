"""What the commands on sessions share: the argument that names one, and its log."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from forge_cli.core.text import visible
from forge_cli.record.log import Log, find_session, read_session

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="A session, by its id or the beginning of it.")]


def read_log(name: str) -> Log:
    """The log of a session; a last line that was not finished is left out, and that is said."""
    log = read_session(find_session(name))
    if log.dropped:
        sys.stderr.write(
            visible(f"forge: the last line of the session {log.session} is not finished, and left out") + "\n"
        )
    return log
