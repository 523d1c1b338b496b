"""MCP servers that an editor brings along, for workers that say ``mcp: {from_client: true}`` and no others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from acp import schema

from forge_cli.cli.notices import warn
from forge_cli.core.text import counted
from forge_cli.core.wire import JsonObject
from forge_cli.files.worker import Worker
from forge_cli.schema.config import parse_config
from forge_cli.toolsets.mcp.toolset import McpConfig, McpToolset

Servers = Sequence[schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio]
NAME_MAX = 32


def takes_servers(worker: Worker) -> bool:
    """Does the worker want those of the editor?"""
    section = worker.config.toolsets.get(McpToolset.name)
    return isinstance(section, dict) and parse_config(McpConfig, section).from_client


def with_servers(worker: Worker, given: Servers) -> Worker:
    """The worker with these servers; those of its own keep their names, and what it says of calls holds for all."""
    if not given:
        return worker
    section = worker.config.toolsets.get(McpToolset.name)
    if not isinstance(section, dict) or not takes_servers(worker):
        warn(
            f"{counted(len(given), 'MCP server')} of the editor not used: the worker has no mcp: {{from_client: true}}"
        )
        return worker
    own = parse_config(McpConfig, section)
    found: dict[str, JsonObject] = {}
    for server in given:
        name = re.sub(r"[^a-zA-Z0-9_-]+", "-", server.name).strip("-_")[:NAME_MAX]
        definition = _definition(server)
        if not name or definition is None or name in own.servers or name in found:
            warn(f"the MCP server '{server.name}' of the editor is not used: {_problem(name, definition)}")
        else:
            found[name] = definition
    config = {"servers": found, "approval": {"default": own.approval.default}, "elicitation": own.elicitation}
    return replace(worker, toolsets=(*worker.toolsets, McpToolset({**config, "sampling": own.sampling})))


def _problem(name: str, definition: JsonObject | None) -> str:
    if definition is None:
        return "forge cannot reach it that way"
    return "another has its name" if name else "its name has no letters"


def _definition(
    server: schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio,
) -> JsonObject | None:
    match server:
        case schema.McpServerStdio():
            env = {each.name: each.value for each in server.env}
            return {"command": server.command, "args": server.args, "env": env}
        case schema.HttpMcpServer():
            return {"url": server.url, "headers": {each.name: each.value for each in server.headers}}
        case _:
            return None
