"""Toolsets with a thread, a folder and questions of their own, as a session has them.

Covers forge_cli.schema.own_thread.
"""

import asyncio
import json
import sqlite3
import threading

import anyio
import pytest
from anyio import from_thread

from forge_cli import Args, Text, Tool, ToolContext, Toolset, tool
from forge_cli.schema.own_thread import OwnThread
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


def test_thread_bound_library_works(forge_worker, forge_project: Project) -> None:
    worker = forge_worker(Notes)
    assert [value_of(worker.call("add", text="a"), Text).content for _ in range(3)] == [
        "toolset notes"
    ] * 3
    assert worker.call("count").text() == "3"
    folder = forge_project.home / "data" / "notes"
    assert [path.name for path in folder.iterdir()] == ["notes.db"]
    assert folder.stat().st_mode & 0o777 == 0o700


def test_calls_in_the_thread_keep_their_order_and_a_cancelled_one_ends_first() -> None:
    async def work() -> list[str]:
        thread, done, begun = OwnThread("t"), [], threading.Event()
        hold = threading.Event()

        def first() -> None:
            begun.set()
            hold.wait(20)
            done.append("first")

        with anyio.fail_after(60), anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(thread.run, first)
                await anyio.to_thread.run_sync(begun.wait)
                scope.cancel()
        hold.set()
        with anyio.fail_after(60):
            await thread.run(done.append, "second")
        thread.stop()
        return done

    assert asyncio.run(work()) == ["first", "second"]


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
def test_own_threads_behave_like_those_of_anyio(
    forge_worker, monkeypatch: pytest.MonkeyPatch, thread: str
) -> None:
    monkeypatch.setattr(Returning, "thread", thread)
    worker = forge_worker(Returning)
    assert [worker.call("back").text(), worker.call("apart").text()] == ["true", "apart"]


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


def test_error_in_a_thread_names_the_tool(forge_worker) -> None:
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


def test_traceback_is_logged_and_not_sent_to_the_model(forge_project: Project) -> None:
    forge_project.write("tools.py", RAISES)
    forge_project.write(
        "worker.yaml", "name: w\ntoolsets: {custom: {module: ./tools.py, tools: [boom]}}"
    )
    with forge_project.open() as worker:
        outcome = worker.call("boom")
    assert outcome.text() == "ZeroDivisionError: integer division or modulo by zero (tools.py:3)"
    (line,) = [line for line in worker.seen.record if line.type == "toolResult"]
    assert line.data["traceback"] == outcome.traceback
    assert 'tools.py", line 6, in boom' in line.data["traceback"]
    assert "forge_cli" not in json.dumps(line.data["traceback"])
