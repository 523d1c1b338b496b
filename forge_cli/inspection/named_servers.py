"""The MCP servers that a worker names, and a worker with nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from forge_cli.core.errors import WorkerError
from forge_cli.engine.runtime.without_model import bare_worker
from forge_cli.files.home import forge_home
from forge_cli.files.mcp import McpServer
from forge_cli.files.mcp_project import project_servers
from forge_cli.files.settings_files import load_settings
from forge_cli.files.worker import Worker
from forge_cli.schema.config import parse_config
from forge_cli.toolsets.mcp.toolset import McpConfig, McpToolset

TOOLSET = McpToolset.name


def named_servers(worker: Worker) -> dict[str, McpServer | None]:
    """Return the servers that a worker names, each with its definition if that is in the worker."""
    config = _section(worker)
    return config.servers if config else {}


def _section(worker: Worker) -> McpConfig | None:
    if TOOLSET not in worker.config.toolsets:
        return None
    section = worker.section("toolsets", TOOLSET)
    if section is None:
        return None
    return parse_config(McpConfig, section, at=("toolsets", TOOLSET), file=str(worker.path))


def is_defined(name: str, folder: Path) -> bool:
    """Return True if a server is defined in the user's settings or in a file of the folder."""
    own = load_settings(forge_home()).mcp.servers
    return name in own or any(name in project.servers for project in project_servers(folder))


def with_servers_only(worker: Worker) -> Worker:
    """Return the worker without other toolsets and plugins; it starts even if its servers fail."""
    config = _section(worker)
    if config is None:
        hint = "name some under toolsets.mcp.servers"
        raise WorkerError(
            worker.config.where("toolsets"),
            f"the worker '{worker.name}' names no MCP servers",
            hint=hint,
        )
    toolset = McpToolset(config)
    toolset.tolerant = True
    kept = worker.config.model_copy(update={"toolsets": {}, "plugins": []})
    return replace(worker, config=kept, toolsets=(toolset,))


def worker_for(server: str) -> Worker:
    """Return a worker with one server of the user's settings and nothing else."""
    return with_servers_only(bare_worker({TOOLSET: {"servers": {server: None}}}))


def describe_confined(server: McpServer) -> str:
    """Return ``yes`` or ``no`` for a local process, and an empty string for a remote server."""
    if server.url:
        return ""
    return "yes" if server.confined else "no"
