"""Deleting a session with everything that is kept beside its log."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from forge_cli.core.errors import ForgeError
from forge_cli.record.changes import change_log
from forge_cli.record.lock import lock, unlock
from forge_cli.record.overview import read_overview


def remove_unused(path: Path) -> None:
    """Delete the session of this log if nothing was said, called or named in it; what cannot be deleted stays."""
    with suppress(ForgeError):
        seen = read_overview(path)
        if not (seen.task or seen.turns or seen.tool_calls or seen.title):
            remove_session(path)


def remove_session(path: Path) -> None:
    """Delete the session of this log; one that is in use stays, which is an error."""
    held = lock(path, hint="end that process, or wait for it, and remove the session then")
    try:
        changes = change_log(path.stem)
        changes.remove()
        shutil.rmtree(changes.trials, ignore_errors=True)
        path.unlink()
    except OSError as error:
        raise ForgeError(f"{path} cannot be removed: {error.strerror}") from None
    finally:
        unlock(path, held)
