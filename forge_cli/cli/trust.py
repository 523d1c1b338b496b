"""``forge trust``: the person agrees to what a folder brings and forge would otherwise not use."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.table import print_json
from forge_cli.core.errors import UsageError
from forge_cli.core.text import visible
from forge_cli.files.home import forge_home
from forge_cli.files.lookup import WorkerOrigin, named_workers
from forge_cli.files.mcp_project import PROJECT_FILES, ProjectServers, project_servers
from forge_cli.files.project import hook_files, read_project
from forge_cli.files.repository import NAMES as GUIDANCE
from forge_cli.files.repository import guidance_files
from forge_cli.files.settings import project_file
from forge_cli.files.trust import TrustStore, file_digests

app = new_app()


@app.command()
def trust(
    path: Annotated[
        Path | None,
        typer.Argument(metavar="PATH", help="A folder, or one file; by default the working directory."),
    ] = None,
    list_all: Annotated[bool, typer.Option("--list", help="Print everything that is trusted.")] = False,
    as_json: JsonOption = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Take it back for PATH and what lies below.")] = False,
) -> None:
    """Trust the workers, settings, skills and more of a folder.

    Each is trusted as it is now: read it first. One that changes has to be trusted anew.
    """
    store, place = TrustStore(forge_home()), Path(os.path.abspath(path or "."))
    if as_json and not list_all:
        raise UsageError("--json goes with --list", hint="forge trust --list --json")
    if as_json:
        print_json([{"path": path} for path in store.trusted()])
        return
    if list_all:
        lines = store.trusted()
    elif revoke:
        lines = [f"no longer trusted: {gone}" for gone in store.revoke(place)]
    else:
        found = list(_find_all(store, place))  # what is wrong with one of them is told before any is trusted
        for add, _ in found:
            add()
        lines = [f"trusted: {title}" for _, title in found]
        if not lines:
            known = (".forge/workers", ".forge/skills", ".forge/config.yaml", *GUIDANCE, *PROJECT_FILES)
            hint = f"it could bring {', '.join(known[:-1])} or {known[-1]}"
            raise UsageError(f"{place}: there is nothing that needs trust", hint=hint)
    sys.stdout.writelines(f"{visible(line)}\n" for line in lines)


def _find_all(store: TrustStore, place: Path) -> Iterator[tuple[Callable[[], None], str]]:
    """Everything in a place that needs trust: how to trust it, and what it is."""
    folder = place if place.is_dir() else place.parent
    for servers in project_servers(folder):
        if place in (folder, servers.file):
            yield (
                partial(store.add_file, servers.file, servers.content),
                f"{servers.file} (MCP servers: {_names(servers)})",
            )
    for guidance in guidance_files(folder) if _root(folder) == folder else ():
        if place in (folder, guidance) and guidance.is_file():
            yield partial(store.add_file, guidance), f"{guidance} (guidance)"
    for skill in _skills(_root(folder)):
        if skill.is_relative_to(place):
            yield partial(store.add_folder, skill), f"{skill} (skill)"
    settings = project_file(_root(folder))
    if settings.is_file() and settings.is_relative_to(place):
        hooks = hook_files(read_project(settings), _root(folder))
        yield partial(store.add_file, settings), f"{settings} (settings)"
        yield from ((partial(store.add_file, program), f"{program} (hook)") for program in hooks)
    for worker in named_workers(_root(folder), forge_home()):
        if worker.origin is WorkerOrigin.PROJECT and Path(os.path.abspath(worker.path)).is_relative_to(place):
            yield partial(store.add, worker, file_digests(worker)), f"{worker.path} (worker)"


def _skills(folder: Path) -> list[Path]:
    around = [folder / name / "skills" for name in (".forge", ".claude")]
    return [file.parent for place in around for file in sorted(place.glob("*/SKILL.md"))]


def _names(servers: ProjectServers) -> str:
    return ", ".join(servers.servers) or "none"


def _root(folder: Path) -> Path:
    """The folder whose .forge/workers a path may lie in."""
    return next((above.parent for above in (folder, *folder.parents) if above.name == ".forge"), folder)
