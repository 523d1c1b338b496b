"""The executor in the process that started the batch: submits items, takes back results."""

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
from forge_executor_dask.machine import HEARTBEAT_INTERVAL, Message, run_item

ANSWER_TIMEOUT = 15.0
"""Seconds in which a cluster has to answer."""
DELIVERY_TIMEOUT = 8.0
"""Seconds that the end of a batch waits for the last messages of machines."""
LOOK_INTERVAL = 0.1
"""Seconds between two looks for the file of a scheduler."""
ARRIVAL_TIMEOUT = 30.0
"""Seconds between the end of a task and the end of its item."""
SAME_VERSIONS = ("forge-workers", "forge-executor-dask")
"""Distributions that need the same version everywhere."""


class DaskExecutor:
    """Runs each item as a Dask task, which Dask gives to another machine if one is lost.

    A task asks for its order wherever it runs. On another machine it is told to resume from the
    last line that came back.
    """

    def __init__(self, env: ExecutorEnv, client: Client, group: TaskGroup, parcel: bytes) -> None:
        self._remote = env.remote
        self._client = client
        self._group = group
        self._parcel = parcel
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
        """Wait for a task to end."""
        arrived = self._arrived[item.key]
        try:
            await self._client.submit(
                run_item, self.batch, item.key, key=f"forge-{uuid.uuid4().hex}", pure=False
            )
            with anyio.move_on_after(ARRIVAL_TIMEOUT):
                await arrived.wait()
            problem = "its result did not come back"
        except KilledWorker:
            problem = "every machine that ran it was lost"
        except asyncio.CancelledError:
            # Dask raises it as well if the cluster is lost.
            task = asyncio.current_task()
            if self._client.status == "running" or (task and task.cancelling()):
                raise
            problem = "the cluster no longer answers"
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
        """Take the messages of machines in order."""
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
                messages: list[Message] = [{"type": "parcel", "parcel": self._parcel}]
                if self._reason is not None:
                    messages.append(self._interrupt(self._reason))
                return messages
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
        """Return the order for an item, or None if the item has ended."""
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
        """Send heartbeats; a machine without them stops its work."""
        while True:
            await anyio.sleep(HEARTBEAT_INTERVAL)
            await self._tell_all({"type": "beat"})

    async def close(self) -> None:
        with suppress(Exception):
            await self._tell_all({"type": "close"})
            await self._wait_for_machines()
            # Twice: the scheduler counted the queue when it was created, and when it was awaited.
            self._queue.close()
            self._queue.close()

    async def _wait_for_machines(self) -> None:
        """Wait until every machine has closed its part, or until the time is over."""
        with anyio.move_on_after(DELIVERY_TIMEOUT):
            while not self._closed.issuperset(self._boxes):
                for message in [await self._queue.get(), *await self._queue.get(batch=True)]:
                    if message["type"] == "closed":
                        self._closed.add(message["from"])


@asynccontextmanager
async def open_executor(address: str, env: ExecutorEnv) -> AsyncIterator[DaskExecutor]:
    """Yield the executor; without an address, also run a cluster on this machine."""
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
                with anyio.CancelScope(shield=True), anyio.move_on_after(ANSWER_TIMEOUT):
                    await executor.close()


async def _connect(address: str, concurrency: int, stack: AsyncExitStack) -> Client:
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    security = None
    if not address:
        security = Security.temporary()
        address = await _start_cluster(concurrency, security, stack)
    try:
        # Dask itself waits for ever if another program listens at the address.
        with anyio.fail_after(2 * ANSWER_TIMEOUT):
            scheduler = address
            if address.endswith(".json"):
                scheduler = await anyio.to_thread.run_sync(
                    _read_address, Path(address), abandon_on_cancel=True
                )
            client: Any = Client(
                scheduler,
                asynchronous=True,
                timeout=ANSWER_TIMEOUT,
                set_as_default=False,
                security=security,
            )
            stack.push_async_callback(_close, client)
            await client
        await client.wait_for_workers(1, timeout=ANSWER_TIMEOUT)
    except (OSError, TimeoutError, ValueError) as error:
        hint = (
            "name the address of its scheduler, such as tcp://host:8786, and start workers for it"
        )
        why = str(error) or f"no answer for {2 * ANSWER_TIMEOUT:.0f} s"
        raise ModelError(f"the cluster {address} does not answer: {why}", hint=hint) from None
    return cast(Client, client)


async def _close(client: Any) -> None:
    """Close a client, even one that never found its cluster."""
    with suppress(Exception), anyio.move_on_after(ANSWER_TIMEOUT):
        await client.close()


def _read_address(file: Path) -> str:
    """Return the address in the file of a scheduler, which may be about to write it."""
    late = time.monotonic() + ANSWER_TIMEOUT
    while not file.exists() and time.monotonic() < late:
        time.sleep(LOOK_INTERVAL)
    found = json.loads(file.read_bytes())
    if not isinstance(found, dict) or not isinstance(found.get("address"), str):
        raise ValueError("not a file that a scheduler wrote")
    return str(found["address"])


async def _start_cluster(concurrency: int, security: Security, stack: AsyncExitStack) -> str:
    """Start a cluster on this machine and return its address.

    Clients need the key in ``security``, because a scheduler runs the code that it is sent.
    """
    processes = max(1, min(concurrency, os.cpu_count() or 1))
    cluster = LocalCluster(
        n_workers=processes,
        threads_per_worker=math.ceil(concurrency / processes),
        processes=True,
        asynchronous=True,
        dashboard_address=None,
        # Any free port, because the usual one may belong to another cluster.
        scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
        memory_limit=0,  # Dask would restart a process in the middle of its items
        silence_logs=logging.CRITICAL,
        preload="forge_executor_dask.apart",
        security=security,
    )
    try:
        await stack.enter_async_context(cluster)
    except BaseException:
        # An interrupted start leaves processes, and this process would wait for them when it ends.
        for process in multiprocessing.active_children():
            process.kill()
        raise
    return str(cluster.scheduler_address)


async def _check(client: Client, parcel: bytes) -> None:
    """Raise WorkerError if a machine lacks something, or has another version of it."""
    for name in SAME_VERSIONS:
        wanted = importlib.metadata.version(name)
        for machine, found in (
            await client.run(importlib.metadata.version, name, on_error="return")
        ).items():
            if found != wanted:
                there = f"does not have {name}"
                if isinstance(found, str):
                    there = f"has {name} {found}"
                raise WorkerError(
                    None, f"{machine} {there}", hint=f"install {name}=={wanted} there"
                )
    for machine, problems in (await client.run(missing_here, parcel, on_error="return")).items():
        if isinstance(problems, Exception):
            raise WorkerError(None, f"{machine} cannot work on this: {problems}")
        if problems:
            hint = "install there what is installed here"
            raise WorkerError(None, f"{machine}: {'; '.join(problems)}", hint=hint)
