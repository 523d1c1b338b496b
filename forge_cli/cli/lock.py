"""``forge lock``: writes or compares the lock file of a worker."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from forge_cli.cli.find_worker import WorkerArgument, find_trusted_worker
from forge_cli.cli.lock_changes import make_entries, tell
from forge_cli.cli.notices import ask
from forge_cli.cli.options import DirectoryOption, new_app, work_folder
from forge_cli.cli.output import data_output
from forge_cli.core.errors import UsageError
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
from forge_cli.engine.runtime.locking import lockable, pip_lines
from forge_cli.files.worker import Worker
from forge_cli.process.stdin import is_interactive

app = new_app()


@app.command()
def lock(
    worker: WorkerArgument,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="With --update: update only entries of this name."),
    ] = None,
    update: Annotated[
        bool, typer.Option("--update", help="Show the changes, and ask whether to accept them.")
    ] = False,
    allow_floating: Annotated[
        bool,
        typer.Option("--allow-floating", help="Accept servers whose command names no version."),
    ] = False,
    pip: Annotated[
        bool,
        typer.Option("--pip", help="Print the packages as pip requirements with hashes."),
    ] = False,
    directory: DirectoryOption = None,
) -> None:
    """Write everything that a worker runs to a lock file, for review.

    To find that out, forge opens the worker: it imports its code and starts its servers, but asks
    no model. If there is a lock already, the differences are printed, and the exit code is 8.
    """
    if name is not None and not update:
        raise UsageError(f"unexpected argument: {name}", hint="NAME goes with --update")
    found = lockable(find_trusted_worker(worker, interactive=is_interactive()))
    folder = work_folder(directory)
    if pip:
        sys.stdout.writelines(f"{line}\n" for line in pip_lines(found, folder))
        return
    with data_output():
        now = make_entries(found, folder, allow_floating=allow_floating)
    file = lock_file(found.path)
    if not file.exists():
        _write(file, found, now)
        return
    then = read_lock(file)
    changed = differences(then, now)
    if not changed:
        sys.stdout.write(f"{_shown(file)} fits\n")
    elif not update:
        raise LockDiffers(file, changed, found)
    else:
        _update(file, found, then, now, changed, name)


def _update(
    file: Path,
    worker: Worker,
    then: Sequence[LockEntry],
    now: Sequence[LockEntry],
    changed: Sequence[Difference],
    name: str | None,
) -> None:
    """Ask about the named changes and write them to the lock; other entries stay as they are."""
    meant = [each for each in changed if name is None or _is_named(each, name)]
    if not meant:
        names = ", ".join(sorted({visible(each.entry.name) for each in changed}))
        raise UsageError(
            f"nothing called '{visible(name or '')}' has changed", hint=f"changed entries: {names}"
        )
    sys.stderr.write(f"{_shown(file)} would change:\n")
    tell(meant)
    if not is_interactive():
        raise UsageError(
            "cannot ask: this is not a terminal",
            hint="run it in a terminal, or delete the lock and create a new one",
        )
    if ask("Write these changes? [y]es, [n]o > ").lower() not in ("y", "yes"):
        raise LockDiffers(file, changed, worker)
    gone = {each.then for each in meant}
    kept = [each for each in then if each not in gone] + [each.now for each in meant if each.now]
    _write(file, worker, now if name is None else kept)


def _is_named(difference: Difference, name: str) -> bool:
    """Return True if a difference is about ``name``, a part of it, or a tool from it."""
    for each in (difference.then, difference.now):
        if each is None:
            continue
        own = each.name.rpartition(":")[2]
        if name in (each.name, each.origin, each.origin.removeprefix("./"), own.partition("/")[0]):
            return True
        # the tools of an MCP server are called SERVER__TOOL
        if each.section == "tools" and own.startswith(f"{name}__"):
            return True
        if each.origin == f"required by {name}":
            return True
    return False


def _write(file: Path, worker: Worker, entries: Sequence[LockEntry]) -> None:
    write_lock(file, worker.name, entries)
    sys.stdout.write(f"{_shown(file)}\n")


def _shown(file: Path) -> str:
    return visible(os.path.relpath(file))
