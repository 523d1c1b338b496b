"""``forge sessions list``: an overview of sessions, the latest first."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.sessions.common import shorten_ids
from forge_cli.core.text import counted, cut, dollars, local_time
from forge_cli.core.wire import camel_keys
from forge_cli.record.log import session_files
from forge_cli.record.overview import fold_batches, session_index, session_row
from forge_cli.record.states import add_states, rows_without_log
from forge_cli.ui.table import Column, print_json, print_table

app = new_app()

MAX_TASK = 60
"""Characters of the task if standard output is not a terminal."""
MAX_LISTED = 20
"""Sessions that a terminal shows by default."""


@app.command("list")
def list_sessions(
    worker: Annotated[
        str | None,
        typer.Option("--worker", metavar="NAME", help="Only sessions of this worker."),
    ] = None,
    number: Annotated[
        int | None,
        typer.Option(
            "-n",
            "--number",
            metavar="N",
            min=1,
            help=f"The last N. Default: {MAX_LISTED} on a terminal, else all.",
        ),
    ] = None,
    everywhere: Annotated[bool, typer.Option("--all", help="Sessions of every folder.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the sessions of this folder and below, the latest first.

    The items of a batch are one row; list them with forge batch status RESULTS.
    """
    on_terminal = sys.stdout.isatty() and not as_json
    with session_index() as look:
        every = [row for path in session_files() if (row := session_row(path, look))]
    known = {row["session"] for row in every}
    every = [*rows_without_log(known.__contains__), *every]
    found: list[dict[str, Any]] = []
    for row in every:
        if worker in (None, row.get("worker")) and (everywhere or _is_here(row)):
            found.append(row)
    if not as_json:
        add_states([row for row in found if row.get("batch")])
        found = fold_batches(found)
    limit = number
    if limit is None and on_terminal:
        limit = MAX_LISTED
    rows = found[:limit]
    add_states([row for row in rows if "state" not in row or not row["state"]])
    if as_json:
        print_json(list(map(camel_keys, rows)))
    elif on_terminal:
        _print_short(rows)
        if number is None and len(rows) < len(found):
            sys.stdout.write(f"these are the last {MAX_LISTED}; -n shows more\n")
        if every and not everywhere and not found:
            sys.stdout.write(
                f"none in this folder; --all lists {counted(len(every), 'session')} elsewhere\n"
            )
    else:
        columns = ["session", "started", "worker", "state", "turns", "calls", "cost", "task"]
        if any(row.get("now") for row in rows):
            columns.append("now")
        print_table(columns, [_shown(row) for row in rows])


def _is_here(row: dict[str, Any]) -> bool:
    # an unreadable log may belong anywhere
    if "error" in row or not row["workspace"]:
        return True
    return Path(row["workspace"]).is_relative_to(Path.cwd())


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    if "error" in row:
        return row
    started = local_time(row["started"], "%Y-%m-%d %H:%M")
    return {
        **row,
        "started": started,
        "calls": row["tool_calls"],
        "cost": _cost(row),
        "task": cut(_about(row), MAX_TASK, "end"),
    }


def _print_short(rows: list[dict[str, Any]]) -> None:
    """Print the table with as much of each task as fits."""
    for row in rows:
        if "error" not in row:
            row |= {
                "when": _when(row["ended"]),
                "calls": row["tool_calls"],
                "cost": _cost(row),
                "task": _about(row),
            }
            if row["now"]:
                row["task"] = row["now"]
    names = ("session", "when", "worker", "state", "cost", "turns", "calls")
    optional = {"calls": 1, "turns": 2, "cost": 3, "worker": 4}
    print_table(
        [*(Column(name, drop=optional.get(name)) for name in names), Column("task", room=44)],
        shorten_ids(rows),
    )


def _about(row: dict[str, Any]) -> str:
    """Return the title of a session, or its task, in one line."""
    return " ".join((row["title"] or row["task"]).split())


def _cost(row: dict[str, Any]) -> str:
    return dollars(row["cost"]) if row.get("cost") else ""


def _when(time: str) -> str:
    """Return the time for today, else the date."""
    day = local_time(time, "%Y-%m-%d")
    now = datetime.now()
    if day == f"{now:%Y-%m-%d}":
        return local_time(time, "%H:%M")
    return local_time(time, "%b %d" if day.startswith(f"{now:%Y}-") else "%Y-%m-%d")
