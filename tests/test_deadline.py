"""Nothing that hangs holds up the tests: what waits in this process is stopped wherever it waits."""

import signal
import threading
import time

import anyio
import pytest

from .deadline import deadline
from .rows import each_row


async def shielded() -> None:
    with anyio.CancelScope(shield=True):
        await anyio.sleep(30)


async def stubborn() -> None:
    """Hang, and hang again while it is cleaned up."""
    try:
        await anyio.sleep(30)
    finally:
        await shielded()


@each_row(
    "hang",
    [
        lambda: time.sleep(30),
        lambda: threading.Event().wait(30),
        lambda: anyio.run(anyio.sleep, 30),
        lambda: anyio.run(shielded),
        lambda: anyio.run(stubborn),
    ],
)
def test_what_hangs_is_a_failure(hang, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.deadline.AGAIN", 0.05)
    begun = time.monotonic()
    with pytest.raises(pytest.fail.Exception, match="not ended after 0.05 seconds"), deadline(0.05):
        hang()
    assert time.monotonic() - begun < 20


def test_the_limit_around_it_stays_in_force() -> None:
    handler = signal.getsignal(signal.SIGALRM)
    before, _ = signal.getitimer(signal.ITIMER_REAL)
    with deadline(30):
        pass
    after, _ = signal.getitimer(signal.ITIMER_REAL)
    assert before - 5 < after <= before
    assert before > 0
    assert signal.getsignal(signal.SIGALRM) is handler
