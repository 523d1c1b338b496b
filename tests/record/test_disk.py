"""Waiting for the disk: nobody goes on before what is theirs is there, and those who wait together are served so."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint

from forge_cli.record import disk as module
from forge_cli.record.disk import SHARE, THREADS, Disk

pytestmark = pytest.mark.anyio


class Slow:
    """A disk on which nothing ends before it may."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.at_work = set[int]()
        self.synced: list[str] = []

    def file(self, name: str) -> Callable[[], None]:
        def sync() -> None:
            self.at_work.add(threading.get_ident())
            assert self.may_end.wait(20)
            self.synced.append(name)

        return sync


@pytest.fixture
def slow() -> Slow:
    return Slow()


def fail() -> None:
    raise OSError(5, "Input/output error")


async def test_what_comes_while_one_is_synced_goes_together_and_its_folder_once(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "sync_folder", lambda folder: slow.synced.append(folder))
    disk, ended = Disk(), list[str]()

    async def wait(name: str, folder: str | None) -> None:
        await disk.wait_for(slow.file(name), folder)
        assert name in slow.synced
        assert folder is None or folder in slow.synced
        ended.append(name)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait, "first", None)
            await anyio.wait_all_tasks_blocked()
            for name in "abc":
                tasks.start_soon(wait, name, "/logs")
            tasks.start_soon(wait, "d", None)
            await anyio.wait_all_tasks_blocked()
            assert ended == []
            slow.may_end.set()
    assert len(slow.at_work) <= 2  # the first, and all others together
    assert slow.synced == ["first", "a", "b", "c", "d", "/logs"]
    assert sorted(ended) == ["a", "b", "c", "d", "first"]


async def test_many_wait_in_several_threads() -> None:
    disk, synced, all_there = Disk(), list[int](), threading.Event()
    together = threading.Barrier(THREADS)

    def sync(number: int) -> None:
        if not all_there.is_set():
            together.wait(20)
            all_there.set()
        synced.append(number)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for number in range(3 * SHARE * THREADS):
                tasks.start_soon(disk.wait_for, partial(sync, number))
    assert sorted(synced) == list(range(3 * SHARE * THREADS))


async def test_a_file_that_cannot_be_synced_costs_nobody_else(slow: Slow) -> None:
    disk = Disk()
    first, bad, good = [asyncio.ensure_future(disk.wait_for(each)) for each in (slow.file("a"), fail, slow.file("b"))]
    slow.may_end.set()
    with anyio.fail_after(20):
        await first
        with pytest.raises(OSError, match="Input/output"):
            await bad
        await good
    assert slow.synced == ["a", "b"]


async def test_a_folder_that_cannot_be_synced_costs_those_who_need_it(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "sync_folder", lambda folder: fail() if folder == "/bad" else None)
    disk = Disk()
    waits = [("first", None), ("a", "/bad"), ("b", "/good"), ("c", None), ("d", "/bad")]
    ends = [asyncio.ensure_future(disk.wait_for(slow.file(name), folder)) for name, folder in waits]
    slow.may_end.set()
    with anyio.fail_after(20):
        found = await asyncio.gather(*ends, return_exceptions=True)
    assert [name for (name, _), end in zip(waits, found, strict=True) if isinstance(end, OSError)] == ["a", "d"]


async def test_without_a_thread_nobody_waits_for_ever(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(function: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    disk = Disk()
    slow.may_end.set()
    with anyio.fail_after(20):
        first, second = [asyncio.ensure_future(disk.wait_for(slow.file(name))) for name in "ab"]
        await checkpoint()
        monkeypatch.setattr(module, "start_in_thread", start)
        await first
        with pytest.raises(RuntimeError, match="can't start"):
            await second
        with pytest.raises(RuntimeError, match="can't start"):
            await disk.wait_for(slow.file("c"))
        monkeypatch.undo()
        await disk.wait_for(slow.file("d"))
    assert slow.synced == ["a", "d"]


async def test_whoever_is_gone_holds_up_nobody(slow: Slow) -> None:
    disk = Disk()
    waits = [asyncio.ensure_future(disk.wait_for(slow.file(name))) for name in "abc"]
    await anyio.wait_all_tasks_blocked()
    for gone in waits[:2]:
        gone.cancel()
    slow.may_end.set()
    with anyio.fail_after(20):
        await waits[2]
        await disk.wait_for(slow.file("d"))
    assert slow.synced == [*"abcd"]


async def test_the_folder_is_there(tmp_path: Path, slow: Slow) -> None:
    slow.may_end.set()
    with anyio.fail_after(20):
        await Disk().wait_for(slow.file("a"), str(tmp_path))
    assert slow.synced == ["a"]
