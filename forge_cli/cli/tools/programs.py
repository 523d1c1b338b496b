"""Which tool in ``~/.forge/tools`` a command is about; a name that somebody typed is never taken for a path."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from forge_cli.core.errors import UsageError, WorkerError
from forge_cli.core.text import did_you_mean
from forge_cli.files.home import forge_home
from forge_cli.sandbox.names import shown
from forge_cli.toolsets.executables.registry import Program, Registry

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The tool, in ~/.forge/tools.")]


def tools_root() -> Path:
    return forge_home() / "tools"


def folder_names() -> list[str]:
    """Every folder, and every link that may lead to one, whether or not it is a sound tool."""
    try:
        with os.scandir(tools_root()) as entries:
            return sorted(each.name for each in entries if each.name[0] != "." and (each.is_dir() or each.is_symlink()))
    except (FileNotFoundError, NotADirectoryError):
        return []


def folder_of(name: str) -> Path:
    """The folder of a tool, which may be broken; one that is not there is an error with the nearest name."""
    known = folder_names()
    if name not in known:
        raise unknown_program(name, known)
    return tools_root() / name


def unknown_program(name: str, known: list[str]) -> UsageError:
    hint = did_you_mean(name, known, None if known else "forge tools new NAME makes one")
    return UsageError(f"there is no tool {shown(name)} in {tools_root()}", hint=hint)


def problem_of(name: str) -> str | None:
    """What is wrong with a folder of that name; None where there is no such folder, or nothing is."""
    registry = Registry(tools_root())
    return registry.problems.get(name) if name in folder_names() and registry.look(name) is None else None


def program_of(name: str) -> Program:
    """A sound tool; what is wrong with one that is not, is an error with its place."""
    registry = Registry(folder_of(name).parent)
    found = registry.look(name)
    if found is None:
        raise WorkerError(None, registry.problems[name])
    return found
