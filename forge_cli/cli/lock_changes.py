"""Differences between a worker and its lock, and the user's decision about them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from forge_cli.cli.notices import ask, innermost
from forge_cli.core.bus import EventBus
from forge_cli.core.locking import LockEntry
from forge_cli.core.text import visible
from forge_cli.engine.lock.checking import (
    Difference,
    LockDiffers,
    differences,
    lock_file,
    read_lock,
    write_lock,
)
from forge_cli.engine.runtime.locking import make_entries as gather
from forge_cli.files.worker import Worker, load_worker
from forge_cli.process.signals import in_loop
from forge_cli.ui.warnings import warn_of_events


def make_entries(worker: Worker, workspace: Path, *, allow_floating: bool) -> list[LockEntry]:
    """Return the lock entries of a worker; this imports its code and starts its servers."""
    bus = EventBus()
    warn_of_events(bus)
    return in_loop(partial(gather, allow_floating=allow_floating), worker, workspace.resolve(), bus)


def tell(found: Iterable[Difference]) -> None:
    """Print the differences to standard error."""
    sys.stderr.writelines(f"  {each}\n" for each in found)


def is_taken_over(error: Exception, workspace: Path) -> bool:
    """Ask on the terminal whether to update the lock; return True if it matches now.

    Differences that only an open worker shows are asked about separately, because its code must not
    be imported before a yes.
    """
    differs = innermost(error)
    if not isinstance(differs, LockDiffers):
        return False
    message = visible(differs.message, keep="\n")
    sys.stderr.write(f"{message}\n")
    worker = differs.worker
    file = lock_file(differs.worker.path)
    if not _agrees(file):
        return False
    # only now: this imports the worker's code and starts its servers
    now = make_entries(load_worker(worker.path), workspace, allow_floating=True)
    more = [each for each in differences(read_lock(file), now) if str(each) not in differs.told]
    if more:
        sys.stderr.write("These differ, too:\n")
        tell(more)
        if not _agrees(file):
            return False
    write_lock(file, worker.name, now)
    return True


def _agrees(file: Path) -> bool:
    question = f"Update {visible(os.path.relpath(file))} and continue? [y]es, [n]o > "
    return ask(question).lower() in ("y", "yes")
