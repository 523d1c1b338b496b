"""MCP servers that a working directory defines for all programs, and variables in definitions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from pathlib import Path

from msgspec import Struct

from forge_cli.core.errors import Mark, WorkerError
from forge_cli.files.mcp import McpServer, McpServers
from forge_cli.files.places import parse_json, whole_file
from forge_cli.files.regular import read_regular
from forge_cli.files.started import content_of_code
from forge_cli.files.trust import TrustError, TrustStore
from forge_cli.schema.config import parse_config

_SERVERS = "must be JSON with an object of servers under mcpServers"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

PROJECT_FILES = (".mcp.json", "mcp.json")
PROJECT_KEYS = ("command", "args", "env", "url", "headers")


class ProjectServers(Struct, frozen=True):
    """The servers in a file of the working directory."""

    file: Path
    content: bytes
    servers: Mapping[str, McpServer]

    def code(self, *names: str) -> dict[Path, bytes]:
        """Return the files of the repository that start these servers, by default all of them."""
        found: dict[Path, bytes] = {}
        for name in names or self.servers:
            server = self.servers[name]
            if server.command:
                found |= content_of_code(
                    [server.command, *server.args], self.file.parent, server.env
                )
        return found


def project_servers(folder: Path) -> list[ProjectServers]:
    """Return the servers of ``.mcp.json`` and ``mcp.json``; they need trust before use."""
    found: list[ProjectServers] = []
    for name in PROJECT_FILES:
        file = folder / name
        if file.is_file():
            found.append(_read_project(file))
    return found


def trusted_server(name: str, folder: Path, home: Path) -> McpServer | None:
    """Return a trusted server of a folder; raise TrustError if it is not trusted."""
    for project in project_servers(folder):
        if name in project.servers:
            store = TrustStore(home)
            remedy = f"read it, then: forge trust {project.file.name}"
            if not store.holds_file(project.file, project.content):
                raise TrustError(
                    f"{project.file} comes with this folder and is not trusted", hint=remedy
                )
            # Trust in the definition does not cover the code that it starts.
            for path in store.differing(project.code(name)):
                problem = (
                    f"{path} is not trusted in its current state, and starts MCP server {name}"
                )
                raise TrustError(problem, hint=remedy)
            return project.servers[name]
    return None


def _read_project(file: Path) -> ProjectServers:
    """Read a file of servers, without the keys of other programs."""
    content = read_regular(file)
    found = parse_json(content, Mark(str(file)), _SERVERS)
    try:
        given: dict[str, dict[str, object]] = {}
        for name, each in found["mcpServers"].items():
            given[name] = {key: each[key] for key in PROJECT_KEYS if key in each}
    except (LookupError, TypeError, AttributeError):
        raise whole_file(file, _SERVERS) from None
    return ProjectServers(
        file, content, parse_config(McpServers, {"servers": given}, file=str(file)).servers
    )


def variables_in(*values: str) -> list[str]:
    """Return the names of variables in the values, each once."""
    return list(dict.fromkeys(chain.from_iterable(map(_VARIABLE.findall, values))))


def expand_variables(
    values: Mapping[str, str], environ: Mapping[str, str], where: Callable[[str], Mark | None]
) -> dict[str, str]:
    """Return the values with ``${VAR}`` replaced; raise WorkerError for an unset variable."""

    def replace(name: str, match: re.Match[str]) -> str:
        if match[1] not in environ:
            problem = f"${{{match[1]}}}: this variable is not set"
            raise WorkerError(where(name), problem, hint=f"set {match[1]}")
        return environ[match[1]]

    return {name: _VARIABLE.sub(partial(replace, name), text) for name, text in values.items()}
