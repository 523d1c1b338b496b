"""The toolset ``mcp``: the tools of MCP servers, behind the gate like all others."""

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
    MAX_UNREAD,
    UNAUTHORIZED,
    ServerStreams,
    child_transport,
    http_transport,
)

if TYPE_CHECKING:
    import mcp_types
    from mcp.client._transport import TransportStreams
    from mcp.client.auth import OAuthClientProvider

MAX_OPENING = LOAD_LIMIT - 5
"""Seconds to wait for servers at the start, less than a toolset may take to load."""
TOO_SLOW = "it takes too long to start"
RECONNECT_TIMEOUT = 20.0
"""Seconds that ``/mcp`` waits for a server, which may still connect later."""
CHECK_TIMEOUT = 12.0
"""Seconds for checking new tools of all servers before a turn, out of the 30 of a toolset."""
MAX_STDERR = 2000
"""Characters that are kept of a server's standard error."""


Servers = dict[ServerName, McpServer | None]


def _named(servers: Any) -> Any:
    """Convert a list of names to servers without a definition."""
    if not isinstance(servers, list):
        return servers
    if not all(isinstance(name, str) for name in servers) or len(set(servers)) < len(servers):
        raise ValueError(
            "a list of servers has distinct names; to define one here, write NAME: {command: ...}"
        )
    return dict.fromkeys(servers)


class McpConfig(ToolsetConfig):
    """Settings of the toolset ``mcp``."""

    servers: Annotated[
        Servers, BeforeValidator(_named, json_schema_input_type=Servers | list[ServerName])
    ]
    """Servers by name, or a list of names that your config.yaml or .mcp.json defines."""
    sampling: bool = False
    """Whether servers may use the worker's model, unless their definition decides."""
    elicitation: bool = False
    """Whether servers may ask the person for input, unless their definition decides."""
    resources: Rules = Field(default={})
    """Rules for reading resources by server and URI, with ``*`` for anything; the strictest match
    counts."""
    from_client: bool = False
    """Whether an editor may add servers of its own; see ``forge serve acp``."""

    @model_validator(mode="after")
    def _rules_of_servers(self) -> Self:
        for name in self.resources:
            if name not in self.servers and not self.from_client:
                known = did_you_mean(name, self.servers, f"servers: {', '.join(self.servers)}")
                raise PydanticCustomError("resources", f"there is no server '{name}' here; {known}")
        return self

    @classmethod
    def _canonical(cls, data: dict[Any, Any]) -> dict[str, Any]:
        """Allow an empty list of servers if an editor may add some."""
        found = super()._canonical(data)
        return {"servers": {}, **found} if found.get("from_client") is True else found


class ServerMissing(ForgeError):
    """Raised if a worker cannot start without one of its servers."""

    exit_code = ExitCode.PROVIDER


