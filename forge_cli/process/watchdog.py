"""A thread that ends the process if third-party code holds it past its time or a signal."""

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

INTERVAL = 0.25
"""Seconds between two checks."""
STARVED_AFTER = 8 * INTERVAL
"""Seconds without a check after which the thread counts as starved."""
LEAVE_LIMIT = 3.0
"""Seconds for the last output, which may wait for a lock that the main thread holds."""

Leave = Callable[[ForcedEnd], int]
"""Writes the pending output in place of the event loop, and returns the exit code."""


class Watchdog(threading.Thread):
    """A daemon thread that checks whether the process has to end."""

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
        while not self._over.wait(INTERVAL):
            now = time.monotonic()
            self._gap = now - self._looked
            self._looked = now
            self.look()

    @property
    def is_starved(self) -> bool:
        """Return True if code in C, such as a regular expression, lets no other thread run."""
        return max(self._gap, time.monotonic() - self._looked) > STARVED_AFTER

    def look(self) -> None:
        """End the process if its time is over."""
        if end := find_forced_end():
            self._end(end)

    def _end(self, end: ForcedEnd) -> None:
        code = int(end.exit_code)
        if self._ended_by is not None:
            if self._ended_by is not threading.current_thread():
                # Let the thread that has begun to end the process finish its output.
                time.sleep(LEAVE_LIMIT)
                os._exit(code)
            return
        self._ended_by = threading.current_thread()
        last = threading.Timer(LEAVE_LIMIT, os._exit, [code])
        last.daemon = True
        last.start()
        with suppress(BaseException):  # a failure here must not keep the process alive
            code = self._leave(end)
        from forge_cli.sandbox.processes.tree import kill_children

        kill_children()
        os._exit(code)


def say_fault(end: ForcedEnd) -> int:
    """Report the third-party code that holds the process; the default of ``leave``."""
    erase_live_lines()
    sys.stderr.write(f"forge: {visible(end.fault or 'the work did not end')}\n")
    return end.exit_code
