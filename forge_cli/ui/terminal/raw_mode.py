"""A terminal in raw mode for a while, and its way back when the process ends at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_given_back: list[Callable[[], object]] = []


@contextmanager
def terminal_taken(give_back: Callable[[], object]) -> Iterator[None]:
    """Keys come one by one for a while; ``give_back`` is called where the process ends at once, in the middle of it."""
    _given_back.append(give_back)
    try:
        yield
    finally:
        _given_back.remove(give_back)


def give_terminal_back() -> None:
    """Leave the terminal as the shell wants it."""
    for give_back in reversed(_given_back):
        give_back()
