"""The starting side of a batch whose items run on other machines: their logs come back here, line by line."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

from forge_cli.core.errors import ExitCode, ForgeError
from forge_cli.core.events import TurnEndEvent
from forge_cli.core.executors import BatchItem, ExecutorEnv, ItemEnd, Taken
from forge_cli.engine.batch.perform import ItemPerformer
from forge_cli.engine.turns.limits import Budget
from forge_cli.files.regular import read_regular
from forge_cli.files.worker import Limits
from forge_cli.record.batch import BatchLog
from forge_cli.record.line import Line
from forge_cli.record.log import check_log
from forge_cli.record.places import session_file


class MachineLost(ForgeError):
    """No machine works on an item any more; its session is resumed when it is tried again."""

    exit_code = ExitCode.PROVIDER


@dataclass
class _Away:
    """An item that runs elsewhere, and its log here."""

    item: BatchItem
    log: BatchLog


class RemoteItems:
    """Gives out items, and takes back what their hosts deliver; what an earlier host of an item sends is passed over.

    A call is made there only after its consent is in the log here: so no call is made twice.
    """

    def __init__(self, performer: ItemPerformer, concurrency: int) -> None:
        self._performer, self._concurrency = performer, concurrency
        self._runs = count(1)
        self._away: dict[int, _Away] = {}

    def parcel(self) -> bytes:
        from forge_cli.engine.batch.parcel import pack

        return pack(self._performer, self._concurrency)

    def order(self, item: BatchItem) -> str:
        self._forget(item.key)
        text: str | None = None
        path = session_file(item.session)
        if path.exists():
            log, read = BatchLog.resume(path)
            try:
                if read.lines:
                    check_log(read)
                    text = read_regular(path)[: read.size].decode("utf-8", "surrogatepass")
            except BaseException:
                log.close()
                raise
        else:
            log = BatchLog.create(path)
        run = next(self._runs)
        self._away[run] = _Away(item, log)
        facts = {"key": item.key, "task": item.task, "session": item.session, "workspace": item.workspace}
        return json.dumps({"type": "order", "run": run, **facts, "log": text, "proofs": log.proofs.key.hex()})

    def take(self, message: str) -> Taken:
        said = json.loads(message)
        away = self._away.get(said["run"])
        if away is None:
            return Taken()
        try:
            if said["type"] == "end":
                away.log.sync()
                self._forget(away.item.key)
                return Taken(ItemEnd(away.item.key, said["result"], said["opened"], said["refused"]))
            line = Line.read(said["line"].encode("utf-8", "surrogatepass"))
            away.log(line)
            if line.is_consent:
                away.log.sync()
        except ForgeError as error:  # the disk here is full, say
            self._forget(away.item.key)
            return Taken(self._performer.failed(away.item, error))
        self._count(line)
        return Taken(reply=json.dumps({"type": "kept", "number": said["number"]}) if line.is_consent else None)

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
        """Count what items use elsewhere in the budget of all of them."""
        with suppress(ForgeError):
            if line.type == TurnEndEvent.type and isinstance(line.event, TurnEndEvent):
                event = line.event
                Budget(Limits(), _Paid(event.cost), pool=self._performer.pool).spend(event.usage)


@dataclass(frozen=True)
class _Paid:
    """The price of a turn whose cost is known already."""

    amount: float | None

    def cost(self, usage: Any) -> float | None:
        return self.amount


def executor_env(performer: ItemPerformer, concurrency: int) -> ExecutorEnv:
    """The tools of an executor."""
    return ExecutorEnv(performer, concurrency, RemoteItems(performer, concurrency))
