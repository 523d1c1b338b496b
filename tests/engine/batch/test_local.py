"""The executor that comes with forge keeps the contract of all executors.

Covers forge_cli.engine.batch.local, forge_cli.engine.batch.perform, forge_cli.testing.
"""

import pickle
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from forge_cli import BatchItem, InterruptSignal
from forge_cli.core.errors import UsageError
from forge_cli.engine.batch.local import forge_executors
from forge_cli.engine.batch.pace import SharedPace
from forge_cli.engine.batch.perform import BatchWork, ItemPerformer
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.testing import Project, check_executor

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_it_keeps_the_contract(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    await check_executor(PluginHost().executor("local"), Project(tmp_path / "project"))


async def test_it_has_no_address(tmp_path: Path) -> None:
    (factory,) = forge_executors()
    with pytest.raises(UsageError, match="has no address"):
        await check_executor(factory, Project(tmp_path), "somewhere")


def test_what_performs_items_can_be_sent_to_another_process() -> None:
    performer = ItemPerformer(BatchWork(worker="worker.yaml", model="script:a.yaml"))
    assert pickle.loads(pickle.dumps(performer)).work == performer.work


async def test_every_request_of_an_item_goes_out_at_the_pace_of_its_batch(project: Project) -> None:
    taken: list[int] = []

    class Counted(SharedPace):
        @asynccontextmanager
        async def request(self) -> AsyncIterator[None]:
            async with super().request():
                taken.append(self.limit)
                yield

    project.write("worker.yaml", "name: w\nmodel: script:script.yaml\ntoolsets: {filesystem: {}}\n")
    project.write("script.yaml", "turns: [{calls: [{tool: list_files}]}, {text: done}]")
    performer = ItemPerformer(BatchWork(worker=str(project.folder / "worker.yaml")), pace=Counted(4))
    with project.environment(), anyio.fail_after(30):
        end = await performer(BatchItem("a", "go", "item-a", str(project.folder)), InterruptSignal())
    assert (end.result["status"], taken) == ("completed", [1, 4])
