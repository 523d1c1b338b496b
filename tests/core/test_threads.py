"""Toolsets with a thread, a folder and questions of their own, as a session has them."""

import asyncio
import json
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from queue import SimpleQueue
from typing import Any

import anyio
import pytest
from anyio import from_thread

from forge_cli import Args, Text, Tool, ToolContext, Toolset, tool
from forge_cli.core import threads
from forge_cli.core.threads import OwnThread, start_in_thread
from forge_cli.testing import Project, value_of


class Notes(Toolset):
    """A database that only the thread may use which opened it."""

    name = "notes"
    thread = "own"

    async def __aenter__(self):
        await super().__aenter__()
        self.db = await self.in_thread(sqlite3.connect, self.env.data / "notes.db")
        self.stack.push_async_callback(self.in_thread, self.db.close)
        await self.in_thread(self.db.execute, "create table if not exists notes (text)")
        return self

    @tool(needs_approval=False)
    def add(self, text: str, *, context: ToolContext) -> str:
        """Add a note."""
        context.progress("adding")
        with self.db:
            self.db.execute("insert into notes values (?)", [text])
        return threading.current_thread().name

    @tool(needs_approval=False, read_only=True)
    def count(self) -> int:
        """Count the notes."""
        return self.db.execute("select count(*) from notes").fetchone()[0]


def test_a_library_bound_to_a_thread_works(forge_worker, forge_project: Project) -> None:
    worker = forge_worker(Notes)
    assert [value_of(worker.call("add", text="a"), Text).content for _ in range(3)] == ["toolset notes"] * 3
    assert worker.call("count").text() == "3"
    folder = forge_project.home / "data" / "notes"
    assert [path.name for path in folder.iterdir()] == ["notes.db"]
    assert folder.stat().st_mode & 0o777 == 0o700


def test_calls_in_it_keep_their_order_and_a_cancelled_one_ends_first() -> None:
    async def work() -> list[str]:
        thread, done, begun = OwnThread("t"), [], threading.Event()
        hold = threading.Event()

        def first() -> None:
            begun.set()
            hold.wait(20)
            done.append("first")

        with anyio.fail_after(20), anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(thread.run, first)
                await anyio.to_thread.run_sync(begun.wait)
                scope.cancel()
        hold.set()
        with anyio.fail_after(20):
            await thread.run(done.append, "second")
        thread.stop()
        return done

    assert asyncio.run(work()) == ["first", "second"]


def test_what_is_raised_in_it_is_raised_to_the_caller() -> None:
    def stop() -> None:
        raise StopIteration("end")

    async def work() -> None:
        thread = OwnThread("t")
        with pytest.raises(ZeroDivisionError):
            await thread.run(lambda: 1 / 0)
        with pytest.raises(RuntimeError, match="StopIteration: end"):
            await thread.run(stop)
        thread.stop()

    asyncio.run(work())


def test_the_pool_has_a_thread_for_every_call_and_uses_it_again() -> None:
    async def work() -> list[int]:
        together = threading.Barrier(60)
        with anyio.fail_after(20):
            await asyncio.gather(*[start_in_thread(lambda: together.wait(20)) for _ in range(60)])
            return [await start_in_thread(threading.active_count) for _ in range(60)]

    assert len(set(asyncio.run(work()))) == 1


class Watched(asyncio.SelectorEventLoop):
    """Counts how often threads wake it, and how often they see whether they still could."""

    woken = checked = 0

    def call_soon_threadsafe(self, *args: Any, **more: Any) -> asyncio.Handle:
        self.woken += 1
        return super().call_soon_threadsafe(*args, **more)

    def check_descriptors(self) -> None:
        self.checked += 1


def test_the_loop_is_woken_once_for_all_that_ends_before_it_looks() -> None:
    loop = Watched()

    def hold_loop() -> None:
        until = time.monotonic() + 20
        while loop.woken + loop.checked < 3 and time.monotonic() < until:
            time.sleep(0.001)

    async def work() -> list[int]:
        calls = [start_in_thread(partial(int, number)) for number in range(3)]
        hold_loop()
        assert (loop.woken, loop.checked) == (1, 2)
        with anyio.fail_after(20):
            found = [await each for each in calls]
            return [*found, await start_in_thread(lambda: 3)]

    try:
        assert loop.run_until_complete(work()) == [0, 1, 2, 3]
    finally:
        loop.close()
    assert (loop.woken, loop.checked) == (2, 2)


FORKING = """
import os, time
from forge_cli.cli.signals import in_loop, interruptible
from forge_cli.core.threads import WORKING, start_in_thread

def hold_loop():
    until = time.monotonic() + 20
    while WORKING and time.monotonic() < until:
        time.sleep(0.001)

async def work():
    with interruptible(print):
        first = start_in_thread(int)
        hold_loop()
        second = start_in_thread(os.fork)
        hold_loop()
        await first
        return os.waitpid(await second, 0)[1]

print(in_loop(work))
"""


