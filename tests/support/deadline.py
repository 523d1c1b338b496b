"""A deadline for code in the process of the tests that has no time limit, such as a command."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

AGAIN = 2.0
"""Seconds between repeated alarms, because cleanup after the first one may hang, too."""


@contextmanager
def deadline(seconds: float = 60) -> Iterator[None]:
    """Fail if the block is not done in time; the limit of pytest-timeout still applies."""

    def overdue(number: int, frame: object) -> None:
        pytest.fail(f"it has not ended after {seconds:g} seconds")

    begun, handler = time.monotonic(), signal.signal(signal.SIGALRM, overdue)
    left, _ = signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(
            signal.ITIMER_REAL, max(0.001, left - (time.monotonic() - begun)) if left else 0
        )
        signal.signal(signal.SIGALRM, handler)
