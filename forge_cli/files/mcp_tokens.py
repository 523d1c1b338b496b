"""Tokens of authorisation servers for ``forge mcp login``: kept for this user alone, by the URL of the MCP server."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from forge_cli.core.wire import JsonObject
from forge_cli.files.home import make_private
from forge_cli.files.lock import locked
from forge_cli.files.places import read_kept, whole_file
from forge_cli.files.replace import replace_file

_NO_TOKENS = "this is not a file of tokens"
_LOG_IN_AGAIN = "move it away, and log in again with forge mcp login"


@dataclass(frozen=True)
class McpTokens:
    """``mcp-tokens.json`` in forge's home."""

    home: Path

    @property
    def file(self) -> Path:
        return self.home / "mcp-tokens.json"

    def find(self, url: str) -> JsonObject | None:
        return self._entries().get(url)

    def put(self, url: str, entry: JsonObject | None) -> bool:
        """Keep what belongs to a server, or forget it; returns whether anything was known of it before."""
        make_private(self.home)
        with locked(self.home / ".mcp-tokens.lock"):
            before = self._entries()
            entries = {name: each for name, each in before.items() if name != url}
            if entry is not None:
                entries[url] = entry
            if entries != before:
                replace_file(self.file, json.dumps(entries, indent=2) + "\n", mode=0o600)
        return url in before

    def _entries(self) -> dict[str, JsonObject]:
        found = read_kept(self.file, _NO_TOKENS, _LOG_IN_AGAIN)
        if not all(isinstance(entry, dict) for entry in found.values()):
            raise whole_file(self.file, _NO_TOKENS, hint=_LOG_IN_AGAIN)
        return found
