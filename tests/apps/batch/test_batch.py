"""A running batch whose items only report their events.

Covers forge_cli.apps.batch.batch.
"""

from pathlib import Path

import anyio
import pytest

from forge_cli import InterruptSignal
from forge_cli.apps.batch.batch import Batch, ItemFolders, make_plan
from forge_cli.apps.batch.inputs import BatchInputs, TaskTemplate
from forge_cli.apps.batch.store import BatchCounts, BatchRecord, open_store
from forge_cli.core.errors import ExitCode
from forge_cli.core.executors import ExecutorEnv, ItemEnd, Perform
from forge_cli.engine.batch.local import make_local
from forge_cli.engine.batch.perform import ItemPerformer, RemoteItems
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.engine.turns.limits import Budget
from forge_cli.executors import BatchItem
from forge_cli.files.worker import Limits

pytestmark = pytest.mark.anyio
ITEMS = 30
KEYS = [f"i{number}" for number in range(ITEMS)]


async def run(
    folder: Path, perform: Perform, interrupt: InterruptSignal
) -> tuple[ExitCode, BatchCounts]:
    items = folder / "items.jsonl"
    items.write_text("".join(f'{{"id": "{key}", "task": "go"}}\n' for key in KEYS))
    plan = make_plan(BatchInputs(str(items), TaskTemplate()), BatchRecord(), "", None)
    remote = RemoteItems(ItemPerformer(RunOptions(worker="worker.yaml")), ITEMS)
    with anyio.fail_after(60), open_store(folder / "results.jsonl") as store:
        async with make_local("", ExecutorEnv(perform, ITEMS, remote)) as executor:
            batch = Batch(
                plan=plan,
                store=store,
                executor=executor,
                folders=ItemFolders(folder),
                interrupt=interrupt,
                pool=Budget(Limits(), None),
                tell=lambda event: None,
                concurrency=ITEMS,
                retries=0,
            )
            return await batch.run(), plan.counts


def ended(item: BatchItem, status: str = "completed") -> ItemEnd:
    return ItemEnd(
        item.key,
        {"status": status, "sessionId": item.session, "exitCode": 0, "usage": {}, "cost": 0.0},
    )


async def test_slow_item_delays_no_other(tmp_path: Path) -> None:
    last = anyio.Event()

    async def perform(item: BatchItem, interrupt: InterruptSignal) -> ItemEnd:
        if item.key == KEYS[-1]:
            last.set()
        await last.wait()
        return ended(item)

    code, counts = await run(tmp_path, perform, InterruptSignal())
    assert (code, counts.completed) == (ExitCode.DONE, ITEMS)


async def test_interrupt_while_items_open_reaches_all_of_them(tmp_path: Path) -> None:
    interrupt, interrupted = InterruptSignal(), list[str]()

    async def perform(item: BatchItem, signal: InterruptSignal) -> ItemEnd:
        if item.key == KEYS[3]:
            interrupt.interrupt("enough")
        with signal.scope():
            await anyio.sleep_forever()
        interrupted.append(f"{item.key} {signal.reason}")
        return ended(item, "interrupted")

    code, counts = await run(tmp_path, perform, interrupt)
    assert (code, counts.waiting, counts.running) == (ExitCode.INTERRUPTED, ITEMS, 0)
    assert sorted(interrupted) == sorted(f"{key} enough" for key in KEYS)
