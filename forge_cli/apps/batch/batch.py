"""A running batch, which submits, retries and records items until none is left."""

from __future__ import annotations

import heapq
import os
import random
import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from msgspec import Struct

from forge_cli.apps.batch.inputs import BatchInputs, InputItem, folder_name
from forge_cli.apps.batch.store import (
    BatchCounts,
    BatchEvent,
    BatchEventType,
    BatchRecord,
    BatchStore,
    Spending,
    is_resumed,
    item_state,
)
from forge_cli.core.errors import ExitCode, ForgeError, UsageError
from forge_cli.core.executors import BatchItem, Executor, ItemEnd
from forge_cli.core.interrupt import Interrupted, InterruptSignal
from forge_cli.core.text import counted, did_you_mean, visible
from forge_cli.engine.turns.limits import Budget
from forge_cli.record.batch import is_answered
from forge_cli.record.places import new_session_id

MAX_SHOWN = 5
"""The most keys that an error names."""
_SETTLED = ("completed", "parked")
"""The states of items that a change of the worker or of an input affects."""


class RestartChoice(Struct, frozen=True):
    """The completed items that start over: those with these keys, or all if None."""

    keys: frozenset[str] | None = None

    def covers(self, key: str) -> bool:
        return self.keys is None or key in self.keys


class BatchPlan(Struct, frozen=True):
    """The items of a batch with their earlier states."""

    inputs: BatchInputs
    record: BatchRecord
    counts: BatchCounts
    removed: Sequence[str] = ()
    """The keys of items that are no longer among the inputs."""

    def todo(self) -> Iterator[tuple[InputItem, str]]:
        """Yield each item to work on, with the ID of its session.

        A parked item is included once it is answered.
        """
        for item in self.inputs:
            known = self.record.items.get(item.key)
            if known is None or (known.digest != item.digest and known.state not in _SETTLED):
                yield item, new_session_id()
            elif known.state == "parked":
                if is_answered(known.session):
                    self.counts.parked -= 1
                    yield item, known.session
            elif known.state != "completed":
                if known.state == "failed":
                    self.counts.failed -= 1
                session = known.session if known.resumes else new_session_id()
                yield item, session


def make_plan(
    inputs: BatchInputs, record: BatchRecord, digest: str, restart: RestartChoice | None
) -> BatchPlan:
    """Read all inputs once.

    Raise UsageError if an input or the worker changed, unless the items start over. ``digest`` is
    that of the worker.
    """
    counts = BatchCounts()
    changed: list[str] = []
    keys: set[str] = set()
    wanted = frozenset[str]()
    if restart and restart.keys:
        wanted = restart.keys
    for item in inputs.checked():
        counts.total += 1
        known = record.items.get(item.key)
        if wanted or known:
            keys.add(item.key)
        if known is None or (restart and restart.covers(item.key)):
            continue
        if known.digest != item.digest and known.state in _SETTLED:
            changed.append(item.key)
        if known.digest == item.digest or known.state in _SETTLED:
            counts.add(known.state)
    for key in wanted - keys:
        raise UsageError(
            f"--restart {visible(key)}: there is no such item", hint=did_you_mean(key, keys, "")
        )
    if changed:
        names = _named(changed)
        hint = f"--restart {names} repeats these items, --restart repeats all, -o starts a new file"
        raise UsageError(f"the input of {names} has changed since it was completed", hint=hint)
    settled = sum(item.state in _SETTLED for item in record.items.values())
    if record.worker_digest not in ("", digest) and settled and restart is None:
        hint = "--restart repeats all items"
        open_items = [key for key, item in record.items.items() if item.state not in _SETTLED]
        if open_items:
            hint += f", --restart {_named(open_items)} only those that are not completed"
        raise UsageError(
            f"the worker has changed since it completed {counted(settled, 'item')}",
            hint=f"{hint}; -o starts a new file",
        )
    removed = [key for key in record.items if key not in keys]
    if restart:
        record.items = {key: item for key, item in record.items.items() if not restart.covers(key)}
    return BatchPlan(inputs, record, counts, removed)


def _named(keys: Collection[str]) -> str:
    shown = " ".join(visible(key) for key in list(keys)[:MAX_SHOWN])
    if len(keys) > MAX_SHOWN:
        return f"{shown} and {len(keys) - MAX_SHOWN} more"
    return shown


MAX_DELAY = 30.0
"""The longest wait before a retry in seconds, without its random part."""
MAX_REFUSALS = 3
"""Items in a row that the provider refuses before all others are taken to be refused as well."""
ReportEvent = Callable[[BatchEvent], object]
_KEY = "{key}"
_OTHER_FIELD = re.compile(r"\{(?!key\})[^{}/]*\}")


