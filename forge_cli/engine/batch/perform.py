"""Running an item of a batch in its own session, without a person, here or elsewhere."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, structs

from forge_cli.core.errors import ExitCode, ForgeError
from forge_cli.core.events import TurnEndEvent
from forge_cli.core.executors import BatchItem, ExecutorEnv, ItemEnd, Perform, Taken
from forge_cli.core.interrupt import InterruptSignal
from forge_cli.core.messages import Pace, Usage, current_pace
from forge_cli.core.wire import error_text
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.engine.runtime.prepared import PreparedWorker
from forge_cli.engine.runtime.result import WorkerResult
from forge_cli.engine.runtime.wiring import Wiring
from forge_cli.engine.turns.limits import Budget
from forge_cli.files.regular import read_regular
from forge_cli.files.worker import Limits, Worker, load_worker
from forge_cli.record.batch import BatchLog, open_item_session, result_so_far
from forge_cli.record.line import Line
from forge_cli.record.log import check_log
from forge_cli.record.open import OpenSession
from forge_cli.record.places import SessionLost, session_file
from forge_cli.record.recorder import Sink


class RemoteLogs(Protocol):
    """The place of the logs of sessions that run here for another machine."""

    keys: dict[str, bytes]
    """The key of the proofs in each log, by session."""

    def sink(self, session: str) -> Sink:
        """Return the sink for the lines of a session."""
        ...

    async def sync_consent(self, session: str) -> None:
        """Wait until the consent given in a session is stored there."""
        ...


class ItemPerformer:
    """Runs items of a batch, any number of them in parallel."""

    def __init__(
        self,
        work: RunOptions,
        pool: Budget | None = None,
        pace: Pace | None = None,
        away: RemoteLogs | None = None,
    ) -> None:
        """Make a performer.

        ``pool`` is the common budget, ``away`` has the logs of another machine.
        """
        self.work = work
        self.pool = Budget(Limits(), None) if pool is None else pool
        self.pace = pace
        self.away = away

    def __reduce__(self) -> tuple[Callable[..., ItemPerformer], tuple[Any, ...]]:
        # Only the options are pickled; a copy in another process makes the rest again.
        return ItemPerformer, (self.work,)

    @cached_property
    def worker(self) -> Worker:
        return load_worker(self.work.worker)

    @cached_property
    def host(self) -> PluginHost:
        return self.work.host(self.worker)

    @cached_property
    def prepared(self) -> PreparedWorker:
        """The parts that the sessions of all items share."""
        return PreparedWorker(self.worker, self.host, locked=self.work.locked)

    async def __call__(self, item: BatchItem, interrupt: InterruptSignal) -> ItemEnd:
        """Begin or resume an item and run it to its end; a failure becomes its result."""
        current_pace.set(self.pace)  # each item is a task of its own
        key = self.away.keys[item.session] if self.away else None
        try:
            make_item_folder(item.workspace)
            with open_item_session(item.session, key) as (session, log):
                done = result_so_far(session.lines)
                if done and done.get("status") == "completed":
                    return ItemEnd(item.key, dict(done))
                return await self._work(item, session, log, interrupt)
        except ForgeError as error:
            return self.failed(item, error)
        except Exception as error:  # tools and plugins are third-party code
            return self.failed(item, ForgeError(error_text(error)))

    async def _work(
        self, item: BatchItem, session: OpenSession, log: BatchLog, interrupt: InterruptSignal
    ) -> ItemEnd:
        wiring = Wiring(
            host=self.host, prepared=self.prepared, pool=self.pool, sync_consent=log.keep
        )
        if self.away:
            wiring = replace(
                wiring,
                sinks=(self.away.sink(item.session),),
                sync_consent=partial(self.away.sync_consent, item.session),
            )
        workspace = Path(item.workspace)
        runtime = self.work.runtime(
            self.worker, session, wiring, workspace=workspace, interrupt_signal=interrupt
        )
        try:
            await runtime.initialize()
        except ForgeError as error:
            return self.failed(item, error, opened=False)
        try:
            unfinished = session.resumed is not None and session.resumed.past.unfinished
            result = await runtime.run("" if unfinished else item.task)
            await runtime.ending.announce()
            result = runtime.result or result  # with the draft
            await log.keep()
        except SessionLost as error:
            return self.failed(item, error)
        finally:
            await runtime.aclose()
        return ItemEnd(
            item.key, self.prepared.redactor.redact(result.wire()), refused=result.refused
        )

    def failed(self, item: BatchItem, error: ForgeError, *, opened: bool = True) -> ItemEnd:
        """Return the end of an item without a result of its worker."""
        result = WorkerResult.not_begun(error, session_id=item.session, worker=self.worker.name)
        return ItemEnd(item.key, self.prepared.redactor.redact(result.wire()), opened)


def make_item_folder(path: str) -> None:
    """Make the working directory of an item; raise ForgeError if that is impossible."""
    if os.path.isdir(path):
        return
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ForgeError(f"cannot create the folder {path}: {error.strerror}") from None


class MachineLost(ForgeError):
    """No machine works on an item any more; a retry resumes its session."""

    exit_code = ExitCode.PROVIDER


@dataclass
class _RemoteItem:
    """An item that runs on another machine, with its log on this one."""

    item: BatchItem
    log: BatchLog


class RemoteItems:
    """Hands out items to other machines, and records what they deliver.

    No remote call is made before its consent is in the log on this machine, so no call is made
    twice. Messages from an earlier host of an item are ignored.
    """

    def __init__(self, performer: ItemPerformer, concurrency: int) -> None:
        self._performer = performer
        self._concurrency = concurrency
        self._runs = count(1)
        self._away: dict[int, _RemoteItem] = {}

    def parcel(self) -> bytes:
        from forge_cli.engine.batch.parcel import pack

        batch = self._performer
        return pack(batch.work, batch.worker, batch.host, batch.pool.limits, self._concurrency)

    def order(self, item: BatchItem) -> str:
        self._forget(item.key)
        text: str | None = None
        path = session_file(item.session)
        if path.exists():
            log, read = BatchLog.resume(path)
            try:
                if read.lines:
                    check_log(read)
                    # JSON can contain surrogates without their partners, which UTF-8 cannot.
                    text = read_regular(path)[: read.size].decode("utf-8", "surrogatepass")
            except BaseException:
                log.close()
                raise
        else:
            log = BatchLog.create(path)
        run = next(self._runs)
        self._away[run] = _RemoteItem(item, log)
        order = {"type": "order", "run": run, **structs.asdict(item)}
        return json.dumps({**order, "log": text, "proofs": log.proofs.key.hex()})

    def take(self, message: str) -> Taken:
        said = json.loads(message)
        away = self._away.get(said["run"])
        if away is None:
            return Taken()
        try:
            if said["type"] == "end":
                away.log.sync()
                self._forget(away.item.key)
                return Taken(
                    ItemEnd(away.item.key, said["result"], said["opened"], said["refused"])
                )
            line = Line.read(said["line"].encode("utf-8", "surrogatepass"))
            away.log(line)
            if line.is_consent:
                away.log.sync()
        except ForgeError as error:  # for example, the disk here is full
            self._forget(away.item.key)
            return Taken(self._performer.failed(away.item, error))
        self._count(line)
        if not line.is_consent:
            return Taken()
        return Taken(reply=json.dumps({"type": "kept", "number": said["number"]}))

    def interrupt(self, reason: str) -> str:
        return json.dumps({"type": "interrupt", "reason": reason})

    def lost(self, item: BatchItem, problem: str) -> ItemEnd:
        self._forget(item.key)
        return self._performer.failed(item, MachineLost(problem))

    @property
    def spent(self) -> bool:
        return self._performer.pool.is_spent

    def _forget(self, key: str) -> None:
        for run in [run for run, away in self._away.items() if away.item.key == key]:
            self._away.pop(run).log.close()

    def _count(self, line: Line) -> None:
        """Add the usage of a remote turn to the budget of the batch."""
        with suppress(ForgeError):
            if line.type == TurnEndEvent.type and isinstance(line.event, TurnEndEvent):
                event = line.event
                count_usage(self._performer.pool, event.usage, event.cost)


def count_usage(pool: Budget, usage: Usage, cost: float | None) -> None:
    """Add what was used in another process to the common budget."""
    Budget(Limits(), _Paid(cost), pool=pool).spend(usage)


class _Paid(Struct, frozen=True):
    """The price of a turn with a known cost."""

    amount: float | None

    def cost(self, usage: Any) -> float | None:
        return self.amount


def executor_env(
    performer: ItemPerformer, concurrency: int, perform: Perform | None = None
) -> ExecutorEnv:
    """Return the environment of an executor; ``perform`` replaces ``performer`` here."""
    return ExecutorEnv(perform or performer, concurrency, RemoteItems(performer, concurrency))
