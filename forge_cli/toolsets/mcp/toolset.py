"""The toolset ``mcp``: the tools of every server that the worker names, behind the gate like any others."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self, cast

import anyio
from anyio.abc import TaskGroup
from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from forge_cli.core.bounds import LOAD_LIMIT
from forge_cli.core.context import ToolContext
from forge_cli.core.errors import ExitCode, ForgeError, ToolError, WorkerError
from forge_cli.core.hookspecs import hookimpl
from forge_cli.core.locking import LockEntry
from forge_cli.core.notify import StatusNotice
from forge_cli.core.requests import PromptArgument, PromptSpec
from forge_cli.core.results import ResultValue
from forge_cli.core.source import Source
from forge_cli.core.text import counted, cut, did_you_mean, visible
from forge_cli.core.thirdparty import is_inspecting
from forge_cli.core.tool import Args
from forge_cli.files.mcp import McpOauth, McpServer, ServerName
from forge_cli.files.mcp_project import expand_variables, trusted_server
from forge_cli.files.settings_files import load_settings, organisation_policy
from forge_cli.sandbox.processes.child import Child
from forge_cli.sandbox.worker_processes import WorkerProcesses
from forge_cli.schema.tool import Tool
from forge_cli.schema.toolset import Toolset, ToolsetConfig, ToolsetPlaces
from forge_cli.toolsets.mcp.connection import Connection
from forge_cli.toolsets.mcp.locked import offered_entries, server_entry
from forge_cli.toolsets.mcp.oauth import (
    KeptTokens,
    McpTokens,
    asked_for,
    expanded_oauth,
    oauth_provider,
    scope_wanted,
)
from forge_cli.toolsets.mcp.offer import (
    KeptOffer,
    Pins,
    Quarantined,
    ServerOffer,
    ServerTool,
    names_for,
    offered_tool,
)
from forge_cli.toolsets.mcp.resources import READ, ResourceRules, Rules, resource_tools
from forge_cli.toolsets.mcp.results import ServerRequests, convert_result, prompt_text
from forge_cli.toolsets.mcp.start_files import StartFiles
from forge_cli.toolsets.mcp.transports import (
    FORBIDDEN,
    KEPT,
    UNAUTHORIZED,
    ServerStreams,
    child_transport,
    http_transport,
)

if TYPE_CHECKING:
    import mcp_types
    from mcp.client._transport import TransportStreams
    from mcp.client.auth import OAuthClientProvider

LONGEST_OPENING = LOAD_LIMIT - 5
TOO_SLOW = "it takes too long to start"
PATIENCE = 20.0
"""Seconds that a conversation waits for a server; it may still come later."""
CHECKING = 12.0
"""Seconds for checking the tools of all servers before a turn, those that are new; a toolset has 30 for everything."""
ERROR_CHARACTERS = 2000
"""Characters that are kept of what a server writes to standard error."""


Servers = dict[ServerName, McpServer | None]


def _named(servers: Any) -> Any:
    """A list of names is short for servers without a definition."""
    if not isinstance(servers, list):
        return servers
    if not all(isinstance(name, str) for name in servers) or len(set(servers)) < len(servers):
        raise ValueError(
            "a list of servers has names, each once; one that is defined here is NAME: {command: ...}"
        )
    return dict.fromkeys(servers)


class McpConfig(ToolsetConfig):
    """``servers`` by name, or their names alone; one without a definition is defined in the user's own settings."""

    servers: Annotated[
        Servers, BeforeValidator(_named, json_schema_input_type=Servers | list[ServerName])
    ]
    """By name, or a list of names; one without a definition is defined in your config.yaml or in .mcp.json."""
    sampling: bool = False
    """Whether servers that say nothing of it may have the worker's model answer."""
    elicitation: bool = False
    """Whether they may ask the person for input."""
    resources: Rules = Field(default={})
    """Rules for reading resources: by server, then by URI, with ``*`` for anything; the strictest that fits counts."""
    from_client: bool = False
    """Whether an editor may bring servers of its own; see ``forge serve acp``."""

    @model_validator(mode="after")
    def _rules_of_servers(self) -> Self:
        for name in self.resources:
            if name not in self.servers and not self.from_client:
                known = did_you_mean(name, self.servers, f"there are: {', '.join(self.servers)}")
                raise PydanticCustomError("resources", f"there is no server '{name}' here; {known}")
        return self

    @classmethod
    def _canonical(cls, data: dict[Any, Any]) -> dict[str, Any]:
        """With those of an editor, none need be named."""
        found = super()._canonical(data)
        return {"servers": {}, **found} if found.get("from_client") is True else found


