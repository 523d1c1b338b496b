"""Lookup of a worker that another worker names, by path or by name."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.text import did_you_mean, visible
from forge_cli.files.lookup import FOLDER_FILES, SUFFIXES, worker_of_folder
from forge_cli.files.worker import Worker, load_worker

FOLDERS = (".", "workers")
_ENDS = (*SUFFIXES, *(f"/{name}" for name in FOLDER_FILES))


def worker_candidates(folder: Path, entry: str) -> list[Path]:
    """Return the possible files of a worker, in order: a path, or a name of a file or folder."""
    if "/" in entry or Path(entry).suffix in SUFFIXES:
        return [folder / entry]
    found: list[Path] = []
    for beside in FOLDERS:
        found += [folder / beside / f"{entry}{end}" for end in _ENDS]
    return found


def find_allowed(folder: Path, entry: str, where: Mark | None) -> Worker:
    """Return the worker of an entry in ``allowed:``; an error in its file names that entry."""
    looked = worker_candidates(folder, entry)
    found = next((path for path in looked if path.exists()), None)
    if found is None:
        hint = did_you_mean(entry, _known(folder, looked), _looked_for(folder, entry, looked))
        raise WorkerError(where, f"there is no worker '{visible(entry)}'", hint=hint)
    try:
        return load_worker(found)
    except WorkerError as error:
        remedy = error.hint
        if where:
            remedy = f"'{visible(entry)}' is allowed in {where}"
        raise WorkerError(error.where, error.message, hint=remedy) from None


def _looked_for(folder: Path, entry: str, looked: list[Path]) -> str:
    if len(looked) == 1:
        spelled = looked[0]
        if spelled.is_relative_to(folder):
            spelled = spelled.relative_to(folder)
        return f"looked for {spelled} in {folder}"
    files = f"{entry}{', '.join(SUFFIXES)}"
    inside = " and ".join(f"{entry}/{name}" for name in FOLDER_FILES)
    return f"looked for {files}, {inside} in {folder} and {folder / 'workers'}"


def _known(folder: Path, looked: list[Path]) -> list[str]:
    """Return names of possible workers, in the spelling of the entry."""
    if len(looked) == 1:
        parent = looked[0].parent
        names = [path.name for path in parent.glob("*") if path.suffix in SUFFIXES or path.is_dir()]
        spelled = str(parent)
        if parent.is_relative_to(folder):
            spelled = str(parent.relative_to(folder))
        known = names + [f"{spelled}/{name}" for name in names]
        if spelled == ".":
            known += [f"./{name}" for name in names]
        return known
    entries = list(chain.from_iterable((folder / beside).glob("*") for beside in FOLDERS))
    files = [path.stem for path in entries if path.suffix in SUFFIXES]
    return [*files, *(path.name for path in entries if worker_of_folder(path))]


def allowed_by(section: Any) -> list[str]:
    """Return the valid entries of ``allowed:`` in a section that has not been checked."""
    if not isinstance(section, Mapping):
        return []
    given = section.get("allowed")
    if not isinstance(given, list):
        return []
    return [entry for entry in given if isinstance(entry, str)]
