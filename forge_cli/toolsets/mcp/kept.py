"""Tools as servers described them when they were last connected to: commands that look list and judge by these."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from forge_cli.core.locking import hash_of
from forge_cli.core.tool import digest_of
from forge_cli.core.wire import JsonObject
from forge_cli.files.mcp import McpServer
from forge_cli.files.replace import replace_file

if TYPE_CHECKING:
    import mcp_types


@dataclass(frozen=True)
class ServerTool:
    """A tool in the words of its server, and the digest that grants for it are bound to."""

    name: str
    description: str
    input_schema: JsonObject
    digest: str
    read_only: bool = False
    open_world: bool = False
    definition: str = ""
    """The hash of all that the server says of it but its name, annotations included; for a lock."""

    @classmethod
    def of(cls, tool: mcp_types.Tool, identity: str) -> ServerTool:
        schema, hints = dict(tool.input_schema), tool.annotations
        content = json.dumps([identity, tool.name, tool.description, schema], sort_keys=True)
        return cls(
            tool.name,
            tool.description or tool.title or "",
            schema,
            digest_of(content.encode()),
            hints is not None and hints.read_only_hint is True,
            hints is not None and hints.open_world_hint is True,
            hash_of(tool.model_dump(mode="json", by_alias=True, exclude={"name", "meta"}, exclude_none=True)),
        )


@dataclass(frozen=True)
class ServerOffer:
    """The offer of a connected server, and since when it is known."""

    tools: tuple[ServerTool, ...] = ()
    instructions: str | None = None
    resources: bool = False
    when: str = ""


_OFFER = TypeAdapter(ServerOffer)


@dataclass(frozen=True)
class KeptOffer:
    """The offer of one server in a file; ``home`` is forge's own."""

    home: Path
    server: McpServer
    workspace: Path

    @cached_property
    def file(self) -> Path:
        """Named after all that decides which tools a server has; where files are among it, after their folder, too."""
        server = self.server
        words = filter(None, (server.command, *server.args))
        folder = str(self.workspace) if any(os.path.isfile(self.workspace / word) for word in words) else ""
        deciding = [server.identity, sorted(server.env.items()), sorted(server.headers.items()), folder]
        return self.home / "cache" / "mcp" / f"{digest_of(json.dumps(deciding).encode())[:32]}.json"

    def find(self) -> ServerOffer | None:
        """None where the server was never connected to."""
        with suppress(OSError, ValidationError):
            return _OFFER.validate_json(self.file.read_bytes())
        return None

    def put(self, offer: ServerOffer) -> None:
        """Keep it; a home that cannot be written keeps nothing."""
        with suppress(OSError, ValueError):  # also where a description cannot be written as text
            replace_file(self.file, _OFFER.dump_json(offer), mode=0o600, durable=False)
