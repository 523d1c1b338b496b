"""What processes that were killed left of trials: changes that were begun are completed at the next start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from forge_cli.sandbox import trial

SUFFIX = ".trials"
"""Of the folder beside a session's log."""


def finish_trials(sessions: Path) -> Iterator[str]:
    """Complete what was begun in any session of this folder; a sentence each."""
    with suppress(FileNotFoundError):
        for name in [name for name in os.listdir(sessions) if name.endswith(SUFFIX)]:
            for journal in (sessions / name).glob("*/journal"):
                if sentence := trial.apply.finish(journal.parent):
                    yield sentence
