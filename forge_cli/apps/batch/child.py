"""The process of an ItemHost: takes orders from standard input, and writes each line of their sessions and each end."""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import shutil
import sys
import threading
from pathlib import Path
from typing import Any, BinaryIO

import anyio

from forge_cli.core.errors import ForgeError
from forge_cli.core.executors import BatchItem
from forge_cli.core.interrupt import InterruptSignal
from forge_cli.engine.batch.local import SharedPace
from forge_cli.engine.batch.parcel import FILES, PARCEL, read_parcel
from forge_cli.engine.batch.perform import ItemPerformer
from forge_cli.engine.turns.limits import Budget
from forge_cli.files.home import make_private
from forge_cli.process.signals import in_loop, interruptible
from forge_cli.record.line import Line
from forge_cli.record.places import SessionLost, session_file
from forge_cli.record.recorder import Sink
from forge_cli.sandbox.processes.tree import kill_children

LAST_DELIVERY = 5.0
"""Seconds that the end of the process waits for its exit functions; less than the process above waits for the end."""
PATIENCE = 60.0
"""Seconds in which the process that started the batch confirms that consent is kept; else no call is made."""


class HostedItems:
    """The items that run here."""

    def __init__(self, folder: Path, orders: BinaryIO, out: BinaryIO) -> None:
        parcel = read_parcel((folder / PARCEL).read_bytes())
        self._folder, self._orders, self._out = folder, orders, out
        self._writing = threading.Lock()
        self._number, self._kept = 0, 0
        self._more_kept = anyio.Event()
        self._unsynced: dict[str, int] = {}
        """By session, the number of the message with its latest consent."""
        self._runs: dict[str, int] = {}
        self.keys: dict[str, bytes] = {}
        self._signals: dict[int, InterruptSignal] = {}
        self._reason: str | None = None
        self._perform = ItemPerformer(
            parcel.write(folder / FILES),
            Budget(parcel.budget, None),
            SharedPace(parcel.concurrency),
            self,
        )

    async def run(self) -> None:
        """Work until standard input ends; then the process does."""
        loop, begun = asyncio.get_running_loop(), asyncio.Queue[dict[str, Any]]()
        with interruptible(self._interrupt):
            threading.Thread(target=self._listen, args=(loop, begun), daemon=True).start()
            async with anyio.create_task_group() as group:
                while True:
                    group.start_soon(self._work, await begun.get())

    def _listen(
        self, loop: asyncio.AbstractEventLoop, begun: asyncio.Queue[dict[str, Any]]
    ) -> None:
        """A thread, since standard input is read by waiting for it."""
        for line in self._orders:
            match json.loads(line):
                case {"type": "order"} as order:
                    loop.call_soon_threadsafe(begun.put_nowait, order)
                case {"type": "interrupt", "reason": str(reason)}:
                    loop.call_soon_threadsafe(self._interrupt, reason)
                case {"type": "kept", "number": int(number)}:
                    loop.call_soon_threadsafe(self._note_kept, number)
        kill_children()
        shutil.rmtree(self._folder, ignore_errors=True)
        # The loop may be held by a tool and never end, so the process cannot exit as Python does. Its exit functions
        # deliver what observers and libraries have left, such as telemetry; the time for that is limited.
        closing = threading.Thread(target=atexit._run_exitfuncs, daemon=True)
        closing.start()
        closing.join(LAST_DELIVERY)
        os._exit(0)

    def _interrupt(self, reason: str) -> None:
        self._reason = reason
        for signal in list(self._signals.values()):
            signal.interrupt(reason)

    async def _work(self, order: dict[str, Any]) -> None:
        item = BatchItem(order["key"], order["task"], order["session"], order["workspace"])
        run = self._runs[item.session] = order["run"]
        self._signals[run] = signal = InterruptSignal()
        if self._reason is not None:
            signal.interrupt(self._reason)
        log = session_file(item.session)
        try:
            _put_log(log, order["log"])
            self.keys[item.session] = bytes.fromhex(order["proofs"])
            end = await self._perform(item, signal)
        except (OSError, ForgeError) as error:
            end = self._perform.failed(
                item, ForgeError(f"the session cannot be resumed there: {error}")
            )
        del self._signals[run]
        self._unsynced.pop(item.session, None)
        log.unlink(missing_ok=True)
        facts = {"result": end.result, "opened": end.opened, "refused": end.refused}
        self._write({"type": "end", "run": run, **facts})

    def sink(self, session: str) -> Sink:
        run = self._runs[session]

        def send(line: Line) -> None:
            if not line.transient:
                waits = line.is_consent
                number = self._write(
                    {"type": "line", "run": run, "line": line.text(), "waits": waits}
                )
                if waits:
                    self._unsynced[session] = number

        return send

    async def sync_consent(self, session: str) -> None:
        """Wait until consent is in the log of the process that started the batch; no call is made before."""
        number = self._unsynced.get(session, 0)
        with anyio.move_on_after(PATIENCE):
            while self._kept < number:
                await self._more_kept.wait()
        if self._kept < number:
            raise SessionLost("the process that started the batch does not answer any more")

    def _note_kept(self, number: int) -> None:
        self._kept = max(self._kept, number)
        self._more_kept.set()
        self._more_kept = anyio.Event()

    def _write(self, message: dict[str, Any]) -> int:
        with self._writing:
            self._number += 1
            self._out.write(json.dumps({**message, "number": self._number}).encode() + b"\n")
            self._out.flush()
            return self._number


def _put_log(path: Path, text: str | None) -> None:
    """Put what came back so far where it is resumed from."""
    if text is None:
        return
    make_private(path.parent)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    path.chmod(0o600)


def main() -> None:
    orders, out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)  # what tools print is not a message
    in_loop(HostedItems(Path(sys.argv[1]), orders, out).run)


if __name__ == "__main__":
    main()
