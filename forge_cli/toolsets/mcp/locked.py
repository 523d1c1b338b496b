"""MCP servers as a lock names them: how each is started or reached, and the set of all that it offers."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from forge_cli.core.errors import ToolError
from forge_cli.core.locking import LockEntry, hash_of
from forge_cli.files.mcp import McpServer
from forge_cli.toolsets.mcp.connection import Connection
from forge_cli.toolsets.mcp.floating import pinned_spelling

if TYPE_CHECKING:
    import mcp_types


def server_entry(name: str, server: McpServer, workspace: Path) -> LockEntry:
    """How a server is started or reached: its definition, and the files that its command line names."""
    said = server.model_dump(mode="json", exclude_defaults=True)
    files = [] if server.command is None else list(_files([server.command, *server.args], workspace))
    origin = server.url or shlex.join([str(server.command), *server.args])
    floating = pinned_spelling(server.command, server.args) if server.command else ""
    return LockEntry("mcp", name, origin, hash_of(said, files), floating=floating)


def _files(words: Sequence[str], workspace: Path) -> Iterator[tuple[str, str]]:
    """The content of each file that a command line names.

    Of a program that is found on the PATH, only a script is taken, without the line that says where its interpreter is:
    what else lies there belongs to the machine.
    """
    for at, word in enumerate(words):
        given = word.partition("=")[2] if word.startswith("-") else word
        path = workspace / os.path.expanduser(given)
        if given and path.is_file():
            yield given, sha256(path.read_bytes()).hexdigest()
        elif at == 0 and os.sep not in word and (found := shutil.which(word)):
            with open(found, "rb") as file:
                if file.read(2) == b"#!":
                    file.readline()
                    yield word, sha256(file.read()).hexdigest()


async def offered_entries(server: Connection) -> list[LockEntry]:
    """The offer of a connected server: the set of its tools, each of them, its instructions, resources and prompts."""
    offer, found = server.offer, dict[str, str]()
    found["tools"] = hash_of(sorted(tool.name for tool in offer.tools))
    found |= {f"tools/{tool.name}": tool.definition for tool in offer.tools}
    if offer.instructions:
        found["instructions"] = hash_of(offer.instructions)
    resources = await _resources(server) if offer.resources else []
    for part, things in (("resources", resources), ("prompts", server.prompts)):
        for thing in things:
            said = thing.model_dump(mode="json", by_alias=True, exclude={"meta"}, exclude_none=True)
            found[f"{part}/{said.get('uri') or said['name']}"] = hash_of(said)
    return [LockEntry("mcp", f"{server.name}/{name}", server.name, content) for name, content in found.items()]


async def _resources(server: Connection) -> list[mcp_types.Resource]:
    """Those that it lists; one that says it has some and cannot list them has none."""
    try:
        return await server.list_resources()
    except ToolError:
        return []
