"""Executors: where the items of a batch run; one comes with forge, others are plugins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

from forge_cli.core.interrupt import InterruptSignal
from forge_cli.core.wire import JsonObject


class BatchItem(Struct, frozen=True):
    """One item of a batch, for an executor; it can be pickled."""

    key: str
    task: str
    session: str
    """The id of its session: one that is there already is resumed, otherwise it is a new one."""
    workspace: str
    """The working directory of its tools."""


class ItemEnd(Struct, frozen=True):
    """How an item ended."""

    key: str
    result: JsonObject
    """The object that ``forge run --output-format json`` prints."""
    opened: bool = True
    """True if the worker could be opened; if not, its problem is that of every item."""
    refused: bool = False
    """True if the provider refused the key or the model, which it would do for every item."""


Perform = Callable[[BatchItem, InterruptSignal], Awaitable[ItemEnd]]
"""Does one item, and never raises; the signal makes it save itself and end as ``interrupted``."""


class Executor(Protocol):
    """Runs items. Every item that was submitted ends exactly once."""

    def submit(self, item: BatchItem) -> None:
        """Begin an item, without waiting for it."""
        ...

    async def next_end(self) -> ItemEnd:
        """Wait for an item to end, in any order; may be cancelled without losing one."""
        ...

    def cancel(self, reason: str) -> None:
        """Let every item that runs save itself: it ends as ``interrupted``."""
        ...


class Taken(Struct, frozen=True):
    """The effect of a message from another machine."""

    end: ItemEnd | None = None
    """The item that it ends, if it does."""
    reply: str | None = None
    """The message to be sent back to that machine."""


class RemoteWork(Protocol):
    """The starting side of a batch, for an executor whose items run on other machines with an ``ItemHost``.

    Messages are opaque texts; the executor only carries them, in order.
    """

    def parcel(self) -> bytes:
        """The worker with every file that it names, for an ``ItemHost`` and for ``missing_here``."""
        ...

    def order(self, item: BatchItem) -> str:
        """The message that makes a host begin an item, or resume it from the last line that came back.

        From now on, nothing that an earlier order of the same item brings counts.
        """
        ...

    def take(self, message: str) -> Taken:
        """Keep what a host delivered: lines of a session go into its log here, an end is given back."""
        ...

    def interrupt(self, reason: str) -> str:
        """The message that makes a host let every item save itself."""
        ...

    def lost(self, item: BatchItem, problem: str) -> ItemEnd:
        """The end of an item that no machine works on any more; its session can be resumed."""
        ...

    @property
    def spent(self) -> bool:
        """Have the items used up what they may use together?"""
        ...


class ExecutorEnv(Struct, frozen=True):
    """The things that an executor gets."""

    perform: Perform
    """Can be pickled; in another process it has no part in the budget and the pace of the batch."""
    concurrency: int
    """The most items that are submitted at a time."""
    remote: RemoteWork
    """For items that run on other machines."""


class ExecutorFactory(Struct, frozen=True):
    """How ``--executor NAME[:ADDRESS]`` is made: ``make`` gets the address, which may be empty.

    What it gives is entered before the first item, and left when no item runs any more.
    """

    name: str
    make: Callable[[str, ExecutorEnv], AbstractAsyncContextManager[Executor]]
