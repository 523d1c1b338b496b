"""``forge guard``: install, remove, show and test the hooks of other tools."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from typing import Annotated

import typer

from forge_cli import load_worker
from forge_cli.errors import UsageError
from forge_guard import hook
from forge_guard.installing import TARGETS, Target, write_settings
from forge_guard.policy import default_policy, policy_file

app = typer.Typer(
    help="Put forge's gate before the calls of other coding tools.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

ToolArgument = Annotated[str, typer.Argument(metavar="|".join(TARGETS), help="The tool.")]
ProjectOption = Annotated[
    bool, typer.Option("--project", help="In the settings of this folder only.")
]
UserOption = Annotated[
    bool, typer.Option("--user", help="In your own settings, for every folder (the default).")
]


@app.command()
def install(
    tool: ToolArgument, *, project: ProjectOption = False, user: UserOption = False
) -> None:
    """Install the hook of a tool, and a policy if there is none; shows every change first."""
    target, file = _target(tool, project, user)
    before, policy = target.read(file), policy_file()
    if not policy.exists():
        _change(policy, "", default_policy(), policy.parent)
    load_worker(policy)  # raises an error for an invalid policy
    within = target.folder(project=project)
    if target.is_installed(before) or not _change(file, before, target.installed(before), within):
        typer.echo(f"{tool} asks forge already: {file}")
    if target.told:
        typer.echo(target.told)


@app.command()
def uninstall(
    tool: ToolArgument, *, project: ProjectOption = False, user: UserOption = False
) -> None:
    """Remove the hook of a tool; the policy stays."""
    target, file = _target(tool, project, user)
    before = target.read(file)
    if not _change(file, before, target.removed(before), target.folder(project=project)):
        typer.echo(f"{tool} does not ask forge: {file}")


@app.command()
def status(
    tool: Annotated[
        str | None, typer.Argument(metavar="|".join(TARGETS), help="Only this tool.")
    ] = None,
    *,
    project: Annotated[
        bool, typer.Option("--project", help="Only the settings of this folder.")
    ] = False,
    user: Annotated[bool, typer.Option("--user", help="Only your own settings.")] = False,
) -> None:
    """Show which tools ask forge, and by which policy."""
    policy = policy_file()
    missing = "" if policy.exists() else " (missing; forge guard install writes it)"
    typer.echo(f"policy    {policy}{missing}")
    for target in [_named(tool)] if tool else TARGETS.values():
        for place in ("user", "project"):
            if project != user and place != ("project" if project else "user"):
                continue
            file = target.file(project=place == "project")
            text = target.read(file)
            if target.is_installed(text):
                state = "asks"
            elif target.removed(text) != text:
                state = "outdated"
            else:
                state = "-"
            typer.echo(f"{target.tool:9} {place:8} {state:9} {file}")


@app.command()
def check(
    tool: Annotated[
        str, typer.Argument(metavar="|".join(TARGETS), help="The tool that asks.")
    ] = "claude",
) -> None:
    """Answer the JSON of a hook from standard input, in the format of the tool."""
    _named(tool)
    raise typer.Exit(hook.main(tool))


def _named(tool: str) -> Target:
    if tool not in TARGETS:
        raise UsageError(
            f"'{tool}' is not a supported tool", hint=f"supported: {', '.join(TARGETS)}"
        )
    return TARGETS[tool]


def _target(tool: str, project: bool, user: bool) -> tuple[Target, Path]:
    target = _named(tool)
    if project and user:
        raise UsageError("--project and --user are mutually exclusive")
    return target, target.file(project=project)


def _change(file: Path, before: str, after: str, within: Path) -> bool:
    """Show a change of a file and write it, after a confirmation on a terminal."""
    if before == after:
        return False
    names = f"{file} (now)", f"{file} (then)"
    typer.echo(
        "\n".join(
            difflib.unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="")
        )
    )
    if sys.stdin.isatty() and sys.stdout.isatty() and not typer.confirm("Write it?"):
        raise typer.Exit(1)
    write_settings(file, after, within)
    typer.echo(f"{'written to' if file.exists() else 'removed'} {file}")
    return True
