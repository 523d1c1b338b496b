"""The process of an ItemHost, which takes orders on standard input and prints messages."""

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

EXIT_TIMEOUT = 5.0
"""Seconds for exit functions when the process ends, less than the process above waits for it."""
CONFIRM_TIMEOUT = 60.0
"""Seconds in which the process that started the batch must confirm consent, or no call is made."""


class HostedItems:
    """The items that run in this process."""

    def __init__(self, folder: Path, orders: BinaryIO, out: BinaryIO) -> None:
        parcel = read_parcel((folder / PARCEL).read_bytes())
        self._folder = folder
        self._orders = orders
        self._out = out
        self._writing = threading.Lock()
        self._number = 0
        self._confirmed = 0
        self._more_confirmed = anyio.Event()
        self._unsynced: dict[str, int] = {}
        """By session: the number of the message with the latest consent."""
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
        """Run items until standard input ends, and the process with it."""
        loop = asyncio.get_running_loop()
        begun: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        with interruptible(self._interrupt):
            threading.Thread(target=self._listen, args=(loop, begun), daemon=True).start()
            async with anyio.create_task_group() as group:
                while True:
                    group.start_soon(self._work, await begun.get())

    def _listen(
        self, loop: asyncio.AbstractEventLoop, begun: asyncio.Queue[dict[str, Any]]
    ) -> None:
        """Read orders in a thread, because reading standard input blocks."""
        for line in self._orders:
            match json.loads(line):
                case {"type": "order"} as order:
                    loop.call_soon_threadsafe(begun.put_nowait, order)
                case {"type": "interrupt", "reason": str(reason)}:
                    loop.call_soon_threadsafe(self._interrupt, reason)
                case {"type": "kept", "number": int(number)}:
                    loop.call_soon_threadsafe(self._note_confirmed, number)
        kill_children()
        shutil.rmtree(self._folder, ignore_errors=True)
        # A tool may block the loop for ever, so the process cannot exit as Python does. Exit
        # functions of observers and libraries, such as telemetry, get a limited time.
        closing = threading.Thread(target=atexit._run_exitfuncs, daemon=True)
        closing.start()
        closing.join(EXIT_TIMEOUT)
        os._exit(0)

    def _interrupt(self, reason: str) -> None:
        self._reason = reason
        for signal in list(self._signals.values()):
            signal.interrupt(reason)

    async def _work(self, order: dict[str, Any]) -> None:
        item = BatchItem(order["key"], order["task"], order["session"], order["workspace"])
        run = self._runs[item.session] = order["run"]
        self._signals[run] = signal = InterruptSignal()
        # The batch may have been interrupted while the order was on its way.
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
            if line.transient:
                return
            message = {"type": "line", "run": run, "line": line.text(), "waits": line.is_consent}
            number = self._write(message)
            if line.is_consent:
                self._unsynced[session] = number

        return send

    async def sync_consent(self, session: str) -> None:
        """Wait until consent is in the log of the process that started the batch."""
        number = self._unsynced.get(session, 0)
        with anyio.move_on_after(CONFIRM_TIMEOUT):
            while self._confirmed < number:
                await self._more_confirmed.wait()
        if self._confirmed < number:
            raise SessionLost("the process that started the batch no longer answers")

    def _note_confirmed(self, number: int) -> None:
        self._confirmed = max(self._confirmed, number)
        self._more_confirmed.set()
        self._more_confirmed = anyio.Event()

    def _write(self, message: dict[str, Any]) -> int:
        with self._writing:
            self._number += 1
            self._out.write(json.dumps({**message, "number": self._number}).encode() + b"\n")
            self._out.flush()
            return self._number


def _put_log(path: Path, text: str | None) -> None:
    """Write the log so far to the place from which it is resumed."""
    if text is None:
        return
    make_private(path.parent)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    path.chmod(0o600)


def main() -> None:
    """Run items with orders from standard input, in the folder that the command line names."""
    orders = os.fdopen(os.dup(0), "rb")
    out = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:  # tools must not read the orders
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)  # output of tools must not mix with messages
    in_loop(HostedItems(Path(sys.argv[1]), orders, out).run)


if __name__ == "__main__":
    main()
