"""The progress of ``forge batch``: live lines on a terminal, a line now and then elsewhere, or events; and its end."""

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

    def __init__(
        self, name: str, out: TextIO, provider: Callable[[], str], *, as_json: bool
    ) -> None:
        self.screen = BatchScreen(name, provider)
        self._out, self._as_json = out, as_json
        self._since = time.monotonic()
        self._live = can_draw(sys.stderr) and not os.environ.get("CI")
        self._ended = threading.Event()

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Live lines stand on the terminal for as long as this lasts, or a line is written every few seconds."""
        if self._live:
            live = LiveLines(sys.stderr.fileno(), self.screen.lines, since=self._since)
            draw_below(live, self._out)
            live.start()
        thread = threading.Thread(target=self._tick, name="forge-batch-lines", daemon=True)
        if not self._live:
            before = signal.pthread_sigmask(
                signal.SIG_BLOCK, signal.valid_signals()
            )  # they are for the main thread
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
            print_json(event.wire(), self._out, indent=None)
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
            lines.append(
                "  forge approvals list shows what is parked; after the answers, the same command resumes it"
            )
        if counts.waiting and code == ExitCode.LIMIT:
            lines.append("  the budget is spent; the same command resumes the rest with a new one")
        elif counts.waiting:
            lines.append("  the same command resumes the rest")
        elif counts.failed:
            lines.append("  the same command tries again what failed")
        sys.stderr.write("\n".join(wrap_for(sys.stderr, line) for line in lines) + "\n")


LAST_ERRORS = 3
BAR = 24
LONGEST_ERROR, LONGEST_KEY = 200, 30
_NO_ERROR = ("completed", "parked", "interrupted")
_FULL, _EMPTY = "█", "░"


class BatchScreen:
    """Takes the events of a batch, and says how it stands at any time."""

    def __init__(self, name: str, provider: Callable[[], str] = str) -> None:
        """``provider`` says what is wrong with the provider right now, if anything."""
        self.name = name
        self._provider = provider
        self.preparing = "reading the inputs"
        self.counts, self.spending = BatchCounts(), Spending()
        self.errors: deque[str] = deque(maxlen=LAST_ERRORS)
        self.failures: deque[str] = deque(maxlen=LAST_ERRORS)
        """The last ones that were final."""
        self._ended = 0
        self._ready = False

    def take(self, event: BatchEvent) -> None:
        self.counts, self.spending, self._ready = event.counts, event.spending, True
        if event.type != "itemFinished" or event.result is None:
            return
        status = str(event.result.get("status"))
        self._ended += event.retry_in is None and status != "interrupted"
        if status not in _NO_ERROR:
            first = visible(str(event.result.get("error")).partition("\n")[0])
            key = cut(visible(event.key or ""), LONGEST_KEY, "middle")
            error = cut(f"{key}: {visible(status)}: {first}", LONGEST_ERROR, "end")
            if event.retry_in is None:
                self.failures.append(error)
                self.errors.append(error)
            else:
                self.errors.append(f"{error} (again in {duration(event.retry_in)})")

    def lines(self, seconds: float) -> list[str]:
        """The live lines on a terminal."""
        if not self._ready:
            return [f"{cyan(spin(seconds))} {dim(f'{visible(self.name)} · {self.preparing}')}"]
        counts = self.counts
        done = counts.total - counts.waiting - counts.running
        filled = BAR * done // max(1, counts.total)
        bar = cyan(_FULL * filled) + dim(_EMPTY * (BAR - filled))
        first = f"{cyan(spin(seconds))} {visible(self.name)}  {bar}  {done:,} of {counts.total:,}"
        return [
            first,
            f"  {_states(counts)}",
            f"  {dim(' · '.join(self._facts(seconds)))}",
            *(f"  {dim(text)}" for text in (*self._trouble(), *self.errors)),
        ]

    def line(self, seconds: float, *, ended: bool = False) -> str:
        """The same in one line, for a log."""
        if not self._ready:
            return self.preparing
        trouble = [] if ended else self._trouble()
        return " · ".join(
            [_states(self.counts).replace("   ", ", "), *trouble, *self._facts(seconds)]
        )

    def _trouble(self) -> list[str]:
        return (
            [cut(visible(problem), LONGEST_ERROR, "end")] if (problem := self._provider()) else []
        )

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
    shown = (
        [f"{counts.completed:,} completed", f"{counts.running:,} running"] if counts.running else []
    )
    shown = shown or [f"{counts.completed:,} completed"]
    shown += [f"{counts.failed:,} failed"] if counts.failed else []
    shown += [f"{counts.parked:,} parked"] if counts.parked else []
    shown += [f"{counts.waiting:,} waiting"] if counts.waiting else []
    return "   ".join(shown)
