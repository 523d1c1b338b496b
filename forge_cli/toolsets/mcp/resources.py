"""Two tools for the resources of MCP servers: one lists them, the other reads one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from forge_cli.core.approval import Effect
from forge_cli.core.context import ToolContext
from forge_cli.core.errors import ToolError
from forge_cli.core.results import Json, ResultValue, Text
from forge_cli.core.text import did_you_mean
from forge_cli.core.tool import LONGEST, Args
from forge_cli.core.wire import JsonObject
from forge_cli.schema.tool import Tool
from forge_cli.toolsets.mcp.connection import Connection
from forge_cli.toolsets.mcp.results import resource_file, resource_text

if TYPE_CHECKING:
    import mcp_types

LIST, READ = "list_mcp_resources", "read_mcp_resource"
EFFECTS = frozenset({Effect.READ, Effect.NETWORK})


def resource_tools(connections: Sequence[Connection]) -> list[Tool]:
    """None where no server has resources."""
    those = {each.name: each for each in connections if each.offer.resources}
    if not those:
        return []
    server: JsonObject = {"type": "string", "description": f"One of: {', '.join(those)}"}
    uri: JsonObject = {"type": "string", "description": "The URI of a resource, as it is listed"}

    async def list_resources(args: Args, context: ToolContext) -> ResultValue:
        wanted = [_find(those, args["server"])] if "server" in args else list(those.values())
        return Json([_describe(each.name, found) for each in wanted for found in await each.list_resources()])

    async def read_resource(args: Args, context: ToolContext) -> ResultValue:
        read = await _find(those, args["server"]).read_resource(args["uri"])
        file = _only_file(read.contents)
        return Text("\n".join(map(resource_text, read.contents))) if file is None else file

    return [
        Tool(
            name=LIST,
            description="List the resources of MCP servers: what each is, and the URI to read it by.",
            input_schema={"type": "object", "properties": {"server": server}, "additionalProperties": False},
            execute=list_resources,
            effects=EFFECTS,
            timeout=LONGEST,
        ),
        Tool(
            name=READ,
            description="Read a resource of an MCP server.",
            input_schema={
                "type": "object",
                "properties": {"server": server, "uri": uri},
                "required": ["server", "uri"],
                "additionalProperties": False,
            },
            execute=read_resource,
            effects=EFFECTS,
            timeout=LONGEST,
        ),
    ]


def _find(servers: dict[str, Connection], name: str) -> Connection:
    if name not in servers:
        known = did_you_mean(name, servers, f"those with resources are: {', '.join(servers)}")
        raise ToolError(f"there is no MCP server '{name}' with resources; {known}")
    return servers[name]


def _describe(server: str, resource: mcp_types.Resource) -> JsonObject:
    found = {"server": server, "uri": str(resource.uri), "name": resource.name, "description": resource.description}
    found["mime_type"] = resource.mime_type
    return {key: value for key, value in found.items() if value is not None}


def _only_file(
    contents: Sequence[mcp_types.TextResourceContents | mcp_types.BlobResourceContents],
) -> ResultValue | None:
    """A resource of one part that is not text; None for any other, and where its data cannot be decoded."""
    with suppress(ValueError):
        return resource_file(contents[0]) if len(contents) == 1 else None
    return None
