"""Files that are as they were when a session began."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from forge_cli.sandbox.git.index import staged_entries


class FilesAtStart:
    """The files of a session that are as they were when it began."""

    def __init__(self, began: float) -> None:
        """Take the time at which the session began, in seconds since the epoch."""
        self._began = began
        self._indexes: dict[Path, frozenset[bytes]] = {}

    def hold(self, files: Sequence[Path], *, tracked: bool) -> bool:
        """Return True if no file has changed since, and git tracks all of them if it has to."""
        return bool(files) and all(
            self._is_unchanged(file) and (not tracked or self._is_tracked(file)) for file in files
        )

    def _is_unchanged(self, file: Path) -> bool:
        # The time of the last change of the inode, which no program can set back.
        try:
            return file.is_file() and os.stat(file).st_ctime < self._began
        except OSError:
            return False

    def _is_tracked(self, file: Path) -> bool:
        for folder in file.parents:
            index = folder / ".git" / "index"
            if index.exists():
                return os.fsencode(file.relative_to(folder)) in self._names_in(index)
        return False

    def _names_in(self, index: Path) -> frozenset[bytes]:
        """Return the tracked names; none if the index is newer than the session.

        The session may have added a stranger's file to it.
        """
        if index not in self._indexes:
            names: frozenset[bytes] = frozenset()
            try:
                if os.stat(index).st_ctime < self._began:
                    names = frozenset(entry[-1] for entry in staged_entries(index.read_bytes()))
            except Exception:  # a damaged index tracks nothing
                names = frozenset()
            self._indexes[index] = names
        return self._indexes[index]
