"""Records in ``tests`` beside workers, and the worker that each belongs to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from forge_cli.core.errors import ForgeError, Mark, WorkerError
from forge_cli.engine.replay.recording import open_recording
from forge_cli.files.lookup import SUFFIXES
from forge_cli.files.worker import Worker, load_worker

FOLDER = "tests"


SKIPPED = {"node_modules", "__pycache__", "site-packages"}


def record_folders(path: Path) -> Iterator[Path]:
    """The folders below one that hold records of the workers beside them."""
    for place, folders, _ in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in SKIPPED)
        if FOLDER in folders and _is_a_home_of_workers(Path(place)):
            yield Path(place) / FOLDER


def _is_a_home_of_workers(folder: Path) -> bool:
    return (folder / "worker.yaml").exists() or any(True for _ in workers_in(folder))


def workers_in(folder: Path) -> Iterator[Worker]:
    """The files of a folder that are sound workers."""
    for file in sorted(folder.iterdir()):
        if file.suffix in SUFFIXES and file.is_file():
            with suppress(ForgeError):
                yield load_worker(file)


def worker_named_in(record: Path) -> str | None:
    try:
        return open_recording(str(record)).worker
    except ForgeError:
        return None


def worker_beside(record: Path, name: str) -> Worker:
    """The worker of that name in the folder above the record's: where it was recorded does not matter."""
    folder = record.absolute().parent.parent
    found = next((worker for worker in workers_in(folder) if worker.name == name), None)
    if found is not None:
        return found
    if (usual := folder / "worker.yaml").exists() and not any(worker.path == usual for worker in workers_in(folder)):
        return load_worker(usual)
    problem = f"there is no worker '{name}' in {folder}, where this record belongs"
    raise WorkerError(Mark(str(record)), problem, hint=f"keep it in {FOLDER}/ beside its worker, or record it again")
