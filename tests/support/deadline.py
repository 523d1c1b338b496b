"""A deadline for what runs in the process of the tests and does not have to answer to anybody, such as a command."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

AGAIN = 2.0
"""Seconds until it is raised once more: what cleans up after the first time may hang as well."""


@contextmanager
def deadline(seconds: float = 60) -> Iterator[None]:
    """Fail what is not done in time, wherever it waits; the limit of pytest-timeout around it stays in force."""

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
