"""Workers by name: those of the working directory, those of the person, and those that come with forge."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

SUFFIXES = (".yaml", ".yml", ".md", ".worker")
FOLDER_FILES = ("worker.yaml", "main.worker")
"""The worker of a folder, in this order."""
SHIPPED = Path(__file__).parent.parent / "workers"
PROJECT = Path(".forge", "workers")
NAME = re.compile(r"[\w.-]+")


class WorkerOrigin(StrEnum):
    """The origin of a worker with a name, in the order of lookup."""

    PROJECT = "project"
    USER = "user"
    SHIPPED = "shipped"


class NamedWorker(Struct, frozen=True):
    """A file that a name leads to; nothing of it has been read."""

    name: str
    origin: WorkerOrigin
    path: Path

    @property
    def root(self) -> Path:
        """The folder in which it was found, with everything that can belong to it."""
        in_folder = self.path.name in FOLDER_FILES and self.path.parent.name == self.name
        return self.path.parent.parent if in_folder else self.path.parent


def is_path(text: str) -> bool:
    """Whether WORKER is a path: by how it looks, or because there is a file or a folder with a worker."""
    there = os.path.isfile(text) or worker_of_folder(Path(text)) is not None
    return "/" in text or Path(text).suffix in SUFFIXES or there


def worker_of_folder(folder: Path) -> Path | None:
    """Return the worker file of a folder: its ``worker.yaml``, or ``main.worker``."""
    return next((folder / name for name in FOLDER_FILES if os.path.isfile(folder / name)), None)


def is_sentence(text: str) -> bool:
    """Whether it cannot be meant as a name: a task, most likely."""
    return NAME.fullmatch(text) is None


def named_workers(folder: Path, home: Path) -> list[NamedWorker]:
    """Every worker that has a name here, in the order of lookup: of two with one name the first is used."""
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
        # Of two files with one stem the .yaml comes first, and is the one that is used.
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
