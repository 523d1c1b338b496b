"""Items of a batch in drafts: each runs in a process of its own, which sees its view."""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import anyio
from anyio.abc import Process
from msgspec.structs import asdict

from forge_cli.cli.drafting import enter_draft
from forge_cli.core.errors import ForgeError
from forge_cli.core.executors import BatchItem, ItemEnd
from forge_cli.core.interrupt import InterruptSignal
from forge_cli.core.messages import Usage
from forge_cli.core.wire import read
from forge_cli.engine.batch.perform import ItemPerformer, count_usage, make_item_folder
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.process.signals import in_loop, interruptible
from forge_cli.record.places import session_file

MODULE = "forge_cli.apps.batch.drafted"
ERROR_CHARACTERS = 400
"""The most characters of its last output in the error of an item."""
_PR_SET_PDEATHSIG = 1


class DraftedPerformer:
    """Runs each item in a draft of its own.

    The view belongs to a process, so that each item has one; what it used counts in the common
    budget when it has ended.
    """

    def __init__(self, performer: ItemPerformer) -> None:
        self._performer = performer

    async def __call__(self, item: BatchItem, interrupt: InterruptSignal) -> ItemEnd:
        try:
            end = await self._run(item, interrupt)
        except (OSError, ForgeError) as error:
            return self._performer.failed(item, ForgeError(str(error)))
        usage = read(Usage, end.result.get("usage") or {})
        count_usage(self._performer.pool, usage, end.result.get("cost"))
        return end

    async def _run(self, item: BatchItem, interrupt: InterruptSignal) -> ItemEnd:
        order = pickle.dumps((self._performer.work, item))
        process = await anyio.open_process(
            [sys.executable, "-m", MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Ctrl+C reaches the batch alone, which passes it on.
            start_new_session=True,
        )
        said: dict[str, bytes] = {}
        async with process, anyio.create_task_group() as group:
            group.start_soon(_stop_at, interrupt, process)
            group.start_soon(_collect, process, said)
            if process.stdin is not None:
                await process.stdin.send(order)
                await process.stdin.aclose()
            if process.stdout is not None:
                said["end"] = b"".join([piece async for piece in process.stdout])
            await process.wait()
            group.cancel_scope.cancel()
        try:
            return ItemEnd(item.key, **json.loads(said["end"]))
        except ValueError:
            told = said.get("errors", b"").decode(errors="replace").strip()[-ERROR_CHARACTERS:]
            problem = told.removeprefix("forge: ") or f"its process ended ({process.returncode})"
            raise ForgeError(problem) from None


async def _stop_at(interrupt: InterruptSignal, process: Process) -> None:
    """Interrupt the item when the batch is interrupted."""
    with interrupt.scope():
        await anyio.sleep_forever()
    if process.returncode is None:
        process.send_signal(signal.SIGINT)


async def _collect(process: Process, said: dict[str, bytes]) -> None:
    said["errors"] = b""
    if process.stderr is not None:
        async for piece in process.stderr:
            said["errors"] = (said["errors"] + piece)[-ERROR_CHARACTERS * 4 :]


async def _perform(work: RunOptions, item: BatchItem) -> ItemEnd:
    interrupt = InterruptSignal()
    with interruptible(interrupt.interrupt):
        return await ItemPerformer(work)(item, interrupt)


def main() -> None:
    """Run the item on standard input in a draft, and print its end."""
    # A batch that is killed must not leave its items working.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    out = os.fdopen(os.dup(1), "wb")
    work, item = cast("tuple[RunOptions, BatchItem]", pickle.load(sys.stdin.buffer))  # noqa: S301
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)  # output of tools must not mix with the end
    try:
        make_item_folder(item.workspace)
        resumed = item.session if session_file(item.session).exists() else None
        asked = replace(work, workspace=Path(item.workspace), resume=resumed, draft=True)
        end = in_loop(_perform, enter_draft(asked), item)
    except ForgeError as error:
        end = ItemPerformer(work).failed(item, error, opened=False)
    facts: dict[str, Any] = asdict(end)
    del facts["key"]
    out.write(json.dumps(facts).encode())
    out.flush()
    # The process outside exits with this code.
    os._exit(0)


if __name__ == "__main__":
    main()
