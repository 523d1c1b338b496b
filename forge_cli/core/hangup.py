"""Terminals that were closed: what is read from one ends, and what is written to one fails, without anybody's doing."""

from __future__ import annotations

import select


def is_hung_up(fd: int) -> bool:
    """Return True if this was a terminal that was closed: no person has ended anything."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return any(state & (select.POLLHUP | select.POLLNVAL) for _, state in poll.poll(0))
