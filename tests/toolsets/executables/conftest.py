"""Tools in a home of their own, and the Go toolchain."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from forge_cli.testing import Project

WORKER = "name: w\ninstructions: Work.\ntoolsets:\n  executables: {options}\n"

WriteTool = Callable[..., Path]


@pytest.fixture
def go(need: Callable[[str], None]) -> str:
    need("go")
    return shutil.which("go") or ""


@pytest.fixture
def worker(project: Project) -> Project:
    """A project whose worker has the toolset, and lets its tools be called without asking."""
    project.write("worker.yaml", WORKER.format(options="{approval: {default: preApproved}}"))
    return project


@pytest.fixture
def write_tool(project: Project) -> WriteTool:
    """Write a tool into the project's home: its source, and the lines of its tool.yaml after the first ones."""

    def write(name: str, source: str, *lines: str, suffix: str = ".sh", mode: int = 0o644) -> Path:
        folder = project.home / "tools" / name
        folder.mkdir(parents=True, exist_ok=True)
        entry = folder / f"{name}{suffix}"
        entry.write_text(source)
        entry.chmod(mode)
        head = [f"name: {name}", f"description: Does {name}", f"entrypoint: {entry.name}"]
        (folder / "tool.yaml").write_text("\n".join([*head, *lines]) + "\n")
        return folder

    return write