def back_off(attempt: int) -> float:
    """Return the seconds before the next attempt, longer each time and partly random."""
    return min(MAX_DELAY, 2.0 ** (attempt - 1)) * random.uniform(1, 1.25)  # noqa: S311


class EveryItemFails(ForgeError):
    """An error of one item that affects all: the worker cannot be opened, or the key is refused."""

    def __init__(self, end: ItemEnd) -> None:
        super().__init__(str(end.result.get("error")))
        self.exit_code = ExitCode(end.result["exitCode"])


class ItemFolders(Struct, frozen=True):
    """The folders of items: one for all, or one for each."""

    workspace: Path
    each_in: str | None = None
    """A path with ``{key}`` in it, or a parent folder of all items' folders."""

    def __post_init__(self) -> None:
        """Raise UsageError if the folders cannot be created."""
        if self.each_in is None:
            return
        if other := _OTHER_FIELD.search(self.each_in):
            raise UsageError(
                f"--each-in: unknown field {other[0]}", hint="use {key}, the key of an item"
            )
        before, key, _ = self.each_in.partition(_KEY)
        base = Path(f"{before}{key}").parent if key else Path(before)
        for folder in (base, *base.parents):
            if os.path.exists(folder) and not os.path.isdir(folder):
                raise UsageError(f"--each-in {self.each_in}: {folder} is not a folder")

    def of(self, key: str) -> str:
        if self.each_in is None:
            return str(self.workspace)
        pattern = self.each_in if _KEY in self.each_in else f"{self.each_in}/{_KEY}"
        return str(Path(pattern.replace(_KEY, folder_name(key))).absolute())


@dataclass(slots=True)
class _Attempt:
    """An attempt at an item."""

    item: InputItem
    session: str
    number: int = 1
    failure: ItemEnd | None = None
    """The end of the previous attempt."""


