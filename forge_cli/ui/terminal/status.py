"""The status line: which model, what it does, for how long, and how much it has read and written so far.

Imported before anything else of a command, so it imports little.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forge_cli.core.notify import RetryNotice

SPINNER = "|/-\\" if os.environ.get("TERM") == "linux" else "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
"""The fonts of the Linux console have no braille."""
TURNS_A_SECOND = 10


def dim(text: str) -> str:
    return _styled(text, 2)


def cyan(text: str) -> str:
    return _styled(text, 36)


def _styled(text: str, code: int) -> str:
    return text if os.environ.get("NO_COLOR") or not text else f"\x1b[{code}m{text}\x1b[0m"


def spin(seconds: float) -> str:
    return SPINNER[int(seconds * TURNS_A_SECOND) % len(SPINNER)]


def duration(seconds: float) -> str:
    """``0.4 s``, ``14 s``, ``2 min 5 s``, ``9 h 43 min``."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def compact(number: int) -> str:
    """``112``, ``2.5k``, ``1.2M``."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= size * 0.9995:
            shown = number / size
            return f"{shown:.0f}{unit}" if shown >= 99.95 else f"{shown:.1f}{unit}"
    return str(number)


class Status:
    """The content of the status line; those who know more set its fields."""

    def __init__(self, activity: str = "starting") -> None:
        self.model = ""
        self.activity = activity
        self.tokens_in = self.tokens_out = 0
        self._retry: tuple[RetryNotice, float] | None = None

    def wait(self, retry: RetryNotice | None) -> None:
        """Something is tried again after a while; None where that is over."""
        self._retry = (retry, time.monotonic() + retry.wait) if retry else None

    @property
    def doing(self) -> str:
        """The activity; before another try, how long it is until then."""
        if self._retry is None:
            return self.activity
        retry, until = self._retry
        left = round(until - time.monotonic())
        return f"{f'waiting {left} s, ' * (left > 0)}try {retry.attempt} of {retry.attempts}"

    @property
    def problem(self) -> list[str]:
        """Why something is tried again, on a row of its own; the model is named beside it already."""
        return [dim(f"  {self._retry[0].problem.removeprefix(f'{self.model}: ')}")] if self._retry else []

    def line(self, seconds: float, activity: str | None = None, *, spinning: bool = True) -> str:
        used = f"{compact(self.tokens_in)} in, {compact(self.tokens_out)} out" if self.tokens_in else ""
        parts = [
            self.model,
            activity or self.doing,
            f"{int(seconds)} s" if seconds < 60 else duration(seconds),
            used,
        ]
        sign = f"{cyan(spin(seconds))} " if spinning else ""
        return sign + dim(" · ".join(filter(None, parts)))

    def lines(self, seconds: float) -> list[str]:
        return [self.line(seconds)]