def test_a_child_that_a_call_has_forked_ends_also_where_the_loop_is_woken_already() -> None:
    done = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=8, check=False)
    assert (done.stdout, done.stderr) == ("0\n", "")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A new pool, whose threads end once they have nothing to do; none of them stays for the next one."""
    before = set(threading.enumerate())
    monkeypatch.setattr(threads, "_jobs", SimpleQueue())
    monkeypatch.setattr(threads, "_free", [])
    monkeypatch.setattr(threads, "IDLE", 0.01)
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(20)


@pytest.mark.usefixtures("impatient")
def test_a_thread_of_the_pool_that_has_nothing_to_do_ends() -> None:
    async def work() -> threading.Thread:
        return await start_in_thread(threading.current_thread)

    first = asyncio.run(work())
    first.join(20)
    assert not first.is_alive()
    assert asyncio.run(work()) is not first


@pytest.mark.usefixtures("impatient")
def test_a_call_that_nobody_waits_for_is_known_until_it_ends() -> None:
    begun, hold, used = threading.Event(), threading.Event(), []

    def wait() -> None:
        used.append(threading.current_thread())
        begun.set()
        hold.wait(20)

    async def leave_behind() -> None:
        call = start_in_thread(wait)
        await start_in_thread(lambda: begun.wait(20))
        call.cancel()

    asyncio.run(leave_behind())
    assert len(threads.WORKING) == 1
    hold.set()
    used[0].join(20)
    assert not threads.WORKING


class Returning(Toolset):
    """Comes back to the event loop from its threads, as anyio lets its own."""

    name = "returning"

    @tool(needs_approval=False)
    def back(self) -> bool:
        """Call something in the event loop."""
        from_thread.check_cancelled()
        return from_thread.run_sync(threading.current_thread) is not threading.current_thread()

    @tool(needs_approval=False)
    def apart(self) -> str:
        """Have an event loop of its own."""
        return anyio.run(anyio.to_thread.run_sync, lambda: "apart")


@pytest.mark.parametrize("thread", ["own", "pool"])
def test_threads_are_as_those_of_anyio(forge_worker, monkeypatch: pytest.MonkeyPatch, thread: str) -> None:
    monkeypatch.setattr(Returning, "thread", thread)
    worker = forge_worker(Returning)
    assert [worker.call("back").text(), worker.call("apart").text()] == ["true", "apart"]


def test_a_thread_comes_back_to_the_loop_that_it_works_for() -> None:
    async def inner() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def find_loop() -> asyncio.AbstractEventLoop:
        return from_thread.run(inner)

    def other() -> bool:
        return asyncio.run(is_own())

    async def is_own() -> bool:
        with anyio.fail_after(20):
            return await start_in_thread(find_loop) is asyncio.get_running_loop()

    async def work() -> list[bool]:
        with anyio.fail_after(20):
            return [await is_own(), await start_in_thread(other), await is_own()]

    assert [asyncio.run(work()), asyncio.run(work())] == [[True] * 3] * 2


class Adapted(Toolset):
    name = "adapted"

    async def tools(self) -> list[Tool]:
        async def look(args: Args, context: ToolContext) -> str:
            return "quiet"

        return [
            Tool(
                name="look",
                description="Look.",
                input_schema={"type": "object"},
                execute=look,
                origin="other-pkg\x1b 1",
            )
        ]


def test_a_tool_adds_where_it_comes_from(forge_worker) -> None:
    worker = forge_worker(Adapted)
    assert str(worker.tools["look"].source) == "local Python (other-pkg\\x1b 1)"
    worker.call("look")
    assert worker.seen.statuses == ["success"]


RAISES = """
def deep(n: int) -> int:
    return deep(n - 1) if n else 1 // n

def boom() -> int:
    return deep(2)
"""


def test_the_log_has_the_traceback_and_the_model_has_not(forge_project: Project) -> None:
    forge_project.write("tools.py", RAISES)
    forge_project.write("worker.yaml", "name: w\ntoolsets: {custom: {module: ./tools.py, tools: [boom]}}")
    with forge_project.open() as worker:
        outcome = worker.call("boom")
    assert outcome.text() == "ZeroDivisionError: integer division or modulo by zero (tools.py:3)"
    (line,) = [line for line in worker.seen.record if line.type == "toolResult"]
    assert line.data["traceback"] == outcome.traceback
    assert 'tools.py", line 6, in boom' in line.data["traceback"]
    assert "forge_cli" not in json.dumps(line.data["traceback"])
