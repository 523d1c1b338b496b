"""OAuth for MCP servers with a URL: the client of the SDK, with tokens in a private file."""

from __future__ import annotations

import json
import os
import re
import time
import warnings
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from forge_cli.core.errors import Mark
from forge_cli.core.wire import JsonObject
from forge_cli.files.home import make_private
from forge_cli.files.lock import hold_file_lock
from forge_cli.files.mcp import McpOauth, McpServer
from forge_cli.files.mcp_project import expand_variables
from forge_cli.files.places import read_kept, whole_file
from forge_cli.files.replace import replace_file

if TYPE_CHECKING:
    import httpx2
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthToken

_NO_TOKENS = "not a valid file of tokens"
_LOG_IN_AGAIN = "move it away, and log in again: forge mcp login NAME"
_INSUFFICIENT = re.compile(r'error="?insufficient_scope\b')
_SCOPE = re.compile(r'\bscope="([^"\x00-\x1f]{1,500})"')
NOWHERE = "http://127.0.0.1/callback"
"""The redirect address if no page is opened; nothing listens there."""


class McpTokens(Struct, frozen=True):
    """The tokens of all servers in ``mcp-tokens.json``."""

    home: Path

    @property
    def file(self) -> Path:
        return self.home / "mcp-tokens.json"

    def find(self, url: str) -> JsonObject | None:
        return self._entries().get(url)

    def put(self, url: str, entry: JsonObject | None) -> bool:
        """Store or delete the entry of a server; return True if there was one before."""
        make_private(self.home)
        with hold_file_lock(self.home / ".mcp-tokens.lock"):
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
    """Raised if a person has to log in."""


class KeptTokens:
    """The tokens of one server, in the form that the SDK expects; ``save`` stores the entry."""

    def __init__(self, entry: JsonObject | None, save: Callable[[JsonObject], object]) -> None:
        self.entry = dict(entry or {})
        self._save = save
        self.provider: OAuthClientProvider | None = None
        self.registered: JsonObject | None = None
        """The client that was registered manually; it is not stored."""

    async def get_tokens(self) -> OAuthToken | None:
        from mcp.shared.auth import OAuthToken

        if "tokens" not in self.entry:
            return None
        return OAuthToken.model_validate(self.entry["tokens"])

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store tokens with their expiry and their issuer."""
        self.entry["tokens"] = tokens.model_dump(mode="json", exclude_none=True)
        self.entry["expires"] = None
        if tokens.expires_in is not None:
            self.entry["expires"] = time.time() + tokens.expires_in
        context = self.provider.context if self.provider else None
        if context and context.oauth_metadata:
            self.entry["issuer"] = context.oauth_metadata.model_dump(mode="json", exclude_none=True)
        if context and context.protected_resource_metadata:
            self.entry["resource"] = context.protected_resource_metadata.model_dump(
                mode="json", exclude_none=True
            )
        if context and context.client_metadata.scope:  # a renewal has none
            self.entry["asked"] = context.client_metadata.scope
        self._save(self.entry)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        from mcp.shared.auth import OAuthClientInformationFull

        found = self.registered or self.entry.get("client")
        return OAuthClientInformationFull.model_validate(found) if found else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.entry["client"] = client_info.model_dump(mode="json", exclude_none=True)


def oauth_provider(
    url: str,
    tokens: KeptTokens,
    oauth: McpOauth,
    *,
    redirect_uri: str = NOWHERE,
    show: Callable[[str], Awaitable[None]] | None = None,
    wait: Callable[[], Awaitable[AuthorizationCodeResult]] | None = None,
) -> OAuthClientProvider:
    """Return an object that authorizes requests and renews tokens.

    ``oauth`` contains the secrets in plain text. ``show`` opens a page for the person, and ``wait``
    returns the code from there. Without them, LoginNeeded is raised if a login is needed.
    """
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthClientMetadata, OAuthMetadata, ProtectedResourceMetadata

    async def refuse(page: str) -> None:
        raise LoginNeeded

    method = "none" if oauth.client_secret is None else "client_secret_basic"
    asked = OAuthClientMetadata.model_validate(
        {
            "redirect_uris": [redirect_uri],
            "client_name": "forge",
            "token_endpoint_auth_method": method,
        }
    )
    if oauth.client_id is not None:
        known = {
            "client_id": oauth.client_id,
            "client_secret": oauth.client_secret,
            "issuer": oauth.issuer,
        }
        tokens.registered = {**asked.model_dump(mode="json", exclude_none=True), **known}
    provider: OAuthClientProvider
    if oauth.grant == "client_credentials":
        provider = _client_provider(url, tokens, oauth)
    else:
        provider = OAuthClientProvider(url, asked, tokens, show or refuse, wait)
    _ask_for(provider, oauth.scopes)
    tokens.provider = provider
    # The SDK reads the tokens itself, but not their expiry and their issuer.
    provider.context.token_expiry_time = tokens.entry.get("expires")
    if issuer := tokens.entry.get("issuer"):
        provider.context.oauth_metadata = OAuthMetadata.model_validate(issuer)
    if resource := tokens.entry.get("resource"):
        provider.context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(
            resource
        )
    return provider


def _client_provider(url: str, tokens: KeptTokens, oauth: McpOauth) -> OAuthClientProvider:
    """Return a provider for the client_credentials grant, which needs no person."""
    from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the SDK warns if the issuer is missing
        return ClientCredentialsOAuthProvider(
            url, tokens, str(oauth.client_id), str(oauth.client_secret), issuer=oauth.issuer
        )


def _ask_for(provider: OAuthClientProvider, scopes: Sequence[str]) -> None:
    """Request these scopes in addition to those that the server wants."""
    from mcp.client.auth.utils import union_scopes

    authorize = provider._perform_authorization

    async def perform() -> httpx2.Request:
        if scopes:
            metadata = provider.context.client_metadata
            metadata.scope = union_scopes(" ".join(scopes), metadata.scope)
        return await authorize()

    # The SDK sets the scopes during the authorization, and has no setting to add some.
    provider._perform_authorization = perform  # type: ignore[method-assign]


def expanded_oauth(server: McpServer, where: Mark | None) -> McpOauth:
    """Return the OAuth settings of a server with ``${VAR}`` replaced from the environment."""
    said = server.oauth or McpOauth()
    secret: dict[str, str] = {}
    for name in ("client_id", "client_secret"):
        value = getattr(said, name)
        if value is not None:
            secret[name] = value
    return said.model_copy(
        update=expand_variables(secret, os.environ, lambda name: said.where(name) or where)
    )


def asked_for(entry: JsonObject | None, scope: str) -> bool:
    """Return True if the last login asked for these scopes already, so that another is useless."""
    return bool(scope) and set(scope.split()) <= set(str((entry or {}).get("asked", "")).split())


def scope_wanted(challenge: str) -> str | None:
    """Return the missing scopes of a 403 answer; None if the answer is about something else."""
    if not _INSUFFICIENT.search(challenge):
        return None
    found = _SCOPE.search(challenge)
    return found[1] if found else ""
