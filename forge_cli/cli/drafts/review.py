"""``forge drafts review``: choose changes of a draft file by file, then apply them."""

from __future__ import annotations

import os
import sys
from typing import Annotated, NoReturn

import typer

from forge_cli.cli.drafts.common import NAMED, open_draft
from forge_cli.cli.drafts.reviewing import review_draft
from forge_cli.cli.options import new_app
from forge_cli.core.errors import UsageError
from forge_cli.files.worker import load_worker
from forge_cli.process.stdin import is_interactive
from forge_cli.record.overview import session_overview
from forge_cli.record.places import session_file
from forge_cli.sandbox.drafts.draft import SessionDraft

app = new_app()


@app.command()
def review(
    draft: Annotated[str, typer.Argument(metavar="ID", help=f"A draft, {NAMED}.")] = "last",
) -> None:
    """Go through a draft file by file, and apply what was taken.

    a takes a file, s leaves it in the draft, h takes parts of it, e edits it first, r takes this
    and all that follow, t sends a message to the model, q stops. Files that forge loads are never
    part of r. Esc and Ctrl+C leave without applying anything.
    """
    if not is_interactive():
        hint = "forge drafts show shows it; forge drafts apply ID [PATH...] applies it"
        raise UsageError("forge cannot ask: this is not a terminal", hint=hint)
    changed = open_draft(draft)
    outcome = review_draft(changed, can_talk=_has_session(changed.draft))
    if outcome.message:
        _go_on(outcome.draft, outcome.message)


def _has_session(draft: SessionDraft) -> bool:
    return bool(draft.session) and session_file(draft.session).exists()


def _go_on(draft: SessionDraft, message: str) -> NoReturn:
    """Become a run that sends the message in the same draft, and reviews it again at its end."""
    argv = ["run", draft.worker_file, "-r", draft.session, "-C", draft.workspace]
    model = session_overview(session_file(draft.session)).model
    if model and model != load_worker(draft.worker_file).config.model:
        argv += ["-m", model]
    sys.stdout.flush()
    sys.stderr.flush()
    # The lock of the draft is closed by this call, so that the session can take it.
    os.execv(  # noqa: S606
        sys.executable, [sys.executable, "-m", "forge_cli", *argv, "--", message]
    )
