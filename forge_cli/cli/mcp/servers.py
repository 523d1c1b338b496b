"""The servers that a worker names, and the worker that names nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from forge_cli.cli.worker.find import find_trusted_worker
from forge_cli.core.errors import UsageError, WorkerError
from forge_cli.core.text import did_you_mean, visible
from forge_cli.engine.runtime.without_model import bare_worker
from forge_cli.files.home import forge_home
from forge_cli.files.mcp import McpServer
from forge_cli.files.mcp_project import project_servers, trusted_server
from forge_cli.files.settings import load_settings
from forge_cli.files.worker import Worker, load_worker
from forge_cli.schema.config import parse_config
from forge_cli.toolsets.mcp.toolset import McpConfig, McpToolset

TOOLSET = McpToolset.name

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A server that is reached under a URL.")]
ServerWorkerOption = Annotated[
    str | None, typer.Option("--worker", metavar="WORKER", help="The worker that defines it, if your config does not.")
]


def named_servers(worker: Worker) -> dict[str, McpServer | None]:
    """Each server that the worker names, with its definition where that is in the worker, too."""
    config = _section(worker)
    return config.servers if config else {}


def _section(worker: Worker) -> McpConfig | None:
    section = worker.section("toolsets", TOOLSET) if TOOLSET in worker.config.toolsets else None
    if section is None:
        return None
    return parse_config(McpConfig, section, at=("toolsets", TOOLSET), file=str(worker.path))


def is_defined(name: str, folder: Path) -> bool:
    """Can a worker name it: do the user's own settings define it, or a file that comes with the folder?"""
    own = load_settings(forge_home()).mcp.servers
    return name in own or any(name in project.servers for project in project_servers(folder))


def find_url(name: str, worker: str | None) -> str:
    """Where the server of a worker, or of one's own, is reached; logging in makes sense for no other."""
    named = named_servers(load_worker(find_trusted_worker(worker, interactive=False))) if worker else {name: None}
    own = load_settings(forge_home()).mcp.servers
    server = named.get(name) or (name in named and own.get(name)) or None
    if server is None and name in named:
        server = trusted_server(name, Path.cwd(), forge_home())
    if server is None:
        known = list(named if worker else own)
        hint = did_you_mean(name, known, "forge mcp add defines one, and --worker names a worker that has it")
        raise UsageError(f"there is no MCP server '{visible(name)}'", hint=hint)
    if server.url is None:
        raise UsageError(f"the MCP server {name} is started by a command, so nobody logs in to it")
    return server.url


def with_servers_only(worker: Worker) -> Worker:
    """The same worker without its other toolsets and plugins, which starts whatever becomes of its servers."""
    config = _section(worker)
    if config is None:
        hint = "name some under toolsets.mcp.servers"
        raise WorkerError(
            worker.config.where("toolsets"), f"the worker '{worker.name}' names no MCP servers", hint=hint
        )
    toolset = McpToolset(config)
    toolset.tolerant = True
    kept = worker.config.model_copy(update={"toolsets": {}, "plugins": []})
    return replace(worker, config=kept, toolsets=(toolset,))


def worker_for(server: str) -> Worker:
    """A worker with nothing but one server of the user's own."""
    return with_servers_only(bare_worker({TOOLSET: {"servers": {server: None}}}))


def describe_confined(server: McpServer) -> str:
    """Whether its process is confined; one that runs elsewhere cannot be."""
    return "" if server.url else "yes" if server.confined else "no"
