"""``forge drafts apply`` and ``drop``: write the changes of a draft, or forget them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from forge_cli.cli.drafts.common import NAMED, chosen_of, open_draft
from forge_cli.cli.options import new_app
from forge_cli.core.errors import UsageError
from forge_cli.core.text import counted, visible
from forge_cli.engine.runtime.drafting import apply_changes_of, settle
from forge_cli.sandbox.drafts.conflicts import ConflictChoice
from forge_cli.sandbox.drafts.draft import drop_applied, drop_draft, find_draft

app = new_app()

_DraftArgument = Annotated[str, typer.Argument(metavar="ID", help=f"A draft, {NAMED}.")]


@app.command()
def apply(
    draft: _DraftArgument,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PATH", help="Only these files and folders."),
    ] = None,
    *,
    conflict: Annotated[
        ConflictChoice | None,
        typer.Option(
            "--conflict",
            metavar="merge|draft|mine|leave",
            help="What to do with files that changed on both sides.",
        ),
    ] = None,
) -> None:
    """Write the changes of a draft to the real files: all of them, or none if one conflicts.

    Files that forge loads, and other protected names, are applied only if they are named. forge
    undo takes it back.
    """
    if conflict in (ConflictChoice.DRAFT, ConflictChoice.MINE) and not paths:
        raise UsageError(
            f"--conflict {conflict} takes one side of a file for good",
            hint=f"name the files: forge drafts apply {draft} PATH... --conflict {conflict}",
        )
    changed = open_draft(draft)
    chosen = chosen_of(changed, paths or [])
    if conflict is not None:
        changed, chosen = settle(changed, chosen, conflict)
    after = changed.draft
    if chosen:
        after = apply_changes_of(changed, chosen)
    elif not changed.changes:
        after = after.become("applied")
    sys.stdout.write(f"applied {counted(len(chosen), 'change')} of the draft {after.id}\n")
    taken = {each.change.key for each in chosen}
    for each in changed.changes:
        if each.change.key in taken:
            continue
        if each.conflict and conflict is not None:
            sys.stderr.write(visible(f"left in the draft: {each.path} {each.conflict}") + "\n")
        elif each.protected and not paths:
            # Without paths, "all" leaves these out, which is easy to miss.
            note = f"not applied: {each.path} ({each.protected}); name it to apply it"
            sys.stderr.write(visible(note) + "\n")
    if after.state == "applied":
        drop_applied(after)


@app.command()
def drop(draft: _DraftArgument) -> None:
    """Forget what a draft changed."""
    found = find_draft(draft)
    found.take()
    drop_draft(found)
    sys.stdout.write(f"dropped {found.id}\n")
