"""Items that run in the process of a host keep the contract of all executors, and their sessions come back.

Covers forge_cli.engine.batch.perform, forge_cli.engine.batch.parcel and forge_cli.apps.batch.child.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio import from_thread, to_thread
from anyio.abc import TaskGroup
from anyio.lowlevel import current_token

from forge_cli.engine.batch.perform import ItemPerformer, executor_env
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.engine.turns.limits import Budget
from forge_cli.executors import BatchItem, ExecutorEnv, ExecutorFactory, ItemEnd, ItemHost
from forge_cli.files.worker import Limits
from forge_cli.testing import Project, check_executor

pytestmark = pytest.mark.anyio


class Hosted:
    """The smallest remote executor: it passes messages between an ItemHost and RemoteWork."""

    def __init__(self, env: ExecutorEnv, group: TaskGroup) -> None:
        self.remote, self.group = env.remote, group
        self.send, self.ends = anyio.create_memory_object_stream[ItemEnd](1000)
        self.token = current_token()
        self.host = ItemHost(self.remote.parcel(), self._deliver)

    def _deliver(self, pieces: Sequence[str]) -> None:
        from_thread.run_sync(self._take, pieces, token=self.token)

    def _take(self, pieces: Sequence[str]) -> None:
        for piece in pieces:
            taken = self.remote.take(piece)
            if taken.reply:
                self.host.take(taken.reply)
            if taken.end:
                self.send.send_nowait(taken.end)

    def submit(self, item: BatchItem) -> None:
        self.group.start_soon(to_thread.run_sync, self.host.perform, self.remote.order(item))

    async def next_end(self) -> ItemEnd:
        return await self.ends.receive()

    def cancel(self, reason: str) -> None:
        self.host.take(self.remote.interrupt(reason))


@asynccontextmanager
async def make(address: str, env: ExecutorEnv) -> AsyncIterator[Hosted]:
    async with anyio.create_task_group() as group:
        executor = Hosted(env, group)
        yield executor
        await to_thread.run_sync(executor.host.close)


async def test_remote_host_keeps_the_contract(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    project.folder.mkdir()
    await check_executor(ExecutorFactory("hosted", make), project)
    assert len(list((project.home / "sessions").glob("contract-*.jsonl"))) == 9


@pytest.mark.long
async def test_items_do_not_share_a_limit_of_turns(project: Project) -> None:
    """The default limit of 50 turns applies to each item; a host has many items."""
    worker = project.write("worker.yaml", "name: w\nmodel: script:script.yaml\n")
    project.write("script.yaml", "turns: [{text: done}]")
    performer = ItemPerformer(RunOptions(worker=str(worker)), Budget(Limits(max_tokens=1000), None))
    with project.environment(), anyio.fail_after(120):
        async with make("", executor_env(performer, 60)) as executor:
            for number in range(60):
                executor.submit(BatchItem(str(number), "go", f"item-{number}", str(project.folder)))
            ends = [await executor.next_end() for _ in range(60)]
    assert {end.result["status"] for end in ends} == {"completed"}
