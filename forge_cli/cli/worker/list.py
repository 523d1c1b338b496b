"""``forge worker list``: the workers that have a name here, and their places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forge_cli.cli.notices import near
from forge_cli.cli.options import JsonOption, new_app
from forge_cli.core.errors import ForgeError
from forge_cli.files.home import forge_home
from forge_cli.files.lookup import NamedWorker, WorkerOrigin, named_workers
from forge_cli.files.trust import TrustStore
from forge_cli.files.worker import load_worker
from forge_cli.ui.table import Column, print_json, print_table

app = new_app()


@app.command("list")
def list_workers(as_json: JsonOption = False) -> None:
    """List the workers that can be named, and where they are.

    Looks in ./.forge/workers, in ~/.forge/workers, and at the workers that come with forge; of two
    with one name, the first is used. No worker is run.
    """
    rows = worker_rows(named_workers(Path.cwd(), forge_home()), TrustStore(forge_home()))
    if as_json:
        print_json(rows)
    else:
        print_table(
            ["name", Column("from", is_path=True), "description"], [_shown(row) for row in rows]
        )


def worker_rows(workers: list[NamedWorker], trust: TrustStore) -> list[dict[str, Any]]:
    """Return a row for each worker; ``used`` is False if another one takes precedence."""
    rows: list[dict[str, Any]] = []
    taken: set[str] = set()
    for worker in workers:
        trusted = worker.origin is not WorkerOrigin.PROJECT or trust.holds(worker)
        elsewhere = any(
            other.name == worker.name and other.origin is not worker.origin for other in workers
        )
        used = worker.name not in taken and (trusted or not elsewhere)
        if used:
            taken.add(worker.name)
        row = {"name": worker.name, "from": worker.origin.value, "path": str(worker.path)}
        rows.append({**row, "trusted": trusted, "used": used, **_content(worker)})
    return rows


def _content(worker: NamedWorker) -> dict[str, str]:
    try:
        return {"description": load_worker(worker.path).config.description}
    except ForgeError as error:
        return {"description": "", "error": str(error)}


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    told = [row["description"]]
    notes = [f"not {note}" for note in ("trusted", "used") if not row[note]]
    if notes:
        told.insert(0, f"({', '.join(notes)})")
    if row["from"] == WorkerOrigin.SHIPPED:
        place = row["from"]
    else:
        place = near(row["path"])
    shown = {**row, "from": place, "description": " ".join(filter(None, told))}
    if "error" in row:
        return {**shown, "error": row["error"].replace(f"{row['path']}:", "line ")}
    return shown
