"""``forge drafts show``: the changes of a draft, formatted like those of a trial."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from forge_cli.cli.drafts.common import (
    NAMED,
    chosen_of,
    conflict_text,
    notes_of,
    open_draft,
    text_of,
)
from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.output import data_output
from forge_cli.core.text import readable
from forge_cli.engine.runtime.drafting import describe_draft
from forge_cli.ui.table import print_json

app = new_app()


@app.command()
def show(
    draft: Annotated[str, typer.Argument(metavar="ID", help=f"A draft, {NAMED}.")] = "last",
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PATH", help="Only these files and folders."),
    ] = None,
    *,
    stat: Annotated[
        bool, typer.Option("--stat", help="A line for each path, no contents.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what a draft changed: every path, and the difference of every file."""
    changed = open_draft(draft)
    if as_json:
        print_json(describe_draft(changed))
        return
    if paths:
        chosen = chosen_of(changed, paths)
    else:
        # Unlike apply, this includes the protected paths.
        chosen = list(changed.changes)
    with data_output() as out:
        out.write(readable(text_of(changed, chosen, stat=stat)) + "\n")
        for each in chosen:
            if each.conflict and not stat:
                out.write(f"\n{readable(conflict_text(changed, each))}\n")
    for line in notes_of(chosen):
        sys.stderr.write(f"{line}\n")
