"""The progress of ``forge batch``: live lines, periodic lines without a terminal, or events."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from forge_cli.apps.batch.store import BatchCounts, BatchEvent, Spending
from forge_cli.core.errors import ExitCode
from forge_cli.core.text import cut, dollars, visible
from forge_cli.engine.batch.local import SharedPace
from forge_cli.process.streams import draw_below, erase_live_lines
from forge_cli.ui.table import print_json
from forge_cli.ui.terminal.live import LiveLines, can_draw, compact, cyan, dim, duration, spin
from forge_cli.ui.wrap import wrap_for

LINE_INTERVAL = 5.0
"""Seconds between two lines without a terminal."""
MIN_PAUSE = 1.0
"""The shortest pause that is reported, in seconds."""


def provider_state(pace: SharedPace) -> str:
    """Return the provider's present problem."""
    if (pause := pace.pause) >= MIN_PAUSE:
        return f"the provider is busy, next request in {duration(pause)}"
    return pace.problem


class BatchReport:
    """Passes the events of a batch to its display."""

    def __init__(
        self, name: str, out: TextIO, provider: Callable[[], str], *, as_json: bool
    ) -> None:
        self.screen = BatchScreen(name, provider)
        self._out = out
        self._as_json = as_json
        self._since = time.monotonic()
        # CI systems may offer a terminal, but keep every frame that is drawn.
        self._live = can_draw(sys.stderr) and not os.environ.get("CI")
        self._ended = threading.Event()

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show live lines, or write a line every few seconds, while the ``with`` block runs."""
        if self._live:
            live = LiveLines(sys.stderr.fileno(), self.screen.lines, since=self._since)
            draw_below(live, self._out)
            live.start()
        thread = threading.Thread(target=self._tick, name="forge-batch-lines", daemon=True)
        if not self._live:
            # A thread inherits the mask: signals must reach the main thread, which handles them.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
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
        while not self._ended.wait(LINE_INTERVAL):
            with suppress(OSError, ValueError):  # the reader of a pipe may be gone
                sys.stderr.write(f"forge: {self.screen.line(self._seconds)}\n")

    def __call__(self, event: BatchEvent) -> None:
        self.screen.take(event)
        if self._as_json:
            print_json(event.wire(), self._out, indent=None)
            self._out.flush()

    def summary(self, results: str, code: int) -> None:
        """Print the final counts, the last errors and the next steps."""
        counts = self.screen.counts
        # From this code on, a signal ended the batch.
        if code >= ExitCode.HUNG_UP and self._live:
            sys.stderr.write("\n")  # after the ^C that the terminal shows
        lines = [f"forge: {self.screen.line(self._seconds, ended=True)}"]
        lines += [f"  {error}" for error in self.screen.failures]
        lines.append(f"  results: {results}")
        if counts.parked:
            lines.append(
                "  forge approvals list shows parked items;"
                " once they are answered, the same command resumes them"
            )
        if counts.waiting and code == ExitCode.LIMIT:
            lines.append(
                "  the budget is spent; the same command resumes the rest with a new budget"
            )
        elif counts.waiting:
            lines.append("  the same command resumes the rest")
        elif counts.failed:
            lines.append("  the same command retries failed items")
        sys.stderr.write("\n".join(wrap_for(sys.stderr, line) for line in lines) + "\n")


MAX_ERRORS = 3
BAR_WIDTH = 24
MAX_ERROR = 200
"""The most characters of an error."""
MAX_KEY = 30
"""The most characters of the key before it."""
_NO_ERRORS = ("completed", "parked", "interrupted")
_FULL = "█"
_EMPTY = "░"


class BatchScreen:
    """The present state of a batch as text."""

    def __init__(self, name: str, provider: Callable[[], str] = str) -> None:
        """Make a screen; ``provider`` returns the provider's present problem, or an empty text."""
        self.name = name
        self._provider = provider
        self.preparing = "reading the inputs"
        self.counts = BatchCounts()
        self.spending = Spending()
        self.errors: deque[str] = deque(maxlen=MAX_ERRORS)
        self.failures: deque[str] = deque(maxlen=MAX_ERRORS)
        """The last errors of items that are not retried."""
        self._ended = 0
        self._ready = False

    def take(self, event: BatchEvent) -> None:
        self.counts = event.counts
        self.spending = event.spending
        self._ready = True
        if event.type != "itemFinished" or event.result is None:
            return
        status = str(event.result.get("status"))
        if event.retry_in is None and status != "interrupted":
            self._ended += 1
        if status not in _NO_ERRORS:
            first = visible(str(event.result.get("error")).partition("\n")[0])
            key = cut(visible(event.key or ""), MAX_KEY, "middle")
            error = cut(f"{key}: {visible(status)}: {first}", MAX_ERROR, "end")
            if event.retry_in is None:
                self.failures.append(error)
                self.errors.append(error)
            else:
                self.errors.append(f"{error} (again in {duration(event.retry_in)})")

    def lines(self, seconds: float) -> list[str]:
        """Return the live lines for a terminal."""
        if not self._ready:
            return [f"{cyan(spin(seconds))} {dim(f'{visible(self.name)} · {self.preparing}')}"]
        counts = self.counts
        done = counts.total - counts.waiting - counts.running
        filled = BAR_WIDTH * done // max(1, counts.total)
        bar = cyan(_FULL * filled) + dim(_EMPTY * (BAR_WIDTH - filled))
        first = f"{cyan(spin(seconds))} {visible(self.name)}  {bar}  {done:,} of {counts.total:,}"
        return [
            first,
            f"  {_states(counts)}",
            f"  {dim(' · '.join(self._facts(seconds)))}",
            *(f"  {dim(text)}" for text in (*self._trouble(), *self.errors)),
        ]

    def line(self, seconds: float, *, ended: bool = False) -> str:
        """Return the state on one line, for a log."""
        if not self._ready:
            return self.preparing
        trouble = [] if ended else self._trouble()
        return " · ".join(
            [_states(self.counts).replace("   ", ", "), *trouble, *self._facts(seconds)]
        )

    def _trouble(self) -> list[str]:
        problem = self._provider()
        if problem:
            return [cut(visible(problem), MAX_ERROR, "end")]
        return []

    def _facts(self, seconds: float) -> list[str]:
        counts = self.counts
        rate = self._ended / seconds * 60 if seconds else 0.0
        facts = [f"{compact(self.spending.tokens)} tokens"]
        if self.spending.cost:
            facts.append(dollars(self.spending.cost))
        if rate:
            decimals = 0 if rate >= 10 else 1
            facts.append(f"{rate:.{decimals}f} a minute")
        if rate and counts.running:
            left = (counts.waiting + counts.running) / rate * 60
            facts.append(f"about {duration(left)} left")
        return [*facts, duration(seconds)]


def _states(counts: BatchCounts) -> str:
    shown = [f"{counts.completed:,} completed"]
    for name in ("running", "failed", "parked", "waiting"):
        if number := getattr(counts, name):
            shown.append(f"{number:,} {name}")
    return "   ".join(shown)