@dataclass(kw_only=True)
class Batch:
    """One run of ``forge batch``."""

    plan: BatchPlan
    store: BatchStore
    executor: Executor
    folders: ItemFolders
    interrupt: InterruptSignal
    pool: Budget
    tell: ReportEvent
    concurrency: int
    retries: int
    delay: Callable[[int], float] = back_off
    spending: Spending = field(default_factory=Spending)

    def __post_init__(self) -> None:
        self._todo: Iterator[tuple[InputItem, str]] = iter(self.plan.todo())
        self._running: dict[str, _Attempt] = {}
        self._retries: list[tuple[float, int, _Attempt]] = []
        self._order = count()
        self._opened = False
        self._exhausted = False
        self._answered = False
        self._refusals = 0
        self._problem: ForgeError | None = None
        self._unreported: list[BatchEvent] = []
        """Events that are reported once the results before them are on disk."""

    @property
    def counts(self) -> BatchCounts:
        return self.plan.counts

    @property
    def spent(self) -> bool:
        """True if the common budget of all items is used up."""
        limits = self.pool.limits
        if limits.max_tokens is not None and self.spending.tokens >= limits.max_tokens:
            return True
        if limits.max_cost is not None and (self.spending.cost or 0.0) >= limits.max_cost:
            return True
        return self.pool.is_spent

    async def run(self) -> ExitCode:
        """Work until no item is left; after an interrupt, running items save their state."""
        self._report("batchStart")
        await self._work()
        if self._problem:
            raise self._problem
        code = self._exit_code()
        self.store.end(code)
        self._report("batchEnd", exit_code=int(code))
        return code

    async def _work(self) -> None:
        while not self._is_stopped and (await self._fill() or self._running or self._retries):
            await self._step()
        if self._running:
            self.executor.cancel(self.interrupt.reason or "interrupted")
        while self._running:
            await self._collect()
        for _, _, attempt in self._retries:  # there is no time to try them again
            if attempt.failure:
                self._keep(attempt, attempt.failure, cut=False)
                # Its number is that of the next attempt, which is not made.
                self._finished(replace(attempt, number=attempt.number - 1), attempt.failure)
        await self._report_ends()

    @property
    def _is_stopped(self) -> bool:
        """True if the batch was interrupted, its budget is spent, or every item fails."""
        return (
            self.interrupt.interrupted
            or self._problem is not None
            or (self.spent and not self._running)
        )

    def _exit_code(self) -> ExitCode:
        if self.interrupt.interrupted:
            return Interrupted(self.interrupt.reason or "").exit_code
        return self.counts.exit_code(spent=self.spent)

    async def _fill(self) -> bool:
        """Submit as many items as may run in parallel; return True if there was one.

        Their session IDs are on disk first. After a power cut, an item with another session would
        repeat its calls.
        """
        begun: list[_Attempt] = []
        while len(self._running) < self.concurrency and not self.spent:
            attempt = self._next()
            if attempt is None:
                break
            begun.append(attempt)
            self._begin(attempt)
        if begun:
            await self._sync()
        for attempt in begun:
            item = attempt.item
            folder = self.folders.of(item.key)
            self.executor.submit(BatchItem(item.key, item.task, attempt.session, folder))
        return bool(begun)

    def _next(self) -> _Attempt | None:
        if self._retries and self._retries[0][0] <= time.monotonic():
            return heapq.heappop(self._retries)[2]
        if not self._exhausted:
            # The iterator goes on where it was: all inputs need not fit into memory.
            for item, session in self._todo:
                return _Attempt(item, session)
            self._exhausted = True
        return None

    def _begin(self, attempt: _Attempt) -> None:
        item = attempt.item
        self._running[item.key] = attempt
        self.store.start(item.key, attempt.session, item.digest)
        self.counts.running += 1
        self._report("itemStarted", key=item.key, session=attempt.session, attempt=attempt.number)

    async def _step(self) -> None:
        """Wait for the next end, or until the next retry is due."""
        wait: float | None = None
        if self._retries and len(self._running) < self.concurrency:
            wait = max(0.0, self._retries[0][0] - time.monotonic())
        with self.interrupt.scope(), anyio.move_on_after(wait):
            if self._running:
                await self._collect()
            else:
                await anyio.sleep_forever()
        if not self._is_stopped:
            await self._fill()
        await self._report_ends()

    async def _collect(self) -> None:
        """Wait for the next end, and take all others that are there."""
        self._take(await self.executor.next_end())
        with anyio.move_on_after(0):
            while self._running:
                self._take(await self.executor.next_end())

    async def _report_ends(self) -> None:
        """Flush once for all items that have ended, then report them."""
        if self._unreported:
            await self._sync()
            unsaid = self._unreported
            self._unreported = []
            for event in unsaid:
                self.tell(event)

    async def _sync(self) -> None:
        if self.store.unsynced:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self.store.sync)

    def _take(self, end: ItemEnd) -> None:
        attempt = self._running.pop(end.key)
        self.counts.running -= 1
        self.spending.add(end.result)
        # The worker cannot be opened at all, so no other item needs to try.
        if not end.opened and not self._opened:
            self._problem = self._problem or EveryItemFails(end)
            return
        self._opened = self._opened or end.opened
        if end.refused and not self.interrupt.interrupted:
            self._refusals += 1
            if not self._answered or self._refusals >= MAX_REFUSALS:
                self._problem = self._problem or EveryItemFails(end)
                return
        elif end.result["status"] == "completed":
            self._answered = True
            self._refusals = 0
        cut = self.spent
        may_help = item_state(end.result, cut=cut) == "failed" and not end.refused
        if self.interrupt.interrupted or cut:
            may_help = False
        if may_help and attempt.number <= self.retries:
            self._try_again(attempt, end)
            return
        self._keep(attempt, end, cut=cut)
        self._finished(attempt, end)

    def _keep(self, attempt: _Attempt, end: ItemEnd, *, cut: bool) -> None:
        state = item_state(end.result, cut=cut)
        self.store.finish(
            end.key, attempt.item.recorded, end.result, cut=cut and state == "interrupted"
        )
        self.counts.add(state)

    def _try_again(self, attempt: _Attempt, end: ItemEnd) -> None:
        delay = self.delay(attempt.number)
        session = attempt.session if is_resumed(end.result) else new_session_id()
        again = _Attempt(attempt.item, session, attempt.number + 1, end)
        # The count decides between equal times, because attempts have no order.
        heapq.heappush(self._retries, (time.monotonic() + delay, next(self._order), again))
        self._finished(attempt, end, retry_in=round(delay, 3))

    def _finished(self, attempt: _Attempt, end: ItemEnd, retry_in: float | None = None) -> None:
        self._report(
            "itemFinished",
            key=end.key,
            session=end.result["sessionId"],
            attempt=attempt.number,
            result=end.result,
            retry_in=retry_in,
        )

    def _report(self, kind: BatchEventType, **facts: Any) -> None:
        """Report an event after those that wait for the disk."""
        event = BatchEvent(kind, self.counts, self.spending, **facts)
        if self._unreported or kind == "itemFinished":
            self._unreported.append(event)
        else:
            self.tell(event)
