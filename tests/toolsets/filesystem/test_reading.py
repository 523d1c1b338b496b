"""A small file that is in memory is read without waiting, and nothing else is different about it."""

import os
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from forge_cli import WorkerRuntime
from forge_cli.core.calls import ToolOutcome
from forge_cli.engine.gate.judge import Caller
from forge_cli.files.worker import load_worker
from forge_cli.testing import Project
from forge_cli.toolsets.filesystem import files

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


def is_cached(file: Path) -> bool:
    """Does the system say that reading would not wait?"""
    if not hasattr(os, "RWF_NOWAIT"):
        return False
    with file.open("rb") as opened:
        try:
            return os.preadv(opened.fileno(), [bytearray(100)], 0, os.RWF_NOWAIT) > 0
        except OSError:
            return False


def threads() -> set[int | None]:
    return {thread.ident for thread in threading.enumerate() if "worker thread" in thread.name}


def test_no_thread_is_needed(reader: Project) -> None:
    if not is_cached(reader.folder / "notes.txt"):
        pytest.skip("this file system does not say what is in memory")

    async def story() -> None:
        async with opened(reader) as runtime:
            before = threads()
            assert (await read(runtime)).text() == "[notes.txt, lines 1-2 of 2]\n1: one\n2: two"
            assert threads() == before
            assert (await read(runtime, offset=2)).text() == "[notes.txt, lines 2-2 of 2]\n2: two"
            assert threads() > before

    anyio.run(story)


def test_a_file_is_the_same_in_either_way(reader: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    reader.write("empty", "")
    reader.write("binary", "a\0b")
    (reader.folder / "latin").write_bytes(b"\xe4")
    (reader.folder / "link").symlink_to("notes.txt")
    names = ("notes.txt", "./notes.txt", "/workspace/notes.txt", "empty", "binary", "latin", "link", "missing", ".")

    async def story() -> list[tuple[str, Any]]:
        async with opened(reader) as runtime:
            outcomes = [await read(runtime, name) for name in names]
        return [(outcome.status, outcome.value) for outcome in outcomes]

    at_once = anyio.run(story)
    monkeypatch.setattr(files, "AT_ONCE", -1)
    assert anyio.run(story) == at_once
    assert [status for status, _ in at_once] == [*["success"] * 4, "error", "error", "success", "error", "error"]


def test_the_event_loop_has_its_turns_between_reads(reader: Project) -> None:
    async def story() -> int:
        turns, done = 0, anyio.Event()

        async def count() -> None:
            nonlocal turns
            while not done.is_set():
                turns += 1
                await anyio.lowlevel.checkpoint()

        async with opened(reader) as runtime, anyio.create_task_group() as tasks:
            tasks.start_soon(count)
            began = anyio.current_time()
            while anyio.current_time() - began < 0.3:
                assert (await read(runtime)).ok
            seen = turns
            done.set()
        return seen

    assert anyio.run(story) >= 5


def test_an_interrupt_ends_reads_that_never_wait(reader: Project) -> None:
    async def story() -> str:
        async with opened(reader) as runtime:
            runtime.interrupt_signal.interrupt()
            return (await read(runtime)).status

    assert anyio.run(story) == "interrupted"
