"""The last approved version: stored once for each change, read safely, and removed with its tool."""

from collections.abc import Callable
from pathlib import Path

import pytest

from forge_cli.testing import Project
from forge_cli.toolsets.executables.manage import Approved
from forge_cli.toolsets.executables.registry import Program, Registry

WriteTool = Callable[..., Path]


def look(project: Project, name: str = "greet") -> Program:
    found = Registry(project.home / "tools").look(name)
    assert found is not None
    return found


def test_tool_changed_after_judging_is_not_stored_as_approved(
    project: Project, write_tool: WriteTool
) -> None:
    approved = Approved(project.home)
    write_tool("greet", "echo one")
    judged = look(project)
    write_tool("greet", "echo two")
    approved.keep(judged)
    assert approved.last("greet") is None


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"a": 1}', b'{"a": {}}', b"\xff"])
def test_unreadable_file_counts_as_missing(
    project: Project, write_tool: WriteTool, content: bytes
) -> None:
    approved = Approved(project.home)
    write_tool("greet", "echo one")
    approved.keep(look(project))
    [file] = (project.home / "approved" / "greet").iterdir()
    file.write_bytes(content)
    assert approved.last("greet") is None
