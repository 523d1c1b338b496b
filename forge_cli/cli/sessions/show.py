"""``forge sessions show|export``: a conversation on the terminal, or as a document."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from forge_cli.cli.notices import warn
from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.output import data_output
from forge_cli.cli.sessions.common import NAMED
from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.text import counted, json_for, readable, visible
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.record.calls import decisions_csv
from forge_cli.record.log import LAST_SESSION, find_session
from forge_cli.record.reading import every_log, read_log
from forge_cli.record.target import check_target, write_target
from forge_cli.ui.html.entries import page
from forge_cli.ui.terminal.console import new_console
from forge_cli.ui.transcript.entries import read_transcript
from forge_cli.ui.transcript.markdown import markdown
from forge_cli.ui.transcript.terminal import draw

app = new_app()


@app.command()
def show(
    session: Annotated[
        str, typer.Argument(metavar="ID", help=f"A session, {NAMED}. Default: the last one.")
    ] = LAST_SESSION,
    as_json: JsonOption = False,
) -> None:
    """Show the messages and calls of a session.

    Without ID, shows the last one. Long texts are cut; --json prints the lines of the log
    unchanged.
    """
    log = read_log(find_session(session), warn)
    if as_json:
        sys.stdout.writelines(json_for(sys.stdout, line.text()) for line in log.lines)
        return
    with data_output() as out:
        draw(read_transcript(log.lines), new_console(out), PluginHost().renderer)


class ExportFormat(StrEnum):
    """Values of ``--format``."""

    md = "md"
    html = "html"
    csv = "csv"


@app.command()
def export(
    session: Annotated[
        str | None, typer.Argument(metavar="ID", help=f"A session, {NAMED}.")
    ] = None,
    format: Annotated[
        ExportFormat | None,
        typer.Option(
            "--format", help="Default: by the name of FILE, else md. csv contains the decisions."
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All sessions; only with csv.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Write to FILE instead of standard output."
        ),
    ] = None,
) -> None:
    """Write a session as Markdown or self-contained HTML, or its decisions as csv."""
    endings = {".html": ExportFormat.html, ".htm": ExportFormat.html, ".csv": ExportFormat.csv}
    form = format or endings.get(output.suffix.lower() if output else "", ExportFormat.md)
    if (session is None) != every or (every and form is not ExportFormat.csv):
        raise UsageError("name one session, or all of them with --all --format csv")
    if session is None:
        logs = every_log(warn)
    else:
        logs = iter([read_log(find_session(session), warn)])
    target = None if output == Path("-") else output
    if target:
        check_target("-o", target)
    if form is ExportFormat.csv:
        document = decisions_csv(log.lines for log in logs)
    else:
        told = read_transcript(next(logs).lines)
        write = page if form is ExportFormat.html else markdown
        with data_output():
            document = write(told, PluginHost().renderer)
    if target is None:
        if sys.stdout.isatty():
            document = readable(document)
        sys.stdout.write(document)
        return
    try:
        write_target(target, document)
    except OSError as error:
        raise ForgeError(f"-o {target}: it cannot be written: {error.strerror}") from None
    sys.stderr.write(visible(f"wrote {target} ({counted(len(document.encode()), 'byte')})") + "\n")
