"""Whether a request has left: what was not sent before a connection is lost can be sent over the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import anyio

_ON_SENT: ContextVar[Callable[[], None] | None] = ContextVar("on_sent", default=None)


@contextmanager
def noticing() -> Iterator[anyio.Event]:
    """The event is set when a request that is made within is on its way."""
    sent = anyio.Event()
    token = _ON_SENT.set(sent.set)
    try:
        yield sent
    finally:
        _ON_SENT.reset(token)


def when_sent() -> Callable[[], None]:
    """To be called by the transport, once the message that this very task hands over has been written."""
    return _ON_SENT.get() or (lambda: None)
