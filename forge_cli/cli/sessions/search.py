"""``forge sessions search``: where something was said or called."""

from __future__ import annotations

from typing import Annotated

import typer

from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.sessions.common import shorten_ids
from forge_cli.cli.table import Column, print_json, print_table
from forge_cli.core.errors import UsageError
from forge_cli.record.log import session_files
from forge_cli.record.search import find_hits

app = new_app()


@app.command()
def search(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to look for; small and capital letters are alike.")],
    as_json: JsonOption = False,
) -> None:
    """Look for TEXT in what was said, in calls and in their results."""
    if not text:
        raise UsageError("there is nothing to look for", hint="forge sessions search TEXT")
    wanted = text.casefold()
    rows = [row for path in session_files() for row in find_hits(path, wanted)]
    if as_json:
        print_json(rows)
    else:
        excerpt = Column("excerpt", room=40, seek=" ".join(text.split()))
        print_table([Column("session"), Column("line", drop=2), Column("event", drop=1), excerpt], shorten_ids(rows))
