"""What the commands on sessions share: the argument that names one, and its log."""

from __future__ import annotations

from typing import Annotated

import typer

from forge_cli.cli.session import warn
from forge_cli.record.log import Log, damage_of, find_session, read_readable

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="A session, by its id or the beginning of it.")]


def read_log(name: str) -> Log:
    """What can be read of a session; what cannot, or is not what was written, is said."""
    log = read_readable(find_session(name))
    if log.bad and not log.lines:
        raise log.bad[0]
    if damage := damage_of(log):
        more = f", and {len(log.bad) - 1} more" if len(log.bad) > 1 else ""
        warn(f"{damage}{more}{'; what can be read follows' if log.bad else ''}")
    if log.dropped:
        warn(f"the last line of the session {log.session} is not finished, and left out")
    return log
