"""``forge sessions list``: every session at a glance, the one that was worked on last first."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.table import print_json, print_table
from forge_cli.core.errors import WorkerError
from forge_cli.core.text import cut
from forge_cli.record.log import session_files
from forge_cli.record.overview import overview
from forge_cli.ui.transcript.entries import local_time

app = new_app()

WORDS = 60
"""Characters of the task."""


@app.command("list")
def list_sessions(
    worker: Annotated[
        str | None, typer.Option("--worker", metavar="NAME", help="Only sessions of the worker of this name.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List sessions, the one that was worked on last first."""
    rows = [row for path in session_files() if (row := session_row(path)) and worker in (None, row.get("worker"))]
    if as_json:
        print_json(rows)
    else:
        print_table(["session", "started", "worker", "status", "turns", "calls", "task"], [_shown(row) for row in rows])


def session_row(path: Path) -> dict[str, Any] | None:
    """One session; one that cannot be read is a row with ``error``, one that is gone by now is none."""
    try:
        seen = dataclasses.asdict(overview(path))
    except WorkerError as error:
        return {"session": path.stem, "error": error.message} if path.exists() else None
    del seen["waits"]
    return seen


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    if "error" in row:
        return row
    task = " ".join(row["task"].split())
    return {
        **row,
        "started": local_time(row["started"], "%Y-%m-%d %H:%M"),
        "calls": row["tool_calls"],
        "task": cut(task, WORDS, "end"),
    }
