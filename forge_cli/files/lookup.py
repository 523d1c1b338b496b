"""Named workers: of the working directory, of the user, and of forge itself."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

SUFFIXES = (".yaml", ".yml", ".md", ".worker")
FOLDER_FILES = ("worker.yaml", "main.worker")
"""The worker file of a folder, in order of preference."""
SHIPPED = Path(__file__).parent.parent / "workers"
PROJECT = Path(".forge", "workers")
NAME = re.compile(r"[\w.-]+")


class WorkerOrigin(StrEnum):
    """The origin of a named worker, in the order of lookup."""

    PROJECT = "project"
    USER = "user"
    SHIPPED = "shipped"


class NamedWorker(Struct, frozen=True):
    """A worker file found by name; its content has not been read."""

    name: str
    origin: WorkerOrigin
    path: Path

    @property
    def root(self) -> Path:
        """The folder that contains the worker and everything that can belong to it."""
        if self.path.name in FOLDER_FILES and self.path.parent.name == self.name:
            return self.path.parent.parent
        return self.path.parent


def is_path(text: str) -> bool:
    """Return True if WORKER is a path, by its form or because it exists."""
    there = os.path.isfile(text) or worker_of_folder(Path(text)) is not None
    return "/" in text or Path(text).suffix in SUFFIXES or there


def worker_of_folder(folder: Path) -> Path | None:
    """Return the worker file of a folder: ``worker.yaml`` or ``main.worker``."""
    for name in FOLDER_FILES:
        if os.path.isfile(folder / name):
            return folder / name
    return None


def is_sentence(text: str) -> bool:
    """Return True if the text cannot be a name, so that it is probably a task."""
    return NAME.fullmatch(text) is None


def named_workers(folder: Path, home: Path) -> list[NamedWorker]:
    """Return all named workers in the order of lookup; the first of a name is used."""
    project = folder / PROJECT
    own = home / "workers"
    places = [(WorkerOrigin.USER, own), (WorkerOrigin.SHIPPED, SHIPPED)]
    # In the home of the user both are the same folder.
    if os.path.realpath(project) != os.path.realpath(own):
        places.insert(0, (WorkerOrigin.PROJECT, project))
    found: list[NamedWorker] = []
    for origin, place in places:
        found += _workers_in(place, origin)
    return found


def _workers_in(place: Path, origin: WorkerOrigin) -> Iterator[NamedWorker]:
    try:
        # Of two files with the same stem, the .yaml comes first and is used.
        entries = sorted(
            place.iterdir(), key=lambda entry: (entry.stem, entry.suffix != ".yaml", entry.name)
        )
    except OSError:
        return
    for entry in entries:
        inside = worker_of_folder(entry)
        if not is_sentence(entry.stem) and entry.suffix in SUFFIXES and os.path.isfile(entry):
            yield NamedWorker(entry.stem, origin, entry)
        elif not is_sentence(entry.name) and inside is not None:
            yield NamedWorker(entry.name, origin, inside)
