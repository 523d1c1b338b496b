"""The command ``forge batch status``: the state of a batch, from its results file and journal."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import asdict

from forge_cli.apps.batch.store import (
    BatchCounts,
    BatchRecord,
    has_content,
    journal_of,
    read_record,
)
from forge_cli.cli.options import JsonOption, new_app
from forge_cli.core.errors import ExitCode, Mark, WorkerError
from forge_cli.core.text import counted, dollars, visible
from forge_cli.core.wire import camel_keys
from forge_cli.files.lock import hold_file_lock
from forge_cli.ui.table import print_json, print_table

app = new_app()
MAX_SHOWN = 20
"""The most rows of the table."""


@app.command("status")
def status(
    results: Annotated[
        Path, typer.Argument(metavar="RESULTS", help="The results file of a batch.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Show the state of a batch.

    Exit 0: all items are completed, 1: not yet, or some failed, 5: the budget is spent, 10: some
    are parked.
    """
    journal = journal_of(results)
    running = _is_running(journal)
    if not has_content(journal) and (has_content(results) or not running):
        hint = "name the results file of forge batch; its journal has to be beside it"
        raise WorkerError(Mark(str(results)), "there is no such batch", hint=hint)
    record = read_record(results)
    counts = BatchCounts(record.total)
    for item in record.current.values():
        counts.add(item.state)
    # In the files, an item that runs now looks like an interrupted one.
    counts.running = len(record.in_state("interrupted")) if running else 0
    code = counts.exit_code(spent=record.exit_code == ExitCode.LIMIT and not running)
    if as_json:
        failed = [
            {"key": key, "error": record.items[key].error} for key in record.in_state("failed")
        ]
        report = {
            "worker": record.worker,
            "active": running,
            "counts": counts.wire(),
            "usage": camel_keys(asdict(record.spending.usage)),
            "cost": record.spending.cost,
            "failed": failed,
            "parked": _parked(record),
            "exit_code": int(code),
        }
        print_json(camel_keys(report))
    else:
        _print(record, counts, running=running)
    raise typer.Exit(code)


def _is_running(journal: Path) -> bool:
    """Return True if a process works on the batch now."""
    with suppress(OSError):
        try:
            with hold_file_lock(journal, shared=True, wait=False, create=False):
                return False
        except BlockingIOError:
            return True
    return False


def _parked(record: BatchRecord) -> list[dict[str, str]]:
    return [
        camel_keys({"key": key, "session_id": record.items[key].session})
        for key in record.in_state("parked")
    ]


def _print(record: BatchRecord, counts: BatchCounts, *, running: bool) -> None:
    states = [f"{counts.completed:,} of {counts.total:,} completed"]
    named = {
        "running": counts.running,
        "failed": counts.failed,
        "parked": counts.parked,
        "waiting": counts.waiting,
    }
    states += [f"{number:,} {name}" for name, number in named.items() if number]
    tokens = counted(record.spending.tokens, "token")
    cost = f", {dollars(record.spending.cost)}" if record.spending.cost else ""
    sys.stdout.write(f"{', '.join(states)}; {tokens}{cost}\n")
    if running:
        sys.stdout.write("it is running\n")
    rows = [
        {"key": visible(key), "status": item.state, "session": item.session, "why": item.error}
        for key, item in record.current.items()
        if item.state in ("failed", "parked")
    ]
    if rows:
        sys.stdout.write("\n")
        print_table(["key", "status", "session", "why"], rows[:MAX_SHOWN])
    if len(rows) > MAX_SHOWN:
        sys.stdout.write(f"and {len(rows) - MAX_SHOWN} more; --json shows all of them\n")
    if counts.waiting and not running:
        sys.stdout.write("\nthe same forge batch command resumes the rest\n")
