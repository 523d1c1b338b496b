"""Helps for answers to requests: the command that continues the session of one."""

from __future__ import annotations

import os
from pathlib import Path

from forge_cli.cli import notices
from forge_cli.core.errors import ForgeError
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.files.home import forge_home
from forge_cli.files.lookup import NamedWorker, named_workers
from forge_cli.inspection.defaults import model_of
from forge_cli.record.log import Log
from forge_cli.record.state import fold


def resume_command(read: Log) -> str:
    """The command that continues a session from here, as it was started."""
    state = fold(read.lines)
    start = state.start
    if start is None or not start.worker_file:
        return notices.resume_command("run", RunOptions(named="WORKER"), read.session)
    model = state.chosen_model or start.model
    asked = RunOptions(
        named=_name_of(start.worker_file),
        workspace=Path(start.workspace),
        model=None if model == _model_now(start.worker_file) else model,
        read_only=bool(start.read_only),
    )
    return notices.resume_command("run", asked, read.session)


def _model_now(file: str) -> str | None:
    try:
        return model_of(file)
    except ForgeError:
        return None


def _name_of(file: str) -> str:
    """The name by which the worker in a file is found from here, or the file."""
    first: dict[str, NamedWorker] = {}
    for each in named_workers(Path.cwd(), forge_home()):
        first.setdefault(each.name, each)
    return next((name for name, each in first.items() if os.path.realpath(each.path) == os.path.realpath(file)), file)
