"""``forge drafts apply`` and ``drop``: write the changes of a draft, or forget them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from forge_cli.cli.drafts.common import NAMED, chosen_of, open_draft
from forge_cli.cli.options import new_app
from forge_cli.core.text import counted, visible
from forge_cli.engine.runtime.drafting import apply_changes_of
from forge_cli.sandbox.drafts.draft import drop_draft, find_draft

app = new_app()

_DraftArgument = Annotated[str, typer.Argument(metavar="ID", help=f"A draft, {NAMED}.")]


@app.command()
def apply(
    draft: _DraftArgument,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PATH", help="Only these files and folders."),
    ] = None,
) -> None:
    """Write the changes of a draft to the real files: all of them, or none if one conflicts.

    Files that forge loads, and other protected names, are applied only if they are named. forge
    undo takes it back.
    """
    changed = open_draft(draft)
    chosen = chosen_of(changed, paths or [])
    left_out = [each for each in changed.changes if each.protected and each not in chosen]
    after = apply_changes_of(changed, chosen) if chosen else changed.draft
    sys.stdout.write(f"applied {counted(len(chosen), 'change')} of the draft {after.id}\n")
    # Without paths, "all" leaves these out, which is easy to miss.
    if not paths:
        for each in left_out:
            sys.stderr.write(
                visible(f"not applied: {each.path} ({each.protected}); name it to apply it") + "\n"
            )
    if after.state == "applied":
        drop_draft(after)


@app.command()
def drop(draft: _DraftArgument) -> None:
    """Forget what a draft changed."""
    found = find_draft(draft)
    found.take()
    drop_draft(found)
    sys.stdout.write(f"dropped {found.id}\n")
