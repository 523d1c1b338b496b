"""``forge guard``: install, remove, show and test the hooks of other tools."""

from __future__ import annotations

import difflib
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from forge_cli import ForgeError, load_worker
from forge_cli.errors import UsageError
from forge_guard import hook
from forge_guard.answers import ASKING, REWRITING
from forge_guard.confined import run_confined
from forge_guard.installing import TARGETS, Target, write_settings
from forge_guard.policy import DEFAULT_ANSWER, PRESETS, UNASKED, policy_file, preset_of
from forge_guard.probe import Probed, probe

app = typer.Typer(
    help="Put forge's gate before the calls of other coding tools.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

ToolArgument = Annotated[str, typer.Argument(metavar="|".join(TARGETS), help="The tool.")]
PresetOption = Annotated[
    str | None,
    typer.Option("--preset", metavar="|".join(PRESETS), help="The policy to write."),
]
NoProbeOption = Annotated[
    bool, typer.Option("--no-probe", help="Do not run the tool to see whether its hook runs.")
]
ProjectOption = Annotated[
    bool, typer.Option("--project", help="In the settings of this folder only.")
]
UserOption = Annotated[
    bool, typer.Option("--user", help="In your own settings, for every folder (the default).")
]


@app.command()
def install(
    tool: ToolArgument,
    *,
    preset: PresetOption = None,
    no_probe: NoProbeOption = False,
    project: ProjectOption = False,
    user: UserOption = False,
) -> None:
    """Install the hook of a tool, and a policy if there is none; shows every change first."""
    target, file = _target(tool, project, user)
    before, policy = target.read(file), policy_file()
    _write_policy(policy, tool, preset)
    load_worker(policy)  # raises an error for an invalid policy
    within = target.folder(project=project)
    if target.is_installed(before) or not _change(file, before, target.installed(before), within):
        typer.echo(f"{tool} asks forge already: {file}")
    if target.told:
        typer.echo(target.told)
    if shutil.which(tool) and not no_probe:
        _show(probe(tool, file, target.read(file), _tell))


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
    no_probe: NoProbeOption = False,
) -> None:
    """Show which tools ask forge, by which policy, and whether their hooks are in force.

    Exit code 1 if a hook is installed, but not in force.
    """
    policy = policy_file()
    if policy.exists():
        name = preset_of(policy.read_text(encoding="utf-8", errors="replace"))
        about = f" ({name})" if name else ""
    else:
        about = " (missing; forge guard install writes it)"
    typer.echo(f"policy    {policy}{about}")
    in_force = True
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
            row = f"{target.tool:9} {place:8} {state:9} {file}"
            found: list[Probed] = []
            if state == "asks" and not no_probe:
                found = probe(target.tool, file, text, _tell)
            if found and found[0].state == "unknown" and shutil.which(target.tool) is None:
                row += f" ({found.pop(0).why})"
            typer.echo(row)
            _show(found)
            in_force = in_force and all(each.state != "not in force" for each in found)
    if not in_force:
        raise typer.Exit(1)


@app.command()
def run(
    line: Annotated[str, typer.Argument(metavar="LINE", help="A command line for bash.")],
    *,
    directory: Annotated[
        Path | None,
        typer.Option("-C", "--cd", metavar="DIR", help="The folder of the project."),
    ] = None,
) -> None:
    """Run a command line in the zones of the policy, without network."""
    if not policy_file().exists():
        raise ForgeError(f"{policy_file()} does not exist", hint="run: forge guard install TOOL")
    raise typer.Exit(run_confined(line, directory or Path.cwd()))


@app.command()
def check(
    tool: Annotated[
        str, typer.Argument(metavar="|".join(TARGETS), help="The tool that asks.")
    ] = "claude",
) -> None:
    """Answer the JSON of a hook from standard input, in the format of the tool."""
    _named(tool)
    raise typer.Exit(hook.main(tool))


def _tell(sentence: str) -> None:
    typer.echo(sentence, err=True)


def _show(found: list[Probed]) -> None:
    for each in found:
        typer.echo(f"          {each.mode}: {each.text}")


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


def _write_policy(file: Path, tool: str, preset: str | None) -> None:
    """Write the policy if there is none, or if it is an unchanged preset and another is wanted."""
    if preset is not None and preset not in PRESETS:
        raise UsageError(f"'{preset}' is not a preset", hint=f"presets: {', '.join(PRESETS)}")
    before = ""
    if file.exists():
        before = file.read_text(encoding="utf-8", errors="replace")
        if preset is None:
            return
        if preset_of(before) is None:
            raise ForgeError(
                f"{file} is not an unchanged preset, so --preset does not replace it",
                hint="edit it, or move it away and run the command again",
            )
    chosen = preset or _asked_preset()
    _change(file, before, PRESETS[chosen].text, file.parent)
    if preset is None and not _is_terminal():
        typer.echo(f"preset {chosen}: {PRESETS[chosen].means}; --preset chooses another")
    if chosen == "careful" and tool not in ASKING:
        typer.echo(f"{tool} cannot ask, so it may change no file; --preset tests lets it")
    if chosen == "confined" and tool not in REWRITING:
        typer.echo(f"{tool} cannot run a line confined, so tests and linters are refused there")


def _asked_preset() -> str:
    """Return the preset that the person chooses; the careful one if nobody can be asked."""
    if not _is_terminal():
        return UNASKED
    typer.echo(
        "May it run the project's tests and linters? They run code that the tool can write,\n"
        "and can change files without asking."
    )
    for name, preset in PRESETS.items():
        typer.echo(f"  {name:9} {preset.means}")
    while True:
        said = typer.prompt("tests, confined or careful", default=DEFAULT_ANSWER).strip().lower()
        if said in ("y", "yes"):
            return DEFAULT_ANSWER
        if said in PRESETS:
            return str(said)
        typer.echo(f"'{said}' is not one of {', '.join(PRESETS)}")


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


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
    if _is_terminal() and not typer.confirm("Write it?"):
        raise typer.Exit(1)
    write_settings(file, after, within)
    typer.echo(f"{'written to' if file.exists() else 'removed'} {file}")
    return True
