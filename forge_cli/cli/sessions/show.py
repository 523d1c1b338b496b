"""``forge sessions show|export``: a conversation, drawn from its log, or a document of it for other people."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.output import data_output
from forge_cli.cli.sessions.common import NAMED, IdArgument, read_log
from forge_cli.core.errors import ForgeError
from forge_cli.core.text import counted, visible
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.record.log import LAST
from forge_cli.ui.terminal.console import new_console
from forge_cli.ui.transcript.entries import read_transcript
from forge_cli.ui.transcript.markdown import markdown
from forge_cli.ui.transcript.page import page
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


class ExportFormat(StrEnum):
    md = "md"
    html = "html"


@app.command()
def export(
    session: IdArgument,
    format: Annotated[
        ExportFormat | None, typer.Option("--format", help="Without it, html for a FILE that ends in .html, else md.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write to FILE, not to standard output.")
    ] = None,
) -> None:
    """Write a session as Markdown, or as a page that loads nothing and runs nothing."""
    told = read_transcript(read_log(session).lines)
    guessed = ExportFormat.html if output and output.suffix.lower() in (".html", ".htm") else ExportFormat.md
    write = page if (format or guessed) is ExportFormat.html else markdown
    with data_output():
        document = write(told, PluginHost().renderer)
    if output is None:
        sys.stdout.write(document)
        return
    try:
        output.write_text(document, encoding="utf-8")
    except OSError as error:
        raise ForgeError(f"-o {output}: it cannot be written: {error.strerror}") from None
    sys.stderr.write(visible(f"wrote {output} ({counted(len(document.encode()), 'byte')})") + "\n")
