"""``forge tools new|build|remove``: the user's executables in ``~/.forge/tools``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from forge_cli.cli.notices import warn
from forge_cli.cli.options import new_app
from forge_cli.cli.tools.choose import NameArgument, allowed_tools
from forge_cli.core.errors import ForgeError, ToolError, UsageError
from forge_cli.core.text import visible
from forge_cli.files.home import forge_home
from forge_cli.process.signals import in_loop
from forge_cli.toolsets.executables.manage import ExecutableManager
from forge_cli.toolsets.executables.manifest import FILE
from forge_cli.toolsets.executables.scaffold import Scaffold

app = new_app()


@app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name: a-z, 0-9, '_' and '-'.")],
    lang: Annotated[
        Literal["go", "sh", "py"] | None,
        typer.Option("--lang", help="The language. Default: Go if it is installed, else Python."),
    ] = None,
    description: Annotated[
        str | None,
        typer.Option("-d", metavar="TEXT", help="What the tool is for, in one sentence."),
    ] = None,
) -> None:
    """Create a tool in ~/.forge/tools.

    The new tool.yaml and source work at once. Nothing is overwritten.
    """
    tools = allowed_tools()
    try:
        planned = tools.plan(name, description, lang)
    except ToolError as error:
        raise UsageError(str(error)) from None
    try:
        folder = tools.make(planned)
    except ToolError as error:
        raise ForgeError(
            str(error), hint="make room, or a folder that you can write to; FORGE_HOME names it"
        ) from None
    if planned.warning:
        warn(planned.warning.removeprefix("WARNING: "))
    sys.stdout.write(visible(_next_steps(planned, folder), keep="\n") + "\n")


def _next_steps(made: Scaffold, folder: Path) -> str:
    name = made.name
    width = max(map(len, made.files))
    return f"""Made {folder}, which works already:
  {made.source:<{width}}  what it does: arguments come as --name=value, the result goes to stdout
  {FILE:<{width}}  what the model reads of it: description, usage, parameters, examples
Next:
  forge tools call {name} -y   call it
  forge tools build {name}     check it for errors, after a change
  forge tools test {name}      run its examples, and check what every tool has to keep to
Workers that name 'executables' under toolsets have it from now on; each call asks first."""


@app.command()
def build(name: NameArgument) -> None:
    """Compile a tool, or check its script for errors.

    Go is compiled as on first use; .sh and .py files are checked by their interpreter, but not run.
    """
    tools = allowed_tools()
    program = tools.find(name)
    try:
        done = in_loop(tools.build, program)
    except ToolError as error:
        raise ForgeError(str(error), hint=f"the source is {program.entrypoint}") from None
    sys.stdout.write(visible(f"{name}: {done}") + "\n")


@app.command()
def remove(name: NameArgument) -> None:
    """Delete a tool, without asking.

    If it is a link, only the link is deleted.
    """
    tools = ExecutableManager(forge_home())
    linked = tools.remove(name)
    done = "removed the link" if linked else "removed"
    sys.stdout.write(visible(f"{done} {tools.root / name}") + "\n")
