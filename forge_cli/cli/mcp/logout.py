"""``forge mcp logout``: what a login gave is forgotten."""

from __future__ import annotations

import sys

from forge_cli.cli.mcp.servers import NameArgument, ServerWorkerOption, find_url
from forge_cli.cli.options import new_app
from forge_cli.core.text import visible
from forge_cli.files.home import forge_home
from forge_cli.files.mcp_tokens import McpTokens

app = new_app()


@app.command()
def logout(name: NameArgument, worker: ServerWorkerOption = None) -> None:
    """Forget the login to an MCP server, without asking."""
    known = McpTokens(forge_home()).put(find_url(name, worker), None)
    sys.stdout.write(visible(f"logged out of {name}" if known else f"nobody was logged in to {name}") + "\n")
