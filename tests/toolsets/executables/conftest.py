"""Tools in a home of their own, and the Go toolchain, which must be there where the tests have to be complete."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from forge_cli.testing import Project

IN_CI = bool(os.environ.get("CI"))
WORKER = "name: w\ninstructions: Work.\ntoolsets:\n  executables: {options}\n"

WriteTool = Callable[..., Path]


@pytest.fixture
def go() -> str:
    found = shutil.which("go")
    if found is None and not IN_CI:
        pytest.skip("no Go toolchain; apt-get install golang-go")
    assert found, "no Go toolchain where everything has to be tested"
    return found


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
