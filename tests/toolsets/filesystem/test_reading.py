"""Reading a file through the gate: what can be read, what is refused, and what an interrupt does to it."""

from typing import Any

import anyio
import pytest

from forge_cli import WorkerRuntime
from forge_cli.core.calls import ToolOutcome
from forge_cli.engine.gate.judge import Caller
from forge_cli.files.worker import load_worker
from forge_cli.testing import Project

WORKER = "name: reader\nmodel: script:script.yaml\ntoolsets: {filesystem: {}}\n"


@pytest.fixture
def reader(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("script.yaml", "turns: [{text: done}]\n")
    project.write("notes.txt", "one\ntwo\n")
    return project


def opened(project: Project) -> WorkerRuntime:
    return WorkerRuntime(worker=load_worker(project.folder / "worker.yaml"), workspace=project.folder)


async def read(runtime: WorkerRuntime, path: str = "notes.txt", **args: Any) -> ToolOutcome:
    return await runtime.invoke("read_file", {"path": path, **args}, Caller.MODEL)


def test_what_can_be_read_and_what_cannot(reader: Project) -> None:
    reader.write("empty", "")
    reader.write("binary", "a\0b")
    (reader.folder / "latin").write_bytes(b"\xe4")
    (reader.folder / "link").symlink_to("notes.txt")
    names = ("notes.txt", "./notes.txt", "/workspace/notes.txt", "empty", "binary", "latin", "link", "missing", ".")

    async def story() -> list[ToolOutcome]:
        async with opened(reader) as runtime:
            return [await read(runtime, name) for name in names]

    outcomes = anyio.run(story)
    assert outcomes[0].text() == "[notes.txt, lines 1-2 of 2]\n1: one\n2: two"
    assert [each.status for each in outcomes] == [*["success"] * 4, "error", "error", "success", "error", "error"]


def test_an_interrupt_ends_a_read(reader: Project) -> None:
    async def story() -> str:
        async with opened(reader) as runtime:
            runtime.interrupt_signal.interrupt()
            return (await read(runtime)).status

    assert anyio.run(story) == "interrupted"
