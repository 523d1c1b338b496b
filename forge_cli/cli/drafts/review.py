"""``forge drafts review``: choose changes of a draft file by file, then apply them."""

from __future__ import annotations

from typing import Annotated

import typer

from forge_cli.cli.drafts.common import NAMED, open_draft
from forge_cli.cli.drafts.reviewing import review_draft
from forge_cli.cli.options import new_app
from forge_cli.core.errors import UsageError
from forge_cli.process.stdin import is_interactive

app = new_app()


@app.command()
def review(
    draft: Annotated[str, typer.Argument(metavar="ID", help=f"A draft, {NAMED}.")] = "last",
) -> None:
    """Go through a draft file by file, and apply what was taken.

    a takes a file, s leaves it in the draft, r takes this and all that follow, e edits it first, q
    stops. Files that forge loads are never part of r. Esc and Ctrl+C leave without applying
    anything.
    """
    if not is_interactive():
        hint = "forge drafts show shows it; forge drafts apply ID [PATH...] applies it"
        raise UsageError("forge cannot ask: this is not a terminal", hint=hint)
    review_draft(open_draft(draft))
