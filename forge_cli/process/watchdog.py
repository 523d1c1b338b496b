"""The thread that ends the process where third-party code holds it: past its time, or past a signal."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from forge_cli.core.bounds import ForcedEnd, find_forced_end
from forge_cli.core.text import visible
from forge_cli.process.streams import erase_live_lines

LOOK = 0.25
"""Seconds between two looks."""
STARVED = 8 * LOOK
LEAVE_LIMIT = 3.0
"""Seconds for what is still due, which may wait for a lock that the main thread holds."""

Leave = Callable[[ForcedEnd], int]
"""Writes what is still due, in the place of the event loop; returns the exit code."""


class Watchdog(threading.Thread):
    """Looks at what is at work; a daemon, so that it does not hold up the process itself."""

    def __init__(self, leave: Leave) -> None:
        super().__init__(name="forge watchdog", daemon=True)
        self._leave = leave
        self._over = threading.Event()
        self._looked = time.monotonic()
        self._gap = 0.0
        self._ended_by: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()

    def run(self) -> None:
        while not self._over.wait(LOOK):
            now = time.monotonic()
            self._gap = now - self._looked
            self._looked = now
            self.look()

    @property
    def is_starved(self) -> bool:
        """Does code in C, such as a regular expression, let no other thread work? Then a signal handler has to act."""
        return max(self._gap, time.monotonic() - self._looked) > STARVED

    def look(self) -> None:
        """End the process where it is time for that."""
        if end := find_forced_end():
            self._end(end)

    def _end(self, end: ForcedEnd) -> None:
        code = int(end.exit_code)
        if self._ended_by is not None:
            if self._ended_by is not threading.current_thread():
                time.sleep(
                    LEAVE_LIMIT
                )  # so that the thread works that has begun to end the process
                os._exit(code)
            return
        self._ended_by = threading.current_thread()
        last = threading.Timer(LEAVE_LIMIT, os._exit, [code])
        last.daemon = True
        last.start()
        with suppress(BaseException):  # whatever goes wrong now, the process ends
            code = self._leave(end)
        from forge_cli.sandbox.processes.tree import kill_children

        kill_children()
        os._exit(code)


def say_fault(end: ForcedEnd) -> int:
    """Say which third-party code holds the process, where nothing else is due."""
    erase_live_lines()
    sys.stderr.write(f"forge: {visible(end.fault or 'the work did not end')}\n")
    return end.exit_code
