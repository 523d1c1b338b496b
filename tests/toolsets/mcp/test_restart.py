"""Servers that crash: they are restarted within limits, and results state whether a call was sent.

Covers forge_cli.toolsets.mcp.transports.
"""

import asyncio
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack

import anyio
import pytest
from mcp.client._memory import InMemoryTransport
from mcp.server import MCPServer

from forge_cli.core.events import StatusEvent
from forge_cli.files.mcp import McpServer
from forge_cli.testing import Project, WorkerCalls
from forge_cli.toolsets.mcp import connection

from .test_http import make_app, served
from .test_http import worker as http_worker
from .test_mcp import worker


def kill_server(opened: WorkerCalls, tool: str = "s__echo") -> int:
    """Kill the server that answers with its process id, and wait for its end."""
    pid = int(opened.call(tool, text="x").value.text())
    watch = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    assert select.select([watch], [], [], 20)[0]
    os.close(watch)
    return pid


def wait_for(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def told(opened: WorkerCalls) -> list[str]:
    return [
        event.message
        for event in opened.seen.events
        if isinstance(event, StatusEvent) and event.level != "debug"
    ]


@pytest.mark.needs("linux")
def test_call_after_a_crash_waits_for_the_server(project: Project) -> None:
    worker(project, "pid")
    with project.open(timeout=60) as opened:
        pids = {kill_server(opened) for _ in range(4)}
        last = opened.call("s__echo", text="x")
        assert (last.status, len(pids)) == ("success", 4)
        assert int(last.value.text()) not in pids
        said = told(opened)
    # "it has ended", or "the connection was closed" where the call notices it first
    assert sum(line.startswith("MCP server s disconnected: ") for line in said) == 4
    assert said.count("MCP server s reconnected") == 4


def test_call_that_loses_its_server_at_once_waits() -> None:
    """The end is noticed while the call, which has seen that the server is there, waits for its turn."""
    server = MCPServer("s")
    server.tool("echo")(lambda: "there")

    async def main() -> str:
        told = connection.Connection(
            "s",
            McpServer(command="x"),
            transport=lambda: InMemoryTransport(server),
            roots=list,
            log=lambda line: None,
            tell=lambda level, message: None,
            keep=lambda offer: None,
        )
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(told.own)
                await told.settled()
                calling = asyncio.create_task(told.call("echo", {}, lambda text, part: None))
                await asyncio.sleep(0)
                told.lost("it ended")
                answer = await calling
                told.close()
        return str(answer.content[0].text)

    assert anyio.run(main) == "there"


@pytest.mark.long
def test_sent_call_may_have_run_and_the_next_one_is_sent(
    project: Project,
) -> None:
    worker(project, "dies")
    with project.open(timeout=60) as opened:
        errors = [opened.call("s__echo", text="x").error for _ in range(3)]
    assert ["the call may have run" in str(error) for error in errors] == [True] * 3


@pytest.mark.long
def test_unsent_call_is_sent_to_the_restarted_server(
    project: Project,
) -> None:
    left = project.folder / "left"
    worker(project, "closes", "", "{default: preApproved}", str(left))
    with project.open(timeout=60) as opened:
        outcome = opened.call("s__echo", text="hello")
    assert (outcome.status, outcome.value.text()) == ("success", "hello")
    assert left.read_text() == "started\n" * 2


@pytest.mark.long
@pytest.mark.needs("linux")
def test_failed_restart_is_reported_and_nothing_was_sent(project: Project) -> None:
    left = project.folder / "left"
    worker(project, "once", ", connect_timeout: 5", "{default: preApproved}", str(left))
    with project.open(timeout=60) as opened:
        kill_server(opened)
        error = str(opened.call("s__echo", text="x").error)
    assert error.startswith("MCP server s is not connected, so nothing was sent: ")
    assert len(left.read_text().splitlines()) > 2


@pytest.mark.long
def test_restarts_per_minute_are_limited(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(connection, "MAX_STARTS", 3)
    left = project.folder / "left"
    worker(project, "crashes", ", connect_timeout: 5", "{default: preApproved}", str(left))
    with project.open(timeout=60) as opened:
        assert wait_for(lambda: len(left.read_text().splitlines()) == 3)
        errors = [str(opened.call("s__echo", text="x").error) for _ in range(2)]
    assert ["nothing was sent to it" in error for error in errors][-1:] == [True]
    assert left.read_text() == "started\n" * 3


@pytest.mark.parametrize("mode", ["wrong", "misshapen"])
def test_invalid_answer_is_an_error_and_the_server_keeps_running(
    project: Project, mode: str
) -> None:
    worker(project, mode, ", timeout: 60")
    with project.open(timeout=20) as opened:
        errors = [str(opened.call("s__echo", text="x").error) for _ in range(2)]
        assert ["sent an invalid answer" in error for error in errors] == [True, True]
        assert told(opened) == []


@pytest.mark.long
def test_remote_server_is_used_again_after_an_outage(project: Project) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    http_worker(project, f"http://127.0.0.1:{port}/mcp", ", connect_timeout: 5")
    with ExitStack() as stack:
        first = stack.enter_context(ExitStack())
        first.enter_context(served(make_app(), port=port))
        opened = stack.enter_context(project.open(timeout=60))
        statuses = [opened.call("web__count_words", text="one two").status]
        first.close()
        down = opened.call("web__count_words", text="one two")
        stack.enter_context(served(make_app(), port=port))
        statuses.append(opened.call("web__count_words", text="one two").status)
    assert (statuses, down.status) == (["success"] * 2, "error")
    assert "nothing was sent to it" in str(down.error)
