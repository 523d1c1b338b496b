"""The executor that comes with forge keeps the contract of all executors.

Covers forge_cli.engine.batch.local, forge_cli.engine.batch.perform, forge_cli.testing.
"""

import pickle
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from forge_cli import InterruptSignal
from forge_cli.core.errors import UsageError
from forge_cli.engine.batch.local import SharedPace, forge_executors
from forge_cli.engine.batch.perform import ItemPerformer
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.executors import BatchItem
from forge_cli.record.log import broken_link, read_session
from forge_cli.testing import Project, check_executor

pytestmark = pytest.mark.anyio


async def test_local_executor_keeps_the_contract(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    project.folder.mkdir()
    await check_executor(PluginHost().executor("local"), project)
    assert len(list((project.home / "sessions").glob("contract-*.jsonl"))) == 9


async def test_local_executor_has_no_address(tmp_path: Path) -> None:
    (factory,) = forge_executors()
    with pytest.raises(UsageError, match="has no address"):
        await check_executor(factory, Project(tmp_path), "somewhere")


def test_item_runner_can_be_pickled() -> None:
    performer = ItemPerformer(RunOptions(worker="worker.yaml", model="script:a.yaml"))
    assert pickle.loads(pickle.dumps(performer)).work == performer.work


TOOLS = """
from pathlib import Path
from forge_cli import Toolset, tool

with Path("imported.txt").open("a") as file:
    file.write("once ")

class Counter(Toolset):
    count = 0

    @tool
    def add(self) -> str:
        \"\"\"Count.\"\"\"
        self.count += 1
        return f"{self.count} of this session"
"""


async def test_items_share_loaded_files_and_have_separate_toolsets(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.folder)
    project.write("tools.py", TOOLS)
    custom = "custom: {module: ./tools.py, tools: [Counter], approval: {default: preApproved}}"
    project.write("worker.yaml", f"name: w\nmodel: script:s.yaml\ntoolsets: {{{custom}}}\n")
    project.write("s.yaml", "turns: [{calls: [{tool: add}]}, {text: '{results[0]}'}]")
    performer = ItemPerformer(RunOptions(worker=str(project.folder / "worker.yaml")))
    ends = []
    with project.environment(), anyio.fail_after(60):
        for key in "abc":
            ends.append(
                await performer(
                    BatchItem(key, "go", f"item-{key}", str(project.folder)), InterruptSignal()
                )
            )
            (project.home / "config.yaml").write_text("unknown: key\n")  # for the next batch
    assert [end.result["response"] for end in ends] == ["1 of this session"] * 3, ends
    assert project.read("imported.txt") == "once "


async def test_model_script_is_searched_in_the_folder_of_each_item(
    project: Project,
) -> None:
    project.write("worker.yaml", "name: w\n")
    performer = ItemPerformer(
        RunOptions(worker=str(project.folder / "worker.yaml"), model="script:own.yaml")
    )
    answers = []
    with project.environment(), anyio.fail_after(60):
        for key in "aba":
            project.write(f"{key}/own.yaml", f"turns: [{{text: this is {key}}}]")
            item = BatchItem(key, "go", f"item-{len(answers)}", str(project.folder / key))
            answers.append((await performer(item, InterruptSignal())).result["response"])
    assert answers == ["this is a", "this is b", "this is a"]


async def test_call_waits_until_its_approval_is_on_disk(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is waited for by a thread, so that other items work meanwhile."""
    synced: list[tuple[bool, bool]] = []

    def sync(descriptor: int) -> None:
        in_loop = threading.current_thread() is threading.main_thread()
        synced.append((in_loop, (project.folder / "noted").exists()))

    monkeypatch.setattr("forge_cli.files.lock.sync_data", sync)
    note = "from pathlib import Path\n\ndef note() -> str:\n    'Note.'\n    Path('noted').touch()\n    return 'ok'\n"
    project.write("tools.py", note)
    custom = "custom: {module: ./tools.py, tools: [note], approval: {default: preApproved}}"
    project.write("worker.yaml", f"name: w\nmodel: script:s.yaml\ntoolsets: {{{custom}}}\n")
    project.write("s.yaml", "turns: [{calls: [{tool: note}]}, {text: done}]")
    performer = ItemPerformer(RunOptions(worker=str(project.folder / "worker.yaml")))
    monkeypatch.chdir(project.folder)
    with project.environment(), anyio.fail_after(60):
        end = await performer(
            BatchItem("a", "go", "item-a", str(project.folder)), InterruptSignal()
        )
    assert (end.result["status"], synced) == ("completed", [(False, False), (False, True)]), (
        "the call, and the end"
    )


async def test_requests_of_an_item_follow_the_pace_of_the_batch(project: Project) -> None:
    taken: list[int] = []

    class Counted(SharedPace):
        @asynccontextmanager
        async def request(self) -> AsyncIterator[None]:
            async with super().request():
                taken.append(self.limit)
                yield

    project.write("worker.yaml", "name: w\nmodel: script:script.yaml\ntoolsets: {filesystem: {}}\n")
    project.write("script.yaml", "turns: [{calls: [{tool: list_files}]}, {text: done}]")
    performer = ItemPerformer(
        RunOptions(worker=str(project.folder / "worker.yaml")), pace=Counted(4)
    )
    with project.environment(), anyio.fail_after(60):
        end = await performer(
            BatchItem("a", "go", "item-a", str(project.folder)), InterruptSignal()
        )
    assert (end.result["status"], taken) == ("completed", [1, 4])


@pytest.mark.parametrize("left", ["", '{"v": 1, "seq"'], ids=["nothing", "half a line"])
async def test_new_log_of_a_killed_batch_is_restarted(project: Project, left: str) -> None:
    project.write("worker.yaml", "name: w\nmodel: script:s.yaml\n")
    project.write("s.yaml", "turns: [{text: done}]")
    performer = ItemPerformer(RunOptions(worker=str(project.folder / "worker.yaml")))
    log = project.home / "sessions" / "item-a.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text(left)
    log.with_name(".item-a.jsonl.lock").write_text("999999999")
    with project.environment(), anyio.fail_after(60):
        end = await performer(
            BatchItem("a", "go", "item-a", str(project.folder)), InterruptSignal()
        )
    assert (end.result["status"], end.result["response"]) == ("completed", "done")
    assert broken_link(read_session(log)) is None
