"""``forge tools new|build|diff|remove``: the user's executables, in ``~/.forge/tools``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import RenderableType

from forge_cli.cli.notices import warn
from forge_cli.cli.options import new_app
from forge_cli.core.errors import ForgeError, ToolError, UsageError
from forge_cli.core.results import Diff
from forge_cli.core.text import visible
from forge_cli.files.home import forge_home
from forge_cli.files.settings import organisation_policy
from forge_cli.process.signals import in_loop
from forge_cli.toolsets.executables.manage import ExecutableManager, File
from forge_cli.toolsets.executables.manifest import FILE
from forge_cli.toolsets.executables.scaffold import Scaffold
from forge_cli.ui.terminal.console import new_console
from forge_cli.ui.terminal.render import plain, render

app = new_app()

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The tool, in ~/.forge/tools.")]


@app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is called: a-z, 0-9, '_' and '-'.")],
    lang: Annotated[
        Literal["go", "sh", "py"] | None,
        typer.Option("--lang", help="Its language; Go where that is installed, else Python."),
    ] = None,
    description: Annotated[
        str | None, typer.Option("-d", metavar="TEXT", help="What it is for, in one sentence.")
    ] = None,
) -> None:
    """Make a new tool in ~/.forge/tools.

    A tool.yaml and a source that builds and works at once. What is there is never changed.
    """
    tools = _allowed_tools()
    try:
        planned = tools.plan(name, description, lang)
    except ToolError as error:
        raise UsageError(str(error)) from None
    try:
        folder = tools.make(planned)
    except ToolError as error:
        raise ForgeError(str(error), hint="make room, or a folder that you can write to; FORGE_HOME names it") from None
    if planned.warning:
        warn(planned.warning.removeprefix("WARNING: "))
    sys.stdout.write(visible(_next_steps(planned, folder), keep="\n") + "\n")


def _allowed_tools() -> ExecutableManager:
    """The user's executables, where the organisation lets them be used."""
    if policy := organisation_policy():
        policy.check_executables()
    return ExecutableManager(forge_home())


def _next_steps(made: Scaffold, folder: Path) -> str:
    name = made.name
    width = max(map(len, made.files))
    return f"""Made {folder}, which works already:
  {made.source:<{width}}  what it does: arguments come as --name=value, the result goes to stdout
  {FILE:<{width}}  what the model reads of it: description, usage, parameters, examples
Next:
  forge tools call {name} -y   call it
  forge tools build {name}     look for errors, after a change
  forge tools test {name}      run its examples, and check what every tool has to keep to
Workers that name 'executables' under toolsets have it from now on; each call asks first."""


@app.command()
def build(name: NameArgument) -> None:
    """Compile a tool, or read its script for errors.

    Go is compiled as on first use; a .sh or .py is read by its interpreter, not started.
    """
    tools = _allowed_tools()
    program = tools.find(name)
    try:
        done = in_loop(tools.build, program)
    except ToolError as error:
        raise ForgeError(str(error), hint=f"the source is {program.entrypoint}") from None
    sys.stdout.write(visible(f"{name}: {done}") + "\n")


@app.command()
def remove(name: NameArgument) -> None:
    """Delete a tool, without asking.

    A link is deleted, and not what it leads to.
    """
    tools = ExecutableManager(forge_home())
    linked = tools.remove(name)
    sys.stdout.write(visible(f"{'removed the link' if linked else 'removed'} {tools.root / name}") + "\n")


@app.command()
def diff(name: NameArgument) -> None:
    """Show what changed since a tool was last approved.

    Compared with its files as they were when a call of it was last let through.
    """
    found = ExecutableManager(forge_home()).changes(name)
    console = new_console(sys.stdout)
    if found is None:
        console.print(plain(f"{name}: never approved; no call of it has been let through yet"))
        return
    since = f"{found.since:%Y-%m-%d %H:%M}, when a call of it was last let through"
    console.print(plain(f"{name}: {'changed' if found.files else 'nothing changed'} since {since}"))
    for change in found.files:
        for line in _lines(f"{name}/{change.path}", change.before, change.after):
            console.print(line)


def _lines(path: str, old: File | None, new: File | None) -> Iterator[RenderableType]:
    if old and new and old.executable != new.executable:
        yield plain(f"{path} {'can' if new.executable else 'cannot'} be executed now")
    if old and new and old.hash == new.hash:
        return
    if new is None:
        yield plain(f"{path} was deleted")
    if (old is None or old.text is not None) and (new is None or new.text is not None):
        yield render(Diff.of(path, old.text if old else None, (new.text if new else None) or ""), lines=None)
    else:
        yield plain(f"{path} differs, and is not text or too long: {_sized(old)}, now {_sized(new)}")


def _sized(file: File | None) -> str:
    return "no file" if file is None else f"{file.size} bytes (sha256 {file.hash[:16]})"