class McpToolset(Toolset):
    """The tools of MCP servers, each named ``SERVER__TOOL``."""

    name = "mcp"
    Config = McpConfig
    dynamic = True

    tolerant = False
    """True if required servers may be missing, because a command checks just that."""

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
        """Return the lock entries of each connected server."""
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
        """The offers that took too long to check, by server."""
        self._tasks: TaskGroup = anyio.create_task_group()
        await self._tasks.__aenter__()
        for connection in self.connections:
            if is_inspecting():
                target = self._target(connection.name)
                unseen = (
                    f"its tools are unknown, as it was never started; run: forge mcp test {target}"
                )
                connection.remember(self._kept(connection.server).find(), unseen)
            else:
                self._tasks.start_soon(connection.own)
        try:
            # The tools of a slower server are offered in a later turn.
            with anyio.move_on_after(MAX_OPENING):
                for connection in self.connections:
                    await connection.settled()
            self._check_required()
        except BaseException:
            # Python does not call __aexit__ if __aenter__ fails.
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
            # Wait here, because a task group loses a cancellation that arrives while it waits.
            for connection in self.connections:
                await connection.ended.wait()
        finally:
            await self._tasks.__aexit__(None, None, None)
        await super().__aexit__(kind, error, trace)

    def _check_required(self) -> None:
        """Raise ServerMissing for a required server, or for a missing login without a person."""
        for each in self.connections:
            if each.connected or self.tolerant or is_inspecting():
                continue
            where = self.config.where("servers", each.name)
            if each.needs_login and (each.server.required or not self.env.session.attended):
                wish, remedy = self._login(each)
                raise ServerMissing(f"MCP server {each.name} {wish}", where=where, hint=remedy)
            if each.server.required:
                why = visible(each.failure or TOO_SLOW)
                raise ServerMissing(
                    f"required MCP server {each.name} is not connected: {why}",
                    where=where,
                    hint=f"run: forge mcp test {self._target(each.name)}",
                )

    def _auth(self, url: str, oauth: McpOauth) -> OAuthClientProvider | None:
        """Return the authorization for a URL; None if a person has to log in first."""
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
            connection.needs_login = True
            connection.failure = f"it {': '.join(self._login(connection))}"

    def _wish_for_rights(self, connection: Connection, scope: str) -> str:
        """Return the rights that a server wants, and the remedy; the next login asks for them."""
        wish = "wants more rights"
        if scope:
            wish += f": the scope {visible(scope)}"
        store = McpTokens(self.env.home)
        url = str(connection.server.url)
        entry = store.find(url)
        if asked_for(entry, scope):
            return f"{wish}, which the last login did not grant; ask the operator of the server"
        if entry:
            store.put(url, {**entry, "wanted": scope})
        return f"{wish}; {self._login(connection)[1]}"

    def _login(self, connection: Connection) -> tuple[str, str]:
        """Return the reason for which a server answered with 401, and the remedy."""
        if "authorization" in map(str.lower, connection.server.headers):
            return "rejects the Authorization in its headers", "replace it in the definition"
        name = connection.name
        target = self._target(name)
        remedy = f"forge mcp login {name}"
        if target != name:
            remedy += f" --worker {target}"
        return "wants you to log in", remedy

    async def tools(self) -> Sequence[Tool]:
        self._left_out.clear()
        for broken in filter(None, (files.broken for files in self._files.values())):
            raise broken
        for connection in self._in_use:
            await connection.refresh()
            if connection.failure and not connection.offer.when:
                state = "" if is_inspecting() else " is not connected"
                problem = f"MCP server {connection.name}{state}: {visible(connection.failure)}"
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
        """Return the tools by server; servers with few tools are checked first."""
        found: dict[str, list[Tool]] = {}
        until = anyio.current_time() + CHECK_TIMEOUT
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
        """Handle ``/mcp``: list the servers, turn one off or on, or reconnect it."""
        if not args:
            return [each.describe() for each in self.connections]
        if len(args) != 2 or args[0] not in ("off", "on", "reconnect"):
            raise ToolError(
                f"invalid arguments '{visible(' '.join(args))}'; use /mcp [off|on|reconnect NAME]"
            )
        action, name = args
        known = {each.name: each for each in self.connections}
        if (server := known.get(name)) is None:
            hint = did_you_mean(name, known, f"servers: {', '.join(known)}")
            raise ToolError(f"there is no MCP server '{visible(name)}'; {hint}")
        if action == "off":
            server.turn_off()
        elif action == "reconnect" or not server.connected:
            if name in self._files:
                self._files[name].ask_again()
            with anyio.move_on_after(RECONNECT_TIMEOUT):
                await server.reconnect()
        return [server.describe()]

    def left_out(self) -> Mapping[str, tuple[Source, str]]:
        """Return the missing servers and rejected tools, with reasons."""
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
        said: list[str] = []
        for each in self._in_use:
            text = each.offer.instructions
            # Invisible characters could hide instructions from people.
            if text and visible(text, keep="\n\t") == text:
                said.append(f"About the tools {each.name}__*:\n{cut(text, 2000)}")
        return "\n\n".join(said) or None

    async def _tools_of(self, connection: Connection, until: float) -> list[Tool]:
        found: list[Tool] = []
        began = anyio.current_time()
        # Reversed, so that the first of two tools with one name is kept.
        tools = {tool.name: tool for tool in reversed(connection.offer.tools)}
        names = names_for(connection.name, reversed(tools))
        for tool in reversed(tools.values()):
            await anyio.lowlevel.checkpoint()  # checking a schema may take long
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
                    f"MCP server {connection.name}: tool {visible(tool.name)} rejected: {error}"
                )
                self._left_out[name] = Source("mcp", connection.name), str(error)
                continue
            self._offered[name] = tool, offered
            found.append(offered)
        return found

    def _give_up(self, connection: Connection, seconds: float) -> list[Tool]:
        """Offer no tools of a server; if it was the slow one, until its tools change."""
        name = connection.name
        if self._costly.get(name) is connection.offer or seconds > CHECK_TIMEOUT / 2:
            self._costly[name] = connection.offer
            many = counted(len(connection.offer.tools), "tool")
            problem = f"none of its tools is offered: checking its {many} takes too long"
        else:
            problem = "its tools come later: checking those of other servers takes long"
        self._warn(
            StatusNotice(f"MCP server {name}: {problem}", "server", urgent=not is_inspecting())
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
            # It was made with a verdict about the change, which is approved now.
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
            self.env.notify("debug", f"MCP server {name} logs {text}")

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
        """Return the argument of ``forge mcp test`` for a server: its name, or the worker file."""
        where = self.config.where("servers", name)
        if self.config.servers[name] is None or where is None:
            return name
        return shlex.quote(where.file)

    def _start(self, name: str, server: McpServer, env: dict[str, str]) -> Child:
        self._files[name].check()
        processes = cast(WorkerProcesses, self.env.processes)
        command = os.path.expanduser(str(server.command))
        return processes.serve(
            [command, *server.args], env=env, confined=server.confined, kept=MAX_UNREAD
        )

    def _garbage(self, name: str) -> Callable[[str], None]:
        def warn(line: str) -> None:
            shown = visible(cut(line, 60, "end"))
            self._warn(
                f"MCP server {name} printed a line that is no message: {shown}", f"garbage {name}"
            )

        return warn

    def _hear_errors(self, connection: Connection, text: str) -> None:
        connection.last_words = (connection.last_words + text)[-MAX_STDERR:]
        for line in filter(str.strip, text.splitlines()):
            self.env.notify(
                "debug",
                f"MCP server {connection.name} prints: {visible(cut(line, 300, 'end'))}",
            )

    def _warn(self, sentence: str, key: str | None = None) -> None:
        if (key or sentence) not in self._told:
            self._told.add(key or sentence)
            self.env.notify("warning", sentence)


def defined_servers(config: Any, workspace: Path, home: Path) -> dict[str, McpServer]:
    """Return the definition of each server: of the worker, the user or the working directory."""
    settings = load_settings(home).mcp
    policy = organisation_policy()
    own = settings.servers
    found: dict[str, McpServer] = {}
    for name, server in config.servers.items():
        defined = server or own.get(name) or trusted_server(name, workspace, home)
        if defined is None:
            hint = did_you_mean(
                name,
                own,
                f"define it here, or run: forge mcp add {name} -- COMMAND (or --url URL)",
            )
            problem = f"toolsets.mcp.servers.{name}: no definition found"
            raise WorkerError(config.where("servers", name), problem, hint=hint)
        if policy:
            for objection in policy.about_server(name, defined, config.where("servers", name)):
                raise objection
        found[name] = settings.within(defined)
    return found


def _describe_prompt(name: str, prompt: mcp_types.Prompt) -> PromptSpec:
    """Describe a prompt for people, with invisible characters escaped."""
    arguments = [
        PromptArgument(each.name, visible(each.description or ""), bool(each.required))
        for each in prompt.arguments or ()
    ]
    return PromptSpec(name, visible(prompt.description or prompt.title or ""), tuple(arguments))


def _said(own: bool | None, general: bool) -> bool:
    return general if own is None else own


@hookimpl
def forge_toolsets() -> list[type[Toolset]]:
    """Offer the toolset."""
    return [McpToolset]
