"""The executor itself, in the process that started the batch: it submits items and takes back their results."""

# mypy: allow-untyped-calls
from __future__ import annotations

import asyncio
import importlib.metadata
import json
import logging
import math
import multiprocessing
import os
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import anyio
from anyio.abc import TaskGroup
from distributed import Client, LocalCluster, Queue
from distributed.scheduler import KilledWorker
from distributed.security import Security

from forge_cli import ForgeError
from forge_cli.errors import ModelError, WorkerError
from forge_cli.executors import BatchItem, ExecutorEnv, ItemEnd, missing_here
from forge_executor_dask.machine import BEAT, Message, run_item

ANSWER = 15.0
"""Seconds in which a cluster has to answer."""
DELIVERY = 8.0
"""Seconds that the end of a batch waits for machines, which deliver what their observers have left."""
LOOK = 0.1
"""Seconds between two looks for the file of a scheduler."""
ARRIVAL = 30.0
"""Seconds in which the end of an item has to follow the end of its task."""
SAME = ("forge-workers", "forge-executor-dask")
"""Distributions that must be the same everywhere."""


class DaskExecutor:
    """An item is a Dask task; a machine that is lost means that Dask gives its tasks to another one.

    There, the task asks again what to do, and is told to resume from the last line that came back.
    """

    def __init__(self, env: ExecutorEnv, client: Client, group: TaskGroup, parcel: bytes) -> None:
        self._remote, self._client, self._group, self._parcel = env.remote, client, group, parcel
        self.batch = f"forge-{uuid.uuid4().hex}"
        self._queue = Queue(self.batch, client=client)
        self._boxes: dict[str, Queue] = {}
        self._items: dict[str, BatchItem] = {}
        self._arrived: dict[str, anyio.Event] = {}
        self._ends: deque[ItemEnd] = deque()
        self._more = anyio.Event()
        self._reason: str | None = None
        self._closed: set[str] = set()
        """The boxes of machines that have closed their part of the batch."""

    def submit(self, item: BatchItem) -> None:
        self._items[item.key] = item
        self._arrived[item.key] = anyio.Event()
        self._group.start_soon(self._run, item)

    async def next_end(self) -> ItemEnd:
        while not self._ends:
            self._more = anyio.Event()
            await self._more.wait()
        return self._ends.popleft()

    def cancel(self, reason: str) -> None:
        self._reason = reason
        self._group.start_soon(self._tell_all, self._interrupt(reason))

    async def _run(self, item: BatchItem) -> None:
        """Follow one task to its end."""
        arrived = self._arrived[item.key]
        try:
            await self._client.submit(
                run_item, self.batch, item.key, key=f"forge-{uuid.uuid4().hex}", pure=False
            )
            with anyio.move_on_after(ARRIVAL):
                await arrived.wait()
            problem = "its end did not come back"
        except KilledWorker:
            problem = "machine after machine was lost while it ran"
        except asyncio.CancelledError:
            if self._client.status == "running" or asyncio.current_task().cancelling():  # type: ignore[union-attr]
                raise
            problem = "the cluster does not answer any more"
        except Exception as error:  # anything that a task or Dask raises
            problem = f"it failed on the cluster: {error}"
        if not arrived.is_set():
            self._finish(self._remote.lost(item, problem))

    def _finish(self, end: ItemEnd) -> None:
        if self._items.pop(end.key, None):
            self._arrived.pop(end.key).set()
            self._ends.append(end)
            self._more.set()

    async def listen(self) -> None:
        """Take what machines send, in order."""
        await self._queue  # another connection may get from it before the scheduler has made it
        while True:
            messages: list[Message] = [await self._queue.get(), *await self._queue.get(batch=True)]
            answers: dict[str, list[Message]] = {}
            for message in messages:
                if message["type"] == "closed":
                    self._closed.add(message["from"])
                answers.setdefault(message["from"], []).extend(self._take(message))
            for box, found in answers.items():
                await self._tell(box, *found)
            if self._remote.spent and self._reason is None:
                self.cancel("the budget is spent")

    def _take(self, message: Message) -> list[Message]:
        match message["type"]:
            case "hello":
                interrupt = [] if self._reason is None else [self._interrupt(self._reason)]
                return [{"type": "parcel", "parcel": self._parcel}, *interrupt]
            case "claim":
                return [
                    {"type": "answer", "ask": message["ask"], "order": self._order(message["key"])}
                ]
            case "pieces":
                taken = [self._remote.take(piece) for piece in message["pieces"]]
                for each in taken:
                    if each.end:
                        self._finish(each.end)
                replies = [each.reply for each in taken if each.reply]
                return [{"type": "pass", "message": reply} for reply in replies]
        return []

    def _order(self, key: str) -> str | None:
        """Nothing where the item has ended already."""
        if not (item := self._items.get(key)):
            return None
        try:
            return self._remote.order(item)
        except ForgeError as error:
            self._finish(self._remote.lost(item, str(error)))
            return None

    def _interrupt(self, reason: str) -> Message:
        return {"type": "pass", "message": self._remote.interrupt(reason)}

    async def _tell(self, box: str, *messages: Message) -> None:
        if messages:
            if box not in self._boxes:
                self._boxes[box] = Queue(box, client=self._client)
            await self._boxes[box].put(messages)

    async def _tell_all(self, message: Message) -> None:
        for box in list(self._boxes):
            await self._tell(box, message)

    async def beat(self) -> None:
        """Let machines know that somebody waits for them."""
        while True:
            await anyio.sleep(BEAT)
            await self._tell_all({"type": "beat"})

    async def close(self) -> None:
        with suppress(Exception):
            await self._tell_all({"type": "close"})
            await self._wait_for_machines()
            self._queue.close()
            self._queue.close()  # counted by the scheduler when it was made, and when it was awaited

    async def _wait_for_machines(self) -> None:
        """Wait until every machine has closed its part; one that was lost is waited for until the time is over."""
        with anyio.move_on_after(DELIVERY):
            while not self._closed.issuperset(self._boxes):
                for message in [await self._queue.get(), *await self._queue.get(batch=True)]:
                    if message["type"] == "closed":
                        self._closed.add(message["from"])


