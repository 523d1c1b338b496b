"""``forge tools remove``: a tool and what was approved of it, gone."""

from __future__ import annotations

import sys

from forge_cli.cli.options import new_app
from forge_cli.cli.tools.programs import NameArgument, own_tools
from forge_cli.core.text import visible

app = new_app()


@app.command()
def remove(name: NameArgument) -> None:
    """Delete a tool, without asking.

    A link is deleted, and not what it leads to.
    """
    tools = own_tools()
    linked = tools.remove(name)
    sys.stdout.write(visible(f"{'removed the link' if linked else 'removed'} {tools.root / name}") + "\n")
