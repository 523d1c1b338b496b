"""MCP: a call through the gate against the bare client of the SDK, and five servers against one."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters
from table import Row, main

from forge_cli.core.calls import ToolCall
from forge_cli.engine.gate.steps import Caller
from forge_cli.engine.runtime.without_model import opened
from forge_cli.files.worker import load_worker

CALLS = 20
"""Number of calls in one round."""
LIMIT = 1.3
SERVER = '''
import time

from mcp.server import MCPServer

server = MCPServer("echo")


@server.tool()
def echo(text: str) -> str:
    """Return the text."""
    return text


@server.tool()
def spent() -> float:
    """Return the CPU seconds of the server."""
    return time.process_time()


server.run()
'''
Action = Callable[[], Awaitable[object]]


async def milliseconds(action: Action, times: int = CALLS) -> float:
    began = time.perf_counter()
    for _ in range(times):
        await action()
    return (time.perf_counter() - began) * 1000 / times


def write_worker(folder: Path, servers: int) -> Path:
    server = {"command": sys.executable, "args": [str(folder / "server.py")]}
    section = {
        "servers": {f"s{number}": server for number in range(servers)},
        "approval": {"default": "preApproved"},
    }
    file = folder / f"worker{servers}.yaml"
    file.write_text(json.dumps({"name": "w", "toolsets": {"mcp": section}}))
    return file


async def cpu_milliseconds(client: Client, action: Action) -> float:
    """Return the CPU time of client and server for one call, because a call waits for both."""

    async def used() -> float:
        told = (await client.call_tool("spent", {})).structured_content or {}
        return float(told["result"]) + time.process_time()

    began = await used()
    for _ in range(CALLS):
        await action()
    return (await used() - began) * 1000 / CALLS


async def call(folder: Path, rounds: int) -> Row:
    """Alternate between two clients, each with its own server, and compare their CPU time."""
    async with (
        Client(
            StdioServerParameters(command=sys.executable, args=[str(folder / "server.py")])
        ) as client,
        opened(load_worker(write_worker(folder, 1)), workspace=folder) as assembly,
    ):
        toolset: Any = assembly.toolbox.toolsets[0].toolset
        own = toolset.connections[0]._client

        async def bare() -> None:
            await client.call_tool("echo", {"text": "x"})

        async def through_forge() -> None:
            outcome = await assembly.guard.call(
                ToolCall("c", "s0__echo", {"text": "x"}), Caller.MODEL
            )
            if outcome.status != "success":
                raise SystemExit(f"the call failed: {outcome}")

        floors, mine = [], []
        for _ in range(rounds):
            floors.append(await cpu_milliseconds(client, bare))
            mine.append(await cpu_milliseconds(own, through_forge))
    figures = f"{min(mine):.2f} / {min(floors):.2f} ms of CPU, median {statistics.median(mine):.2f}"
    return Row("a call, x the bare client", min(mine) / min(floors), LIMIT, figures)


async def start(folder: Path, rounds: int) -> Row:
    """Wait until the tools of all servers are listed."""

    async def begin(servers: int) -> float:
        async def once() -> None:
            async with opened(load_worker(write_worker(folder, servers)), workspace=folder):
                pass

        return await milliseconds(once, 1)

    one, five = [], []
    for _ in range(rounds):
        one.append(await begin(1))
        five.append(await begin(5))
    return Row(
        "five servers, x one", min(five) / min(one), None, f"{min(five):.0f} / {min(one):.0f} ms"
    )


async def rows(folder: Path, rounds: int) -> list[Row]:
    (folder / "server.py").write_text(SERVER)
    return [await call(folder, rounds), await start(folder, 3)]


def measure(rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        return anyio.run(rows, Path(folder).resolve(), rounds)


if __name__ == "__main__":
    main(measure, rounds=30)
