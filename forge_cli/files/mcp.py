"""Definitions of MCP servers, in a worker or in the user's settings."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from forge_cli.schema.config import Config

SERVER_NAME = r"^[a-zA-Z0-9][a-zA-Z0-9_-]{0,31}$"

ServerName = Annotated[str, Field(pattern=SERVER_NAME)]
Seconds = Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)]


class McpOauth(Config):
    """The OAuth client of forge for an MCP server."""

    client_id: Annotated[str, Field(min_length=1)] | None = None
    """The id of a client registered by hand; without it, forge registers itself."""
    client_secret: Annotated[str, Field(min_length=1)] | None = None
    """The secret of the client, as ``${VAR}``."""
    scopes: list[Annotated[str, Field(pattern=r"^[!#-\[\]-~]+$")]] = Field(default=[])
    """The requested scopes; by default those that the server names."""
    grant: Literal["authorization_code", "client_credentials"] = "authorization_code"
    """``client_credentials`` means that forge is the client, and no person logs in."""
    issuer: Annotated[str, Field(pattern="^https?://")] | None = None
    """The authorization server of the client; no other server gets its secret."""

    @model_validator(mode="after")
    def _is_known(self) -> Self:
        if self.grant == "client_credentials" and (
            self.client_id is None or self.client_secret is None
        ):
            raise PydanticCustomError(
                "oauth", "client_credentials needs a client_id and a client_secret"
            )
        if self.client_secret is not None and self.client_id is None:
            raise PydanticCustomError("oauth", "a client_secret belongs to a client_id")
        return self


class McpServer(Config):
    """An MCP server, started by a command or reached at a URL."""

    command: Annotated[str, Field(min_length=1)] | None = None
    """The program to start."""
    args: list[str] = Field(default=[])
    """Arguments of the command."""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables to add to a clean environment without your keys."""
    url: Annotated[str, Field(pattern="^https?://")] | None = None
    """The address of the server, instead of a command."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Headers of every request to the URL."""
    oauth: McpOauth | None = None
    """The client and scopes for logging in."""
    timeout: Seconds = 60.0
    """Seconds for a call."""
    connect_timeout: Seconds = 15.0
    """Seconds to connect and list the tools."""
    required: bool = False
    """True if the worker cannot start without it."""
    confined: bool = False
    """True to confine its process like shell commands."""
    sampling: bool | None = None
    """Whether it may use the worker's model; the default is the toolset's setting."""
    elicitation: bool | None = None
    """Whether it may ask the person for input."""
    protocol: Literal["auto", "legacy"] = "auto"
    """``legacy`` is the protocol before 2026-07-28, for servers that ask during a call."""
    believe_hints: bool = False
    """True to trust its hints about read-only tools; approval does not change."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise PydanticCustomError("server", "give either a command or a url")
        if self.url:
            foreign = {"args", "env", "confined"}
            owner = "command"
        else:
            foreign = {"headers", "oauth"}
            owner = "url"
        if wrong := sorted(foreign & self.model_fields_set):
            raise PydanticCustomError("server", f"{wrong[0]} belongs to a {owner}")
        return self

    @property
    def identity(self) -> str:
        """The origin of the server, which grants for its tools are bound to."""
        return self.url or repr([self.command, *self.args])


def defined_in(servers: Any) -> dict[str, McpServer]:
    """Return the servers that a worker's section defines, without names and invalid entries."""
    found: dict[str, McpServer] = {}
    if not isinstance(servers, Mapping):
        return found
    for name, given in servers.items():
        with suppress(ValueError, TypeError):  # reported where the worker is opened
            found[str(name)] = McpServer.model_validate(dict(given))
    return found


class McpServers(Config):
    """The ``mcp`` section of the user's settings."""

    servers: dict[ServerName, McpServer] = Field(default_factory=dict)
    """Servers by name."""
    sampling: bool = True
    """False to forbid every server the use of a model."""
    elicitation: bool = True
    """False to forbid every server to ask for input."""

    def within(self, server: McpServer) -> McpServer:
        """Return a server, limited by the user's settings."""
        closed = {name: False for name in ("sampling", "elicitation") if not getattr(self, name)}
        if not closed:
            return server
        return server.model_copy(update=closed)
