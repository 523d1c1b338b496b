"""Detection of closed terminals, whose reads return nothing and whose writes fail."""

from __future__ import annotations

import select


def is_hung_up(fd: int) -> bool:
    """Return True if the terminal of ``fd`` was closed, not if a person ended the input."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    # A closed terminal reports POLLHUP, a closed descriptor POLLNVAL; Ctrl-D reports neither.
    return any(state & (select.POLLHUP | select.POLLNVAL) for _, state in poll.poll(0))
