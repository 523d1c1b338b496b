"""Waiting for the disk for many sessions at once: what waits together is synced together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from forge_cli.core.threads import start_in_thread
from forge_cli.core.values import dataclass
from forge_cli.files.sync import sync_folder

THREADS = 8
"""How many wait for the disk at once; it takes hardly longer for several than for one."""
SHARE = 8
"""Files that a thread takes in a row, for waking one costs more than to sync a file on a fast disk."""


@dataclass(eq=False)
class _Wait:
    sync: Callable[[], None]
    folder: str | None
    done: asyncio.Future[None]
    error: BaseException | None = None


class Disk:
    """Syncs files in threads, for one event loop; whatever comes while a thread is busy goes together after that."""

    def __init__(self) -> None:
        self._waiting: list[_Wait] = []
        self._at_work = 0

    async def wait_for(self, sync: Callable[[], None], folder: str | None = None) -> None:
        """Wait until a file is on the disk, and its name in a folder where that is not yet; an OSError if it is not."""
        wait = _Wait(sync, folder, asyncio.get_running_loop().create_future())
        self._waiting.append(wait)
        self._start()
        await wait.done

    def _start(self) -> None:
        while self._at_work < THREADS and len(self._waiting) > self._at_work * SHARE:
            waits, self._waiting = self._waiting[:SHARE], self._waiting[SHARE:]
            try:
                job = start_in_thread(partial(_sync_all, waits))
            except RuntimeError as error:  # the system has no thread left
                _tell(waits, error)
            else:
                self._at_work += 1
                job.add_done_callback(partial(self._end, waits))

    def _end(self, waits: Sequence[_Wait], job: asyncio.Future[None]) -> None:
        self._at_work -= 1
        _tell(waits, job.exception())
        self._start()


def _tell(waits: Sequence[_Wait], failed: BaseException | None) -> None:
    for wait in waits:
        if wait.done.done():  # whoever waited is gone
            continue
        if error := wait.error or failed:
            wait.done.set_exception(error)
        else:
            wait.done.set_result(None)


def _sync_all(waits: Sequence[_Wait]) -> None:
    for wait in waits:
        try:
            wait.sync()
        except OSError as error:
            wait.error = error
    for folder in {wait.folder for wait in waits if wait.folder}:
        try:
            sync_folder(folder)
        except OSError as error:
            for wait in waits:
                if wait.folder == folder:
                    wait.error = error
