"""An index of the sessions: their overviews as last read from the logs, which remain the truth.

An entry counts as long as its log is the very file that was read; everything else is read anew. The index lies beside
the logs, whose words it repeats, and can be deleted at any time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from forge_cli.core.errors import ForgeError
from forge_cli.core.reading import read
from forge_cli.core.wire import Unreadable, wire
from forge_cli.files.cache import StampedCache
from forge_cli.files.places import cannot_read
from forge_cli.record.log import INDEX, session_files, sessions_folder
from forge_cli.record.overview import Overview, read_overview, with_holder

FILE = INDEX
FORMAT = 1
"""Changes when the overview of the same log would be another one."""
TEXT_MAX = 10_000
"""Characters of a task that are kept; a session with a longer one is read each time."""


class SessionIndex:
    """Overviews of sessions: ``with SessionIndex() as index: index.overview(path)``; new ones are kept at the end."""

    def __init__(self) -> None:
        self._folder = sessions_folder()
        self._cache = StampedCache(self._folder / FILE)

    def __enter__(self) -> Self:
        self._cache.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Sessions that are gone are forgotten."""
        try:
            self._cache.retain(os.listdir(self._folder))
        except OSError:
            return
        self._cache.__exit__(kind, error, trace)

    def readable(self) -> Iterator[tuple[Path, Overview]]:
        """Every session that can be read, with its log; the one that was worked on last first."""
        for path in session_files():
            try:
                seen = self.overview(path)
            except ForgeError:
                continue
            yield path, seen

    def overview(self, path: Path) -> Overview:
        """A session at a glance; WorkerError for one that cannot be read."""
        try:
            stamp = _stamp(path)
        except OSError as problem:
            raise cannot_read(path, problem, "the session ") from None
        try:
            return with_holder(path, read(Overview, self._cache.find(path.name, stamp)))
        except Unreadable:
            pass
        seen = read_overview(path)
        if len(seen.task) + len(seen.title) <= TEXT_MAX:
            self._cache.put(path.name, stamp, wire(seen))
        return with_holder(path, seen)


def forget_removed() -> None:
    """Keep nothing of sessions that are gone."""
    with SessionIndex():
        pass


def _stamp(path: Path) -> str:
    """Taken before a log is read: one that grows meanwhile has another stamp the next time."""
    status = path.stat()
    return f"{FORMAT} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"
