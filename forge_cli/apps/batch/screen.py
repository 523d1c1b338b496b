"""A batch on the screen: a few live lines on a terminal, the same in one line elsewhere, and a summary at the end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from forge_cli.apps.batch.counts import BatchCounts, BatchEvent, Spending
from forge_cli.core.text import cut, dollars, visible
from forge_cli.ui.terminal.status import compact, cyan, dim, duration, spin

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
        return " · ".join([_states(self.counts).replace("   ", ", "), *trouble, *self._facts(seconds)])

    def _trouble(self) -> list[str]:
        return [cut(visible(problem), LONGEST_ERROR, "end")] if (problem := self._provider()) else []

    def _facts(self, seconds: float) -> list[str]:
        counts, rate = self.counts, self._ended / seconds * 60 if seconds else 0.0
        left = (counts.waiting + counts.running) / rate * 60 if rate and counts.running else None
        facts = [f"{compact(self.spending.tokens)} tokens", cost_text(self.spending)]
        facts += [f"{rate:.0f} a minute" if rate >= 10 else f"{rate:.1f} a minute"] if rate else []
        facts += [f"about {duration(left)} left"] if left else []
        return [*filter(None, facts), duration(seconds)]


def cost_text(spending: Spending) -> str:
    """The money spent; empty where it is unknown."""
    return dollars(spending.cost) if spending.cost else ""


def _states(counts: BatchCounts) -> str:
    shown = [f"{counts.completed:,} completed", f"{counts.running:,} running"] if counts.running else []
    shown = shown or [f"{counts.completed:,} completed"]
    shown += [f"{counts.failed:,} failed"] if counts.failed else []
    shown += [f"{counts.parked:,} parked"] if counts.parked else []
    shown += [f"{counts.waiting:,} waiting"] if counts.waiting else []
    return "   ".join(shown)
