"""``forge tools build``: is the source of a tool sound, and if it has to be compiled, do it now."""

from __future__ import annotations

import sys

from forge_cli.cli.options import new_app
from forge_cli.cli.signals import in_loop
from forge_cli.cli.tools.programs import NameArgument, own_tools
from forge_cli.core.errors import ForgeError, ToolError
from forge_cli.core.text import visible

app = new_app()


@app.command()
def build(name: NameArgument) -> None:
    """Compile a tool, or read its script for errors.

    Go is compiled as on first use; a .sh or .py is read by its interpreter, not started.
    """
    tools = own_tools()
    program = tools.find(name)
    try:
        done = in_loop(tools.build, program)
    except ToolError as error:
        raise ForgeError(str(error), hint=f"the source is {program.entrypoint}") from None
    sys.stdout.write(visible(f"{name}: {done}") + "\n")