@asynccontextmanager
async def open_executor(address: str, env: ExecutorEnv) -> AsyncIterator[DaskExecutor]:
    """Without an address there is a cluster of processes on this machine for as long as the batch runs."""
    parcel = env.remote.parcel()
    async with AsyncExitStack() as stack:
        client = await _connect(address, env.concurrency, stack)
        await _check(client, parcel)
        async with anyio.create_task_group() as group:
            executor = DaskExecutor(env, client, group, parcel)
            group.start_soon(executor.listen)
            group.start_soon(executor.beat)
            try:
                yield executor
            finally:
                group.cancel_scope.cancel()
                with anyio.CancelScope(shield=True), anyio.move_on_after(ANSWER):
                    await executor.close()


async def _connect(address: str, concurrency: int, stack: AsyncExitStack) -> Client:
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    security = None
    if not address:
        security = Security.temporary()
        address = await _start_cluster(concurrency, security, stack)
    try:
        with anyio.fail_after(
            2 * ANSWER
        ):  # Dask itself waits for ever where something else listens there
            scheduler = address
            if address.endswith(".json"):
                scheduler = await anyio.to_thread.run_sync(
                    _read_address, Path(address), abandon_on_cancel=True
                )
            client: Any = Client(
                scheduler,
                asynchronous=True,
                timeout=ANSWER,
                set_as_default=False,
                security=security,
            )
            stack.push_async_callback(_close, client)
            await client
        await client.wait_for_workers(1, timeout=ANSWER)
    except (OSError, TimeoutError, ValueError) as error:
        hint = (
            "name the address of its scheduler, such as tcp://host:8786, and start workers for it"
        )
        why = str(error) or f"nothing came for {2 * ANSWER:.0f} s"
        raise ModelError(f"the cluster {address} does not answer: {why}", hint=hint) from None
    return cast(Client, client)


async def _close(client: Any) -> None:
    """Also one that never found its cluster."""
    with suppress(Exception), anyio.move_on_after(ANSWER):
        await client.close()


def _read_address(file: Path) -> str:
    """The address of a scheduler in the file that it writes when it starts, which may be just now."""
    late = time.monotonic() + ANSWER
    while not file.exists() and time.monotonic() < late:
        time.sleep(LOOK)
    found = json.loads(file.read_bytes())
    if not isinstance(found, dict) or not isinstance(found.get("address"), str):
        raise ValueError("this is not a file that a scheduler wrote")
    return str(found["address"])


async def _start_cluster(concurrency: int, security: Security, stack: AsyncExitStack) -> str:
    """Start a cluster on this machine; a client needs the key of ``security``: a scheduler runs what it is sent."""
    processes = max(1, min(concurrency, os.cpu_count() or 1))
    cluster = LocalCluster(
        n_workers=processes,
        threads_per_worker=math.ceil(concurrency / processes),
        processes=True,
        asynchronous=True,
        dashboard_address=None,
        scheduler_kwargs={
            "dashboard_address": "127.0.0.1:0"
        },  # the usual port may belong to another cluster
        memory_limit=0,
        silence_logs=logging.CRITICAL,
        preload="forge_executor_dask.apart",
        security=security,
    )
    try:
        await stack.enter_async_context(cluster)
    except (
        BaseException
    ):  # cut off while it starts, it leaves processes that the end of this one would wait for
        for process in multiprocessing.active_children():
            process.kill()
        raise
    return str(cluster.scheduler_address)


async def _check(client: Client, parcel: bytes) -> None:
    """Tell before the first item what is missing on a machine, or has another version there."""
    for name in SAME:
        wanted = importlib.metadata.version(name)
        for machine, found in (
            await client.run(importlib.metadata.version, name, on_error="return")
        ).items():
            if found != wanted:
                there = f"has {name} {found}" if isinstance(found, str) else f"does not have {name}"
                raise WorkerError(
                    None, f"{machine} {there}", hint=f"install {name}=={wanted} there"
                )
    for machine, problems in (await client.run(missing_here, parcel, on_error="return")).items():
        if isinstance(problems, Exception):
            raise WorkerError(None, f"{machine} cannot work on this: {problems}")
        if problems:
            hint = "install there what is installed here"
            raise WorkerError(None, f"{machine}: {'; '.join(problems)}", hint=hint)
