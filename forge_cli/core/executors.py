"""Executors: where the items of a batch run; forge has one, plugins add others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

from forge_cli.core.interrupt import InterruptSignal
from forge_cli.core.wire import JsonObject


class BatchItem(Struct, frozen=True):
    """One item of a batch, as an executor gets it; it can be pickled."""

    key: str
    task: str
    session: str
    """The id of its session; an existing session is resumed."""
    workspace: str
    """The working directory of its tools."""


class ItemEnd(Struct, frozen=True):
    """The end of an item."""

    key: str
    result: JsonObject
    """The object that ``forge run --output-format json`` prints."""
    opened: bool = True
    """True if the worker opened; if not, every item of the batch has this problem."""
    refused: bool = False
    """True if the provider rejected the key or model, as it would for every item."""


Perform = Callable[[BatchItem, InterruptSignal], Awaitable[ItemEnd]]
"""Run one item; never raises. The signal makes it save its work and end as ``interrupted``."""


class Executor(Protocol):
    """Runs items; every submitted item ends exactly once."""

    def submit(self, item: BatchItem) -> None:
        """Start an item without waiting for it."""
        ...

    async def next_end(self) -> ItemEnd:
        """Wait for any item to end; cancelling this loses no end."""
        ...

    def cancel(self, reason: str) -> None:
        """Make every running item save its work and end as ``interrupted``."""
        ...


class Taken(Struct, frozen=True):
    """The effect of a message from another machine."""

    end: ItemEnd | None = None
    """The end of an item, if the message reports one."""
    reply: str | None = None
    """The message to send back to that machine."""


class RemoteWork(Protocol):
    """The local side of a batch whose items run on other machines, each with an ``ItemHost``.

    Messages are opaque text; the executor only transports them, in order.
    """

    def parcel(self) -> bytes:
        """Return the worker with all its files, for an ``ItemHost`` and ``missing_here``."""
        ...

    def order(self, item: BatchItem) -> str:
        """Return the message that makes a host start an item, or resume it after the last line.

        Messages for earlier orders of the same item no longer count.
        """
        ...

    def take(self, message: str) -> Taken:
        """Process a message from a host: log its session lines, and return the end of its item."""
        ...

    def interrupt(self, reason: str) -> str:
        """Return the message that makes a host save the work of every item."""
        ...

    def lost(self, item: BatchItem, problem: str) -> ItemEnd:
        """Return the end of an item whose machine is gone; its session can be resumed."""
        ...

    @property
    def spent(self) -> bool:
        """True if the items have used up their shared budget."""
        ...


class ExecutorEnv(Struct, frozen=True):
    """The means of an executor to run items."""

    perform: Perform
    """Can be pickled; in another process it does not share the budget and pace of the batch."""
    concurrency: int
    """The most items submitted at a time."""
    remote: RemoteWork
    """For items that run on other machines."""


class ExecutorFactory(Struct, frozen=True):
    """The executor behind ``--executor NAME[:ADDRESS]``.

    ``make`` gets the address, which may be empty. Its result is entered before the first item and
    left after the last one.
    """

    name: str
    make: Callable[[str, ExecutorEnv], AbstractAsyncContextManager[Executor]]
