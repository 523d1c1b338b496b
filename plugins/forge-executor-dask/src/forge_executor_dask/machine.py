"""The machines of a cluster, each with a host of items and queues to and from the executor."""

# mypy: allow-untyped-calls
from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

from distributed import Client, Queue, get_client

from forge_cli import ForgeError
from forge_cli.executors import ItemHost

HEARTBEAT_INTERVAL = 5.0
"""Seconds between two heartbeats of the executor."""
MAX_SILENCE = 60.0
"""Seconds without a heartbeat after which a machine stops its work."""
Message = dict[str, Any]

_machines: dict[str, Machine] = {}
_making = threading.Lock()
"""Held while a machine is made, because Dask runs tasks in several threads."""


def run_item(batch: str, key: str) -> None:
    """Run an item as a Dask task.

    The executor sends the order, because this may be its second attempt.
    """
    with _making:
        machine = _machines.get(batch)
        if machine is None or machine.closed:
            machine = _machines[batch] = Machine(batch, get_client())
    machine.run(key)


class Machine:
    """The part of one Dask worker in one batch."""

    def __init__(self, batch: str, client: Client) -> None:
        self.closed = False
        self._batch = batch
        self._out = Queue(batch, client=client)
        self._in = Queue(f"{batch}-{uuid.uuid4().hex}", client=client)
        self._answers: dict[str, list[Message]] = {}
        self._changed = threading.Condition()
        self._host: ItemHost | None = None
        self._heard = time.monotonic()
        for work in (self._listen, self._watch):
            threading.Thread(target=work, daemon=True).start()
        self._tell({"type": "hello"})

    def run(self, key: str) -> None:
        ask = uuid.uuid4().hex
        self._answers[ask] = []
        self._tell({"type": "claim", "key": key, "ask": ask})
        with self._changed:
            self._changed.wait_for(lambda: self.closed or (self._host and self._answers[ask]))
            answers = self._answers.pop(ask)
        if self._host is None or not answers:
            raise ForgeError("the process that started the batch no longer answers")
        if answers[0]["order"] is not None:
            self._host.perform(answers[0]["order"])

    def _tell(self, message: Message) -> None:
        self._out.put({**message, "from": self._in.name})

    def _deliver(self, pieces: Sequence[str]) -> None:
        self._tell({"type": "pieces", "pieces": list(pieces)})

    def _listen(self) -> None:
        """Take messages until the batch ends."""
        with suppress(OSError):  # the scheduler is gone
            while not self.closed:
                first = self._in.get()
                self._heard = time.monotonic()
                # Each element of the queue is a tuple of messages.
                self._take([*chain(first, *self._in.get(batch=True))])
        self._close()

    def _watch(self) -> None:
        """Close when the executor is gone."""
        while not self.closed and time.monotonic() - self._heard < MAX_SILENCE:
            time.sleep(HEARTBEAT_INTERVAL)
        if not self.closed:
            self._close()

    def _take(self, messages: Sequence[Message]) -> None:
        for message in messages:
            match message["type"]:
                case "parcel":
                    self._host = ItemHost(message["parcel"], self._deliver)
                case "answer":
                    self._answers[message["ask"]].append(message)
                case "pass" if self._host:
                    self._host.take(message["message"])
                case "close":
                    self.closed = True
        with self._changed:
            self._changed.notify_all()

    def _close(self) -> None:
        self.closed = True
        if self._host:
            self._host.close()
        with self._changed:
            self._changed.notify_all()
        with suppress(Exception):  # the process that started the batch may be gone
            self._tell({"type": "closed"})
        self._in.close()
