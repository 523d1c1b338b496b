"""``forge sessions search``: messages, calls and results that contain a text."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Annotated, Any

import typer

from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.sessions.common import shorten_ids
from forge_cli.core.text import counted, local_time, visible
from forge_cli.record.log import find_session, session_files
from forge_cli.record.overview import session_overview
from forge_cli.record.search import find_hits
from forge_cli.ui.table import BOLD, Column, around, paint, print_json, print_table
from forge_cli.ui.terminal.console import new_console
from forge_cli.ui.wrap import fit

app = new_app()

MAX_SHOWN = 3
"""Matches of one session that a terminal shows."""
EVENT_NAMES = {
    "message": "said",
    "toolStarted": "call",
    "toolResult": "result",
    "approvalRequired": "asked",
    "approvalResponse": "answer",
    "sessionUpdate": "title",
    "sessionEnd": "end",
    "manualToolInvoke": "call",
    "status": "note",
    "userInput": "typed",
    "command": "command",
}
"""Names of event types for people."""


@app.command()
def search(
    text: Annotated[
        str,
        typer.Argument(metavar="TEXT", help="The text, in upper or lower case."),
    ],
    as_json: JsonOption = False,
) -> None:
    """Search messages, calls and their results for TEXT.

    A terminal shows the first few matches of each session.
    """
    wanted = text.casefold()
    rows: list[dict[str, Any]] = []
    for path in session_files():
        rows += find_hits(path, wanted)
    if not rows and not as_json:
        sys.stderr.write(f"no session contains '{visible(text)}'\n")
    if as_json:
        print_json(rows)
    elif sys.stdout.isatty():
        for session, hits in groupby(shorten_ids(rows), key=itemgetter("session")):
            _print_session(session, list(hits), " ".join(text.split()))
    else:
        excerpt = Column("excerpt", room=40, seek=" ".join(text.split()))
        print_table(
            [Column("session"), Column("line", drop=2), Column("event", drop=1), excerpt],
            shorten_ids(rows),
        )


def _print_session(session: str, hits: Sequence[Mapping[str, Any]], wanted: str) -> None:
    """Print a session with its first matches highlighted."""
    seen = session_overview(find_session(session))
    hits = list({hit["excerpt"]: hit for hit in hits}.values())  # without repeated excerpts
    about = visible(" ".join((seen.title or seen.task).split()))
    width = new_console(sys.stdout).width - 1
    day = visible(local_time(seen.ended, "%b %d"))
    sys.stdout.write(
        paint(fit(f"{visible(session)}  {day}  {visible(seen.worker)}  {about}", width), BOLD)
    )
    sys.stdout.write("\n")
    for hit in hits[:MAX_SHOWN]:
        kind = f"  {EVENT_NAMES.get(hit['event'], visible(hit['event'])):8} "
        sys.stdout.write(
            f"{kind}{around(visible(hit['excerpt']), visible(wanted), width - len(kind))}\n"
        )
    if len(hits) > MAX_SHOWN:
        sys.stdout.write(
            f"  and {counted(len(hits) - MAX_SHOWN, 'more place')}: "
            f"forge sessions show {visible(session)}\n"
        )
