"""Leftovers of killed trials: interrupted changes are completed when zones are next used."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from forge_cli.core.errors import ToolError
from forge_cli.core.notify import Notify
from forge_cli.files.home import TRIALS


def finish_trials(sessions: Path, notify: Notify) -> None:
    """Complete interrupted changes of all sessions in this folder, and report each."""
    names: list[str] = []
    with suppress(OSError):
        names = [name for name in os.listdir(sessions) if name.endswith(TRIALS)]
    for name in names:
        for journal in (sessions / name).glob("*/journal"):
            try:
                from forge_cli.sandbox.changes.apply import finish_interrupted

                if sentence := finish_interrupted(journal.parent):
                    from forge_cli.sandbox.trial.copies import drop_copies

                    drop_copies(journal.parent)
                    with suppress(OSError):  # other trials are still in it
                        (sessions / name).rmdir()
                    notify("warning", sentence)
            except (ToolError, OSError, ValueError) as error:
                forget = f"forge sessions rm {name.removesuffix(TRIALS)} forgets them"
                notify(
                    "warning",
                    f"interrupted changes cannot be completed yet ({error}); {forget}",
                )
