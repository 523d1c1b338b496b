"""The server that a command line names, where it is reached under a URL."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from forge_cli.cli.find_worker import find_trusted_worker
from forge_cli.core.errors import UsageError
from forge_cli.core.text import did_you_mean, visible
from forge_cli.files.home import forge_home
from forge_cli.files.mcp_project import trusted_server
from forge_cli.files.settings import load_settings
from forge_cli.files.worker import load_worker
from forge_cli.inspection.named_servers import named_servers

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A server that is reached under a URL.")]
ServerWorkerOption = Annotated[
    str | None, typer.Option("--worker", metavar="WORKER", help="The worker that defines it, if your config does not.")
]


def find_url(name: str, worker: str | None) -> str:
    """The address of an HTTP server, of a worker or of the user; a server started by a command has no login."""
    named = named_servers(load_worker(find_trusted_worker(worker, interactive=False))) if worker else {name: None}
    own = load_settings(forge_home()).mcp.servers
    server = named.get(name) or (name in named and own.get(name)) or None
    if server is None and name in named:
        server = trusted_server(name, Path.cwd(), forge_home())
    if server is None:
        known = list(named if worker else own)
        hint = did_you_mean(name, known, "forge mcp add defines one, and --worker names a worker that has it")
        raise UsageError(f"there is no MCP server '{visible(name)}'", hint=hint)
    if server.url is None:
        raise UsageError(f"the MCP server {name} is started by a command, so it has no login")
    return server.url
