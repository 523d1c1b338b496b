"""Helpers for tests of drafts: a draft of a folder, and work in its view."""

import os
from collections.abc import Callable
from pathlib import Path

from forge_cli.sandbox.drafts.changes import ChangedDraft
from forge_cli.sandbox.drafts.draft import SessionDraft, new_draft
from forge_cli.sandbox.drafts.view import enter_view


def begin(folder: Path, drafts: Path) -> SessionDraft:
    """Begin a draft of a folder."""
    os.environ["FORGE_DRAFTS"] = str(drafts)
    return new_draft("d", "test", folder, folder, [("zone", folder)])


def work_in(draft: SessionDraft, work: Callable[[], object]) -> None:
    """Do something in the view of a draft, in another process."""
    child = os.fork()
    if not child:
        code = 1
        try:
            enter_view(draft)
            work()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert status == 0


def conflicts_of(changed: ChangedDraft, folder: Path) -> dict[str, str]:
    """Return the reason of each conflict, by its path in the folder."""
    return {str(each.path.relative_to(folder)): each.conflict or "" for each in changed.conflicts}
