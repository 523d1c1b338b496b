"""``forge tools build``: is the source of a tool sound, and if it has to be compiled, do it now."""

from __future__ import annotations

import sys

from forge_cli.cli.options import new_app
from forge_cli.cli.signals import in_loop
from forge_cli.cli.tools.programs import NameArgument, program_of
from forge_cli.core.errors import ForgeError, ToolError
from forge_cli.core.text import visible
from forge_cli.files.home import forge_home
from forge_cli.toolsets.executables import build as making

app = new_app()


@app.command()
def build(name: NameArgument) -> None:
    """Compile a tool, or read its script for errors.

    Go is compiled as on first use; a .sh or .py is read by its interpreter, not started.
    """
    program = program_of(name)
    try:
        done = in_loop(making.build, program, forge_home())
    except ToolError as error:
        raise ForgeError(str(error), hint=f"the source is {program.entrypoint}") from None
    sys.stdout.write(visible(f"{name}: {done}") + "\n")
