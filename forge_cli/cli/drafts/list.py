"""``forge drafts list``: drafts at a glance, the newest first."""

from __future__ import annotations

import sys
from typing import Any

from forge_cli.cli.options import JsonOption, new_app
from forge_cli.core.text import local_time
from forge_cli.engine.runtime.drafting import changes_of, describe_draft
from forge_cli.sandbox.drafts.draft import SessionDraft, all_drafts
from forge_cli.ui.table import Column, print_json, print_table

app = new_app()


@app.command("list")
def list_drafts(as_json: JsonOption = False) -> None:
    """List drafts, the newest first: what they changed, and whether that waits for a review."""
    rows = [_row(draft) for draft in all_drafts()]
    if as_json:
        print_json(rows)
    elif rows:
        columns = [
            Column("id"),
            Column("state"),
            Column("worker", drop=2),
            Column("files"),
            Column("began", drop=1),
            Column("folder", room=30),
        ]
        print_table(columns, [_short(row) for row in rows])
    else:
        sys.stderr.write("there are no drafts; forge run WORKER TASK --draft makes one\n")


def _row(draft: SessionDraft) -> dict[str, Any]:
    if draft.is_in_use:
        # Its changes would be out of date at once.
        changes: list[Any] | None = None
        conflicts: list[Any] | None = None
    else:
        told = describe_draft(changes_of(draft))
        changes = told["changes"]
        conflicts = told["conflicts"]
    return {
        "id": draft.id,
        "state": draft.state,
        "worker": draft.worker,
        "folder": draft.workspace,
        "session": draft.session,
        "began": draft.began_at,
        "changes": changes,
        "conflicts": conflicts,
    }


def _short(row: dict[str, Any]) -> dict[str, Any]:
    changes = row["changes"]
    files = "" if changes is None else _counts(changes)
    if row["conflicts"]:
        files += f", {len(row['conflicts'])} in conflict"
    return {**row, "files": files, "began": local_time(row["began"], "%Y-%m-%d %H:%M")}


def _counts(changes: list[Any]) -> str:
    """Return the numbers of created, changed and deleted paths, as ``+2 ~1 -1``."""
    made = 0
    deleted = 0
    for each in changes:
        made += each["change"] == "created"
        deleted += each["change"] == "deleted"
    return f"+{made} ~{len(changes) - made - deleted} -{deleted}"
