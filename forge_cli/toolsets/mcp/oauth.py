"""OAuth for servers that are reached under a URL: the SDK's client, with tokens that are kept for this user alone."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from forge_cli.core.wire import JsonObject
from forge_cli.files.home import make_private
from forge_cli.files.lock import locked
from forge_cli.files.places import read_kept, whole_file
from forge_cli.files.replace import replace_file

if TYPE_CHECKING:
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthToken

_NO_TOKENS = "this is not a file of tokens"
_LOG_IN_AGAIN = "move it away, and log in again with forge mcp login"
NOWHERE = "http://127.0.0.1/callback"


class McpTokens(Struct, frozen=True):
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


class LoginNeeded(Exception):
    """The server wants a person to log in."""


class KeptTokens:
    """The tokens of one server, as the SDK reads and writes them; ``save`` gets all that is known of it."""

    def __init__(self, entry: JsonObject | None, save: Callable[[JsonObject], object]) -> None:
        self.entry = dict(entry or {})
        self._save = save
        self.provider: OAuthClientProvider | None = None

    async def get_tokens(self) -> OAuthToken | None:
        from mcp.shared.auth import OAuthToken

        return OAuthToken.model_validate(self.entry["tokens"]) if "tokens" in self.entry else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep them, with when they end and whom to ask for new ones."""
        self.entry["tokens"] = tokens.model_dump(mode="json", exclude_none=True)
        self.entry["expires"] = None if tokens.expires_in is None else time.time() + tokens.expires_in
        context = self.provider.context if self.provider else None
        if context and context.oauth_metadata:
            self.entry["issuer"] = context.oauth_metadata.model_dump(mode="json", exclude_none=True)
        if context and context.protected_resource_metadata:
            self.entry["resource"] = context.protected_resource_metadata.model_dump(mode="json", exclude_none=True)
        self._save(self.entry)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        from mcp.shared.auth import OAuthClientInformationFull

        return OAuthClientInformationFull.model_validate(self.entry["client"]) if "client" in self.entry else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.entry["client"] = client_info.model_dump(mode="json", exclude_none=True)


def oauth_provider(
    url: str,
    tokens: KeptTokens,
    *,
    redirect_uri: str = NOWHERE,
    show: Callable[[str], Awaitable[None]] | None = None,
    wait: Callable[[], Awaitable[AuthorizationCodeResult]] | None = None,
) -> OAuthClientProvider:
    """Authorises requests to a server, and gets new tokens in time.

    ``show`` sends a person to a page, and ``wait`` has what comes back from there; without them it is LoginNeeded.
    """
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthClientMetadata, OAuthMetadata, ProtectedResourceMetadata

    async def refuse(page: str) -> None:
        raise LoginNeeded

    asked = OAuthClientMetadata.model_validate(
        {"redirect_uris": [redirect_uri], "client_name": "forge", "token_endpoint_auth_method": "none"}
    )
    provider = OAuthClientProvider(url, asked, tokens, show or refuse, wait)
    tokens.provider = provider
    # the SDK reads tokens by itself, but neither when they end nor where new ones come from
    provider.context.token_expiry_time = tokens.entry.get("expires")
    if issuer := tokens.entry.get("issuer"):
        provider.context.oauth_metadata = OAuthMetadata.model_validate(issuer)
    if resource := tokens.entry.get("resource"):
        provider.context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(resource)
    return provider
