"""MCP servers as people define them: in a worker, or in the user's own settings for every worker that names them."""

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
    """How forge makes itself known to the authorization server of an MCP server."""

    client_id: Annotated[str, Field(min_length=1)] | None = None
    """The client that was registered there by hand; without it, forge registers itself."""
    client_secret: Annotated[str, Field(min_length=1)] | None = None
    """Its secret, as ``${VAR}``."""
    scopes: list[Annotated[str, Field(pattern=r"^[!#-\[\]-~]+$")]] = Field(default=[])
    """The rights to ask for; those that the server names where nothing is said."""
    grant: Literal["authorization_code", "client_credentials"] = "authorization_code"
    """``client_credentials``: forge acts as the client, without a person who logs in."""
    issuer: Annotated[str, Field(pattern="^https?://")] | None = None
    """The authorization server that the client belongs to; no other one gets its secret."""

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
    """A server that is started by a command, or reached under a URL."""

    command: Annotated[str, Field(min_length=1)] | None = None
    """The program that is the server."""
    args: list[str] = Field(default=[])
    """Its arguments."""
    env: dict[str, str] = Field(default_factory=dict)
    """Its environment, besides a clean one without your keys."""
    url: Annotated[str, Field(pattern="^https?://")] | None = None
    """In the place of a command: where it is reached."""
    headers: dict[str, str] = Field(default_factory=dict)
    """The headers of every request to the URL."""
    oauth: McpOauth | None = None
    """The client and the rights with which forge logs in there."""
    timeout: Seconds = 60.0
    """For one call."""
    connect_timeout: Seconds = 15.0
    """Seconds until it has to be connected, with its tools listed."""
    required: bool = False
    """Whether the worker does not start without it."""
    confined: bool = False
    """Whether its process is confined as the commands of the shell are."""
    sampling: bool | None = None
    """Whether it may have the worker's model answer; where nothing is said, what the toolset says holds."""
    elicitation: bool | None = None
    """Whether it may ask the person for input."""
    protocol: Literal["auto", "legacy"] = "auto"
    """``legacy``: the protocol before 2026-07-28, for a server that asks for something in the middle of a call."""
    believe_hints: bool = False
    """Whether a tool that it calls read-only counts as one; it asks as before."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise PydanticCustomError("server", "give either a command or a url")
        foreign = {"args", "env", "confined"} if self.url else {"headers", "oauth"}
        if wrong := sorted(foreign & self.model_fields_set):
            raise PydanticCustomError(
                "server", f"{wrong[0]} belongs to a {'command' if self.url else 'url'}"
            )
        return self

    @property
    def identity(self) -> str:
        """The key that a grant for its tools is bound to: where the server comes from."""
        return self.url or repr([self.command, *self.args])


def defined_in(servers: Any) -> dict[str, McpServer]:
    """The servers that the section of a worker defines, and not those that it only names or spells wrongly."""
    found: dict[str, McpServer] = {}
    for name, given in servers.items() if isinstance(servers, Mapping) else ():
        with suppress(ValueError, TypeError):  # reported where the worker is opened
            found[str(name)] = McpServer.model_validate(dict(given))
    return found


class McpServers(Config):
    """The section ``mcp`` of the user's settings."""

    servers: dict[ServerName, McpServer] = Field(default_factory=dict)
    """By name."""
    sampling: bool = True
    """False: no server of any worker has a model answer."""
    elicitation: bool = True
    """False: none asks you for input."""

    def within(self, server: McpServer) -> McpServer:
        """A server as far as the person lets any of them go."""
        closed = {name: False for name in ("sampling", "elicitation") if not getattr(self, name)}
        return server.model_copy(update=closed) if closed else server
