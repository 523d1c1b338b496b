"""MCP servers as people define them: in a worker, or in the user's own settings for every worker that names them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from forge_cli.core.config import Config, parse_config
from forge_cli.core.errors import Mark, WorkerError
from forge_cli.files.places import parse_json, whole_file
from forge_cli.files.regular import read_regular

SERVER_NAME = r"^[a-zA-Z0-9][a-zA-Z0-9_-]{0,31}$"
_SERVERS = "it has to be JSON, with an object of servers under mcpServers"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

PROJECT_FILES = (".mcp.json", "mcp.json")
PROJECT_KEYS = ("command", "args", "env", "url", "headers")

ServerName = Annotated[str, Field(pattern=SERVER_NAME)]
Seconds = Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)]


class McpServer(Config):
    """A server that is started by a command, or reached under a URL."""

    command: str | None = None
    """The program that is the server."""
    args: list[str] = Field(default=[])
    """Its arguments."""
    env: dict[str, str] = Field(default_factory=dict)
    """Its environment, besides a clean one without your keys."""
    url: Annotated[str, Field(pattern="^https?://")] | None = None
    """In the place of a command: where it is reached."""
    headers: dict[str, str] = Field(default_factory=dict)
    """What every request to the URL carries."""
    timeout: Seconds = 60.0
    """For one call."""
    connect_timeout: Seconds = 15.0
    """Seconds until it has to be connected, with its tools listed."""
    confined: bool = False
    """Whether its process is confined as the commands of the shell are."""
    sampling: bool | None = None
    """Whether it may have the worker's model answer; where nothing is said, what the toolset says holds."""
    elicitation: bool | None = None
    """Whether it may ask the person for input."""
    believe_hints: bool = False
    """Whether a tool that it calls read-only counts as one; it asks as before."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise PydanticCustomError("server", "give either a command or a url")
        foreign = {"args", "env", "confined"} if self.url else {"headers"}
        if wrong := sorted(foreign & self.model_fields_set):
            raise PydanticCustomError("server", f"{wrong[0]} belongs to a {'command' if self.url else 'url'}")
        return self

    @property
    def identity(self) -> str:
        """What a grant for its tools is bound to: where the server comes from."""
        return self.url or repr([self.command, *self.args])


class McpServers(Config):
    """The section ``mcp`` of the user's settings."""

    servers: dict[ServerName, McpServer] = Field(default_factory=dict)
    """By name."""


@dataclass(frozen=True)
class ProjectServers:
    """The servers that a file of the working directory defines, for whatever reads such files."""

    file: Path
    content: bytes
    servers: Mapping[str, McpServer]


def project_servers(folder: Path) -> list[ProjectServers]:
    """Those of ``.mcp.json`` and ``mcp.json``; nothing of them is to be used before the person trusts the file."""
    found: list[ProjectServers] = []
    for name in PROJECT_FILES:
        file = folder / name
        if file.is_file():
            found.append(_read_project(file))
    return found


def _read_project(file: Path) -> ProjectServers:
    """Keys that other programs have there are theirs."""
    content = read_regular(file)
    found = parse_json(content, Mark(str(file)), _SERVERS)
    try:
        defined = found["mcpServers"]
        given = {name: {key: each[key] for key in PROJECT_KEYS if key in each} for name, each in defined.items()}
    except (LookupError, TypeError, AttributeError):
        raise whole_file(file, _SERVERS) from None
    return ProjectServers(file, content, parse_config(McpServers, {"servers": given}, file=str(file)).servers)


def variables_in(*values: str) -> list[str]:
    """The names of the variables that `expand` would read, each once."""
    return list(dict.fromkeys(name for value in values for name in _VARIABLE.findall(value)))


def expand(
    values: Mapping[str, str], environ: Mapping[str, str], where: Callable[[str], Mark | None]
) -> dict[str, str]:
    """The values with ``${VAR}`` replaced from the environment; a variable that is not set is an error."""

    def replace(name: str, match: re.Match[str]) -> str:
        if match[1] not in environ:
            problem = f"${{{match[1]}}}: the environment has no such variable"
            raise WorkerError(where(name), problem, hint=f"set {match[1]}")
        return environ[match[1]]

    return {name: _VARIABLE.sub(partial(replace, name), text) for name, text in values.items()}
