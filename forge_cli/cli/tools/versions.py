"""``forge tools diff|restore``: changes of an executable, and its earlier versions."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer
from rich.console import RenderableType

from forge_cli.cli.options import new_app
from forge_cli.cli.tools.choose import NameArgument, allowed_tools
from forge_cli.core.results import Diff
from forge_cli.core.text import visible
from forge_cli.files.home import forge_home
from forge_cli.toolsets.executables.manage import ExecutableManager, File, FileChange
from forge_cli.toolsets.executables.versions import SHORT, Version
from forge_cli.ui.table import print_table
from forge_cli.ui.terminal.console import new_console
from forge_cli.ui.terminal.render import plain, render

app = new_app()

VersionArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="VERSION", help="A version that restore --list shows: its hash, or its number."
    ),
]


@app.command()
def diff(name: NameArgument, version: VersionArgument = None) -> None:
    """Show what changed since a tool was last approved, or since another version.

    The tool is compared with its files when a call was last approved; if nothing has changed since
    then, with the previous version.
    """
    tools = ExecutableManager(forge_home())
    if version is not None:
        _print_against(tools, name, tools.version(name, version))
        return
    found = tools.changes(name)
    console = new_console(sys.stdout)
    if found is None:
        console.print(plain(f"{name}: never approved: no call has been approved yet"))
    else:
        since = f"{found.since:%Y-%m-%d %H:%M}, when a call was last approved"
        verdict = "changed" if found.files else "nothing changed"
        console.print(plain(f"{name}: {verdict} since {since}"))
        _print_changes(name, found.files)
    if (found is None or not found.files) and (others := tools.versions(name)):
        _print_against(tools, name, others[0])


def _print_against(tools: ExecutableManager, name: str, version: Version) -> None:
    changes = tools.changes_since(name, version)
    new_console(sys.stdout).print(plain(f"{name}: against the version {_title(version)}"))
    _print_changes(name, changes)


def _title(version: Version) -> str:
    return f"{version.short}, which forge last saw {version.at:%Y-%m-%d %H:%M}"


@app.command()
def restore(
    name: NameArgument,
    version: VersionArgument = None,
    listed: Annotated[bool, typer.Option("--list", help="Only list the stored versions.")] = False,
) -> None:
    """Restore an earlier version of a tool.

    Without VERSION, restores the previous one. The changes are shown, and the current files are
    kept as a version. The restored tool asks for approval like any new content.
    """
    if listed:
        _print_versions(ExecutableManager(forge_home()), name)
        return
    tools = allowed_tools()
    wanted = tools.version(name, version)
    # the other way round: from the current files to the restored ones
    changes = [
        FileChange(each.path, each.after, each.before) for each in tools.changes_since(name, wanted)
    ]
    before = tools.restore(name, wanted)
    _print_changes(name, changes)
    told = f"{name}: restored version {_title(wanted)}; its calls ask for approval again"
    if before is not None:
        told += f"\nforge tools restore {name} {before[:SHORT]} reverts this"
    sys.stdout.write(visible(told, keep="\n") + "\n")


def _print_versions(tools: ExecutableManager, name: str) -> None:
    rows = [
        {"version": each.short, "seen": f"{each.at:%Y-%m-%d %H:%M}", "tool.yaml": each.declared()}
        for each in tools.versions(name)
    ]
    if rows:
        print_table(["version", "seen", "tool.yaml"], rows)
    else:
        sys.stderr.write(visible(f"there is no other version of {name}") + "\n")


def _print_changes(name: str, changes: Sequence[FileChange]) -> None:
    console = new_console(sys.stdout)
    for change in changes:
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
        before = old.text if old else None
        after = new.text if new else None
        yield render(Diff.of(path, before, after or ""), lines=None)
    else:
        yield plain(
            f"{path} differs, and is not text or too long: {_sized(old)}, now {_sized(new)}"
        )


def _sized(file: File | None) -> str:
    if file is None:
        return "no file"
    return f"{file.size} bytes (sha256 {file.hash[:16]})"
