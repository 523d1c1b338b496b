"""The progress of ``forge batch``: live lines on a terminal, a line now and then elsewhere, or events."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from forge_cli.apps.batch.counts import BatchEvent
from forge_cli.apps.batch.screen import BatchScreen
from forge_cli.core.errors import ExitCode
from forge_cli.engine.batch.local import SharedPace
from forge_cli.process.streams import draw_below, erase_live_lines, live_lines
from forge_cli.ui.terminal.live import LiveLines, can_draw
from forge_cli.ui.terminal.status import duration
from forge_cli.ui.wrap import wrap_for

EVERY = 5.0
"""Seconds between two lines where there is no terminal."""
SHORTEST_PAUSE = 1.0
"""Seconds of a pause that is worth telling."""


def provider_state(pace: SharedPace) -> str:
    """The provider's problem right now."""
    if (pause := pace.pause) >= SHORTEST_PAUSE:
        return f"the provider is busy, next request in {duration(pause)}"
    return pace.problem


class BatchReport:
    """Passes the events of a batch on to its display."""

    def __init__(self, name: str, out: TextIO, provider: Callable[[], str], *, as_json: bool) -> None:
        self.screen = BatchScreen(name, provider)
        self._out, self._as_json = out, as_json
        self._since = time.monotonic()
        self._live = can_draw(sys.stderr) and not os.environ.get("CI")
        self._ended = threading.Event()

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Live lines stand on the terminal for as long as this lasts, or a line is written every few seconds."""
        if started := live_lines():
            started.lines = lambda _: self.screen.lines(self._seconds)  # theirs began with the process
        elif self._live:
            live = LiveLines(sys.stderr.fileno(), self.screen.lines, since=self._since)
            draw_below(live)
            live.start()
        thread = threading.Thread(target=self._tick, name="forge-batch-lines", daemon=True)
        if not self._live:
            before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are for the main thread
            thread.start()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        try:
            yield
        finally:
            self._ended.set()
            erase_live_lines()

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._since

    def _tick(self) -> None:
        while not self._ended.wait(EVERY):
            with suppress(OSError, ValueError):  # its reader may be gone
                sys.stderr.write(f"forge: {self.screen.line(self._seconds)}\n")

    def __call__(self, event: BatchEvent) -> None:
        self.screen.take(event)
        if self._as_json:
            self._out.write(json.dumps(event.wire(), ensure_ascii=False) + "\n")
            self._out.flush()

    def summary(self, results: str, code: int) -> None:
        """How it ended, what went wrong last, and what to do next."""
        counts = self.screen.counts
        if code >= ExitCode.HUNG_UP and self._live:
            sys.stderr.write("\n")  # after the ^C that the terminal shows
        lines = [f"forge: {self.screen.line(self._seconds, ended=True)}"]
        lines += [f"  {error}" for error in self.screen.failures]
        lines.append(f"  results: {results}")
        if counts.parked:
            lines.append("  forge approvals list shows what is parked; after the answers, the same command resumes it")
        if counts.waiting and code == ExitCode.LIMIT:
            lines.append("  the budget is spent; the same command resumes the rest with a new one")
        elif counts.waiting:
            lines.append("  the same command resumes the rest")
        elif counts.failed:
            lines.append("  the same command tries again what failed")
        sys.stderr.write("\n".join(wrap_for(sys.stderr, line) for line in lines) + "\n")
