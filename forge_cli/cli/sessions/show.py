"""``forge sessions show``: a conversation, drawn from its log."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.output import data_output
from forge_cli.cli.sessions.common import NAMED, read_log
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.record.log import LAST
from forge_cli.ui.terminal.console import new_console
from forge_cli.ui.transcript.entries import read_transcript
from forge_cli.ui.transcript.terminal import draw

app = new_app()


@app.command()
def show(
    session: Annotated[str, typer.Argument(metavar="ID", help=f"A session, {NAMED}; without it, the last.")] = LAST,
    as_json: JsonOption = False,
) -> None:
    """Show what was said and done in a session.

    It is the last one unless another is named. What is long is cut; --json prints the lines of the log as they are.
    """
    log = read_log(session)
    if as_json:
        sys.stdout.writelines(line.text() for line in log.lines)
        return
    with data_output() as out:
        draw(read_transcript(log.lines), new_console(out), PluginHost().renderer)
