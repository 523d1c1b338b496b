"""Shared code of the commands that answer requests."""

from __future__ import annotations

from pathlib import Path

from forge_cli.cli import notices
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.inspection.defaults import model_now, name_of
from forge_cli.record.log import Log
from forge_cli.record.state import fold_lines


def resume_command(read: Log) -> str:
    """Return the command that resumes a parked session as it was started."""
    state = fold_lines(read.lines)
    start = state.start
    if start is None or not start.worker_file:
        return notices.resume_command("run", RunOptions(named="WORKER"), read.session)
    # -m is needed only if the worker would use another model now
    model = state.chosen_model or start.model
    asked = RunOptions(
        named=name_of(start.worker_file),
        workspace=Path(start.workspace),
        model=None if model == model_now(start.worker_file) else model,
        read_only=bool(start.read_only),
    )
    return notices.resume_command("run", asked, read.session)