class ServerMissing(ForgeError):
    """A worker cannot start without one of its servers."""

    exit_code = ExitCode.PROVIDER


class McpToolset(Toolset):
    """The tools of MCP servers, each as ``SERVER__TOOL``."""

    name = "mcp"
    Config = McpConfig
    dynamic = True

    tolerant = False
    """True where a server that is required need not be there, because that is what is to be found out."""

    @classmethod
    def machine_needs(cls, config: Any, home: Path) -> Mapping[str, str]:
        commands = (
            server.command for server in config.servers.values() if server and server.command
        )
        return {
            f"the command '{command}'": "there" for command in commands if shutil.which(command)
        }

    @classmethod
    def parts_for(cls, config: Any, places: ToolsetPlaces) -> Iterable[LockEntry]:
        servers = defined_servers(config, places.workspace, places.home)
        return [server_entry(name, server, places.workspace) for name, server in servers.items()]

    async def parts(self) -> Iterable[LockEntry]:
        """The offer of each connected server."""
        entries: list[LockEntry] = []
        for each in self.connections:
            if each.connected:
                entries += await offered_entries(each)
        return entries

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        servers = defined_servers(self.config, self.env.workspace, self.env.home)
        started = servers if not is_inspecting() else {}
        self._files = {name: StartFiles(name, server, self.env) for name, server in started.items()}
        self.connections = [self._connection(name, server) for name, server in servers.items()]
        self._pins = {name: Pins(self.env, name, server) for name, server in servers.items()}
        self._told: set[str] = set()
        self._offered: dict[str, tuple[ServerTool, Tool]] = {}
        self._left_out: dict[str, tuple[Source, str]] = {}
        self._costly: dict[str, ServerOffer] = {}
        """The tools of servers that took too long to check."""
        self._tasks: TaskGroup = anyio.create_task_group()
        await self._tasks.__aenter__()
        for connection in self.connections:
            if is_inspecting():
                target = self._target(connection.name)
                unseen = (
                    f"it was never started, so its tools are not known; see forge mcp test {target}"
                )
                connection.remember(self._kept(connection.server).find(), unseen)
            else:
                self._tasks.start_soon(connection.own)
        try:
            with anyio.move_on_after(
                LONGEST_OPENING
            ):  # the tools of one that takes longer are there in a later turn
                for connection in self.connections:
                    await connection.settled()
            self._check_required()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for connection in self.connections:
            connection.close()
        try:
            for connection in (
                self.connections
            ):  # a group of anyio that is cancelled while it waits forgets that it was
                await connection.ended.wait()
        finally:
            await self._tasks.__aexit__(None, None, None)
        await super().__aexit__(kind, error, trace)

    def _check_required(self) -> None:
        """A worker does not start without a server that is required, nor headless without a login."""
        for each in self.connections:
            if each.connected or self.tolerant or is_inspecting():
                continue
            where = self.config.where("servers", each.name)
            if each.needs_login and (each.server.required or not self.env.session.attended):
                wish, remedy = self._login(each)
                raise ServerMissing(f"the MCP server {each.name} {wish}", where=where, hint=remedy)
            if each.server.required:
                problem = f"the MCP server {each.name} is required, and is not there: {visible(each.failure or TOO_SLOW)}"
                raise ServerMissing(
                    problem, where=where, hint=f"see forge mcp test {self._target(each.name)}"
                )

    def _auth(self, url: str, oauth: McpOauth) -> OAuthClientProvider | None:
        """The authorisation of requests to a server where a person has logged in, or the client acts for itself."""
        store = McpTokens(self.env.home)
        entry = store.find(url)
        if not entry and oauth.grant != "client_credentials":
            return None
        return oauth_provider(url, KeptTokens(entry, partial(store.put, url)), oauth)

    def _answered(self, connection: Connection, status: int, reason: str, challenge: str) -> None:
        if status == FORBIDDEN and (scope := scope_wanted(challenge)) is not None:
            connection.forbidden = self._wish_for_rights(connection, scope)
        connection.last_words = f"HTTP {status} {reason}" if status > UNAUTHORIZED else ""
        if status == UNAUTHORIZED:
            connection.needs_login, connection.failure = (
                True,
                f"it {': '.join(self._login(connection))}",
            )

    def _wish_for_rights(self, connection: Connection, scope: str) -> str:
        """The wish of a server for more rights, and what a person can do; the next login asks for them."""
        wish = f"wants more rights: the scope {visible(scope)}" if scope else "wants more rights"
        store, url = McpTokens(self.env.home), str(connection.server.url)
        entry = store.find(url)
        if asked_for(entry, scope):
            return f"{wish}, which the last login asked for and did not get; those who run the server can say why"
        if entry:
            store.put(url, {**entry, "wanted": scope})
        return f"{wish}; {self._login(connection)[1]}"

    def _login(self, connection: Connection) -> tuple[str, str]:
        """The wish of a server that answers with 401, and how to meet it."""
        if "authorization" in map(str.lower, connection.server.headers):
            return "does not take the Authorization in its headers", "put another one there"
        name, target = connection.name, self._target(connection.name)
        return "wants you to log in", f"forge mcp login {name}" + (
            "" if target == name else f" --worker {target}"
        )

    async def tools(self) -> Sequence[Tool]:
        self._left_out.clear()
        for broken in filter(None, (files.broken for files in self._files.values())):
            raise broken
        for connection in self._in_use:
            await connection.refresh()
            if connection.failure and not connection.offer.when:
                state = "" if is_inspecting() else " is not there"
                problem = f"the MCP server {connection.name}{state}: {visible(connection.failure)}"
                self._warn(StatusNotice(problem, "server", urgent=not is_inspecting()))
                self._left_out[connection.name] = (
                    Source("mcp", connection.name),
                    visible(connection.failure),
                )
        offered = await self._tools_by_server()
        found: list[Tool] = []
        for connection in self._in_use:
            found += offered[connection.name]
        return found + resource_tools(self._in_use, self._resource_rules())

    async def _tools_by_server(self) -> dict[str, list[Tool]]:
        """The tools of each server; those with few are checked first, so that they never wait for one with many."""
        found: dict[str, list[Tool]] = {}
        until = anyio.current_time() + CHECKING
        for connection in sorted(self._in_use, key=lambda each: len(each.offer.tools)):
            found[connection.name] = await self._tools_of(connection, until)
        return found

    def _resource_rules(self) -> ResourceRules:
        said = self.config.approval
        is_silent = said.default is None and READ not in said.tools
        return ResourceRules(
            self.config.resources, partial(self.config.where, "resources"), is_silent
        )

    @property
    def _in_use(self) -> list[Connection]:
        return [each for each in self.connections if not each.off]

    async def handle_command(self, args: Sequence[str]) -> Sequence[str]:
        """``/mcp`` in a conversation: the servers as they are now, turned off and on, and connected again."""
        if not args:
            return [each.describe() for each in self.connections]
        if len(args) != 2 or args[0] not in ("off", "on", "reconnect"):
            raise ToolError(
                f"/mcp does not take '{visible(' '.join(args))}': it is /mcp [off|on|reconnect NAME]"
            )
        action, name = args
        known = {each.name: each for each in self.connections}
        if (server := known.get(name)) is None:
            hint = did_you_mean(name, known, f"there are: {', '.join(known)}")
            raise ToolError(f"there is no MCP server '{visible(name)}'; {hint}")
        if action == "off":
            server.turn_off()
        elif action == "reconnect" or not server.connected:
            if name in self._files:
                self._files[name].ask_again()
            with anyio.move_on_after(PATIENCE):
                await server.reconnect()
        return [server.describe()]

    def left_out(self) -> Mapping[str, tuple[Source, str]]:
        """Servers that are not there, and tools that are not offered, each with the reason."""
        return self._left_out

    async def prompts(self) -> Sequence[PromptSpec]:
        return [_describe_prompt(name, prompt) for name, (_, prompt) in self._prompts().items()]

    async def get_prompt(self, name: str, args: Mapping[str, str]) -> str:
        connection, prompt = self._prompts()[name]
        filled = await connection.get_prompt(prompt.name, dict(args))
        return prompt_text(filled.messages)

    def _prompts(self) -> dict[str, tuple[Connection, mcp_types.Prompt]]:
        found: dict[str, tuple[Connection, mcp_types.Prompt]] = {}
        for connection in self._in_use:
            names = names_for(connection.name, (prompt.name for prompt in connection.prompts))
            found.update(
                (names[prompt.name], (connection, prompt)) for prompt in connection.prompts
            )
        return found

    def instructions(self) -> str | None:
        said = [
            f"About the tools {each.name}__*:\n{cut(text, 2000)}"
            for each in self._in_use
            if (text := each.offer.instructions) and visible(text, keep="\n\t") == text
        ]
        return "\n\n".join(said) or None

    async def _tools_of(self, connection: Connection, until: float) -> list[Tool]:
        found: list[Tool] = []
        began = anyio.current_time()
        tools = {
            tool.name: tool for tool in reversed(connection.offer.tools)
        }  # of two with one name the first counts
        names = names_for(connection.name, reversed(tools))
        for tool in reversed(tools.values()):
            await anyio.lowlevel.checkpoint()
            name = names[tool.name]
            known = self._offered.get(name)
            if known and known[0] == tool:
                found.append(known[1])
                continue
            if (
                self._costly.get(connection.name) is connection.offer
                or anyio.current_time() > until
            ):
                return self._give_up(connection, anyio.current_time() - began)
            try:
                offered = self._offer(name, tool, connection)
            except Quarantined as error:
                self._warn(
                    f"the tool {visible(tool.name)} of the MCP server {connection.name} is left out: {error}"
                )
                self._left_out[name] = Source("mcp", connection.name), str(error)
                continue
            self._offered[name] = tool, offered
            found.append(offered)
        return found

    def _give_up(self, connection: Connection, seconds: float) -> list[Tool]:
        """Offer none of the tools of a server; if it is the one that took long, for as long as they are the same."""
        name, problem = (
            connection.name,
            "checking those of other servers takes too long, so its tools come later",
        )
        if self._costly.get(name) is connection.offer or seconds > CHECKING / 2:
            self._costly[name] = connection.offer
            many = counted(len(connection.offer.tools), "tool")
            problem = f"checking its {many} takes too long, so none is offered"
        self._warn(
            StatusNotice(f"the MCP server {name}: {problem}", "server", urgent=not is_inspecting())
        )
        self._left_out[name] = Source("mcp", name), problem
        return []

    def _offer(self, name: str, tool: ServerTool, connection: Connection) -> Tool:
        drift = self._pins[connection.name].drift(tool)
        offered = offered_tool(
            name,
            tool,
            server=connection.name,
            execute=partial(self._call, name, connection, tool),
            drift=drift,
            notice=self._warn,
            believe_hints=connection.server.believe_hints,
        )
        if drift:
            self._warn(f"{name}: {drift.verdict.reason}")
        return offered

    async def _call(
        self, name: str, connection: Connection, tool: ServerTool, args: Args, context: ToolContext
    ) -> ResultValue:
        if self._pins[connection.name].keep(tool):
            self._offered.pop(name, None)
        return convert_result(await connection.call(tool.name, args, context.report))

    def _connection(self, name: str, server: McpServer) -> Connection:
        where = self.config.where("servers", name)
        env = expand_variables(
            server.env, os.environ, lambda each: server.where("env", each) or where
        )
        headers = expand_variables(
            server.headers, os.environ, lambda each: server.where("headers", each) or where
        )
        oauth = expanded_oauth(server, where)
        connection: Connection

        def transport() -> AbstractAsyncContextManager[TransportStreams]:
            if server.url:
                auth = self._auth(server.url, oauth)
                return http_transport(server, headers, auth, partial(self._answered, connection))
            heard = ServerStreams(
                self._garbage(name), partial(self._hear_errors, connection), connection.lost
            )
            return child_transport(partial(self._start, name, server, env), heard)

        def log(text: str) -> None:
            self.env.notify("debug", f"the MCP server {name} logs {text}")

        requests = ServerRequests(name, self.env.session)
        connection = Connection(
            name,
            server,
            transport=transport,
            roots=lambda: [zone.path.as_uri() for zone in self.env.sandbox.zones],
            log=log,
            tell=self.env.notify,
            keep=self._kept(server).put,
            settle=self._files[name].settle if name in self._files and server.command else None,
            sample=requests.sample if _said(server.sampling, self.config.sampling) else None,
            elicit=requests.elicit if _said(server.elicitation, self.config.elicitation) else None,
        )
        return connection

    def _kept(self, server: McpServer) -> KeptOffer:
        return KeptOffer(self.env.home, server, self.env.workspace)

    def _target(self, name: str) -> str:
        """A server as ``forge mcp test`` finds it: by its name, or with the worker that defines it."""
        where = self.config.where("servers", name)
        return (
            name if self.config.servers[name] is None or where is None else shlex.quote(where.file)
        )

    def _start(self, name: str, server: McpServer, env: dict[str, str]) -> Child:
        self._files[name].check()
        processes, command = (
            cast(WorkerProcesses, self.env.processes),
            os.path.expanduser(str(server.command)),
        )
        return processes.serve(
            [command, *server.args], env=env, confined=server.confined, kept=KEPT
        )

    def _garbage(self, name: str) -> Callable[[str], None]:
        def warn(line: str) -> None:
            shown = visible(cut(line, 60, "end"))
            self._warn(
                f"the MCP server {name} writes what is not a message: {shown}", f"garbage {name}"
            )

        return warn

    def _hear_errors(self, connection: Connection, text: str) -> None:
        connection.last_words = (connection.last_words + text)[-ERROR_CHARACTERS:]
        for line in filter(str.strip, text.splitlines()):
            self.env.notify(
                "debug",
                f"the MCP server {connection.name} writes: {visible(cut(line, 300, 'end'))}",
            )

    def _warn(self, sentence: str, key: str | None = None) -> None:
        if (key or sentence) not in self._told:
            self._told.add(key or sentence)
            self.env.notify("warning", sentence)


