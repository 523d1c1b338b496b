"""The toolset ``mcp``: the tools of every server that the worker names, behind the gate like any others."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio
from anyio.abc import TaskGroup
from pydantic import Field

from forge_cli.core.context import ToolContext
from forge_cli.core.errors import WorkerError
from forge_cli.core.hookspecs import hookimpl
from forge_cli.core.results import ResultValue
from forge_cli.core.text import cut, did_you_mean, visible
from forge_cli.core.tool import Args, Tool
from forge_cli.core.toolset import Toolset, ToolsetConfig
from forge_cli.files.mcp import McpServer, ServerName, expand
from forge_cli.files.settings import load_settings
from forge_cli.sandbox.isolation.worker import WorkerProcesses
from forge_cli.sandbox.processes.process import Child
from forge_cli.toolsets.mcp.connection import Connection
from forge_cli.toolsets.mcp.offer import Quarantined, names_for, offered_tool
from forge_cli.toolsets.mcp.results import result_of
from forge_cli.toolsets.mcp.stdio import KEPT, ServerStreams, child_transport

if TYPE_CHECKING:
    import mcp_types
    from mcp.client._transport import TransportStreams

LAST_WORDS = 2000
"""Characters that are kept of what a server writes to standard error."""


class McpConfig(ToolsetConfig):
    """``servers`` by name; one without a definition is defined in the user's own settings."""

    servers: dict[ServerName, McpServer | None] = Field(default_factory=dict)


class McpToolset(Toolset):
    name = "mcp"
    Config = McpConfig
    dynamic = True
    imports = True

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._connections = [self._connection(name, server) for name, server in self._servers().items()]
        self._told: set[str] = set()
        self._offered: dict[str, tuple[Any, Tool]] = {}
        self._tasks: TaskGroup = anyio.create_task_group()
        await self._tasks.__aenter__()
        for connection in self._connections:
            self._tasks.start_soon(connection.own)
        for connection in self._connections:
            await connection.settled()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._connections:
            connection.close()
        await self._tasks.__aexit__(None, None, None)
        await super().__aexit__(kind, error, trace)

    async def tools(self) -> Sequence[Tool]:
        found: list[Tool] = []
        for connection in self._connections:
            await connection.refresh()
            if connection.failure:
                self._tell(f"the MCP server {connection.name} is not there: {visible(connection.failure)}")
            found += self._tools_of(connection)
        return found

    def instructions(self) -> str | None:
        said = [
            f"About the tools {each.name}__*:\n{cut(each.instructions, 2000)}"
            for each in self._connections
            if each.instructions and visible(each.instructions, keep="\n\t") == each.instructions
        ]
        return "\n\n".join(said) or None

    def _tools_of(self, connection: Connection) -> list[Tool]:
        found: list[Tool] = []
        names = names_for(connection.name, (tool.name for tool in connection.tools))
        for tool in connection.tools:
            name = names[tool.name]
            known = self._offered.get(name)
            if known and known[0] is tool:
                found.append(known[1])
                continue
            try:
                offered = offered_tool(
                    name,
                    tool,
                    server=connection.name,
                    identity=connection.server.identity,
                    execute=partial(self._call, connection, tool),
                    notice=self._tell,
                )
            except Quarantined as error:
                self._tell(f"the tool {visible(tool.name)} of the MCP server {connection.name} is left out: {error}")
                continue
            self._offered[name] = tool, offered
            found.append(offered)
        return found

    async def _call(
        self, connection: Connection, tool: mcp_types.Tool, args: Args, context: ToolContext
    ) -> ResultValue:
        return result_of(await connection.call(tool.name, args, context.report))

    def _servers(self) -> dict[str, McpServer]:
        """Each server with its definition; the user's own is used for one that the worker only names."""
        own = load_settings(self.env.home).mcp.servers if None in self.config.servers.values() else {}
        found: dict[str, McpServer] = {}
        for name, server in self.config.servers.items():
            where = self.config.where("servers", name)
            if server is None and name not in own:
                known = did_you_mean(name, own, "define it here, or under mcp.servers in ~/.forge/config.yaml")
                raise WorkerError(where, f"toolsets.mcp.servers.{name}: there is no definition of it", hint=known)
            found[name] = own[name] if server is None else server
        return found

    def _connection(self, name: str, server: McpServer) -> Connection:
        where = self.config.where("servers", name)
        env, headers = (expand(values, os.environ, where) for values in (server.env, server.headers))
        connection: Connection

        def transport() -> AbstractAsyncContextManager[TransportStreams]:
            if server.url:
                return _http_transport(server.url, headers, server)
            told = ServerStreams(self._garbage(name), partial(_keep_words, connection), connection.lost)
            return child_transport(partial(self._start, server, env), told)

        connection = Connection(name, server, transport, self._roots)
        return connection

    def _start(self, server: McpServer, env: dict[str, str]) -> Child:
        processes = self.env.processes
        if not isinstance(processes, WorkerProcesses):
            raise TypeError(f"{processes!r} cannot keep a server")
        return processes.serve([str(server.command), *server.args], env=env, confined=server.confined, kept=KEPT)

    def _roots(self) -> list[str]:
        return [zone.path.as_uri() for zone in self.env.sandbox.zones]

    def _garbage(self, name: str) -> Callable[[str], None]:
        def tell(line: str) -> None:
            shown = visible(cut(line, 60, "end"))
            self._tell(f"the MCP server {name} writes what is not a message: {shown}", f"garbage {name}")

        return tell

    def _tell(self, sentence: str, key: str | None = None) -> None:
        if (key or sentence) not in self._told:
            self._told.add(key or sentence)
            self.env.notify("warning", sentence)


def _keep_words(connection: Connection, text: str) -> None:
    connection.last_words = (connection.last_words + text)[-LAST_WORDS:]


@asynccontextmanager
async def _http_transport(url: str, headers: dict[str, str], server: McpServer) -> Any:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    timeout = httpx2.Timeout(server.connect_timeout, read=server.timeout)
    async with (
        httpx2.AsyncClient(headers=headers, timeout=timeout) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams


@hookimpl
def forge_toolsets() -> list[type[Toolset]]:
    return [McpToolset]
