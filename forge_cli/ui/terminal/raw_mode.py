"""Terminals in raw mode, which are restored even if the process ends without cleanup."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_given_back: list[Callable[[], object]] = []


@contextmanager
def terminal_taken(give_back: Callable[[], object]) -> Iterator[None]:
    """Register ``give_back`` to restore the terminal if the process ends without cleanup."""
    _given_back.append(give_back)
    try:
        yield
    finally:
        _given_back.remove(give_back)


def give_terminal_back() -> None:
    """Restore the modes of all terminals that are in raw mode."""
    for give_back in reversed(_given_back):
        give_back()