def defined_servers(config: Any, workspace: Path, home: Path) -> dict[str, McpServer]:
    """Each server with its definition: here, in the user's own settings, or in the working directory."""
    settings, policy = load_settings(home).mcp, organisation_policy()
    own = settings.servers
    found: dict[str, McpServer] = {}
    for name, server in config.servers.items():
        defined = server or own.get(name) or trusted_server(name, workspace, home)
        if defined is None:
            hint = did_you_mean(
                name,
                own,
                f"define it here, or with: forge mcp add {name} -- COMMAND (or --url URL)",
            )
            problem = f"toolsets.mcp.servers.{name}: there is no definition of it"
            raise WorkerError(config.where("servers", name), problem, hint=hint)
        for objection in (
            policy.about_server(name, defined, config.where("servers", name)) if policy else ()
        ):
            raise objection
        found[name] = settings.within(defined)
    return found


def _describe_prompt(name: str, prompt: mcp_types.Prompt) -> PromptSpec:
    """For people: what cannot be seen in it is made visible."""
    arguments = [
        PromptArgument(each.name, visible(each.description or ""), bool(each.required))
        for each in prompt.arguments or ()
    ]
    return PromptSpec(name, visible(prompt.description or prompt.title or ""), tuple(arguments))


def _said(own: bool | None, general: bool) -> bool:
    return general if own is None else own


@hookimpl
def forge_toolsets() -> list[type[Toolset]]:
    return [McpToolset]
