"""Lookup of the worker that a command line names, by path or by name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from forge_cli.files.home import forge_home
from forge_cli.files.lookup import WorkerOrigin, is_path, named_workers

WorkerArgument = Annotated[
    str,
    typer.Argument(
        metavar="WORKER", help="A name (forge worker list), a worker file, or a folder with one."
    ),
]


def find_worker(name: str) -> str:
    """Return the path of a worker to inspect."""
    return _find(name, runs=False, interactive=False)


def find_trusted_worker(name: str, *, interactive: bool, chosen: bool = True) -> str:
    """Return the path of a worker to run.

    Workers of the folder that are found by name need trust, and so does a path that the user did
    not choose (``chosen``).
    """
    # the modules about trust are imported only if they are needed: this runs before every command
    if "FORGE_TRUST" in os.environ:
        from forge_cli.cli.ask_trust import trust_by_hash

        trust_by_hash(Path.cwd())
    path = _find(name, runs=True, interactive=interactive)
    if not chosen and path == name:
        from forge_cli.cli.trusted_workers import check_unnamed

        check_unnamed(path, interactive=interactive)
    return path


def _find(name: str, *, runs: bool, interactive: bool) -> str:
    known = named_workers(Path.cwd(), forge_home())
    found = [worker for worker in known if worker.name == name]
    if is_path(name):
        if found:
            from forge_cli.cli.notices import warn

            warn(f"{name} is a path here, so the {found[0].origin} worker of that name is not used")
        return name
    if not found:
        if os.path.isdir(name):
            return name
        from forge_cli.cli.trusted_workers import unknown_worker

        raise unknown_worker(name, known)
    if found[0].origin is not WorkerOrigin.PROJECT:
        return str(found[0].path)
    from forge_cli.cli.trusted_workers import first_trusted

    return str(first_trusted(found, runs=runs, interactive=interactive).path)
