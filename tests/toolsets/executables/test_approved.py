"""What was last approved: kept once a change, read again whatever happened to it, and gone with its tool."""

from collections.abc import Callable
from pathlib import Path

from forge_cli.testing import Project
from forge_cli.toolsets.executables.manage import Approved
from forge_cli.toolsets.executables.registry import Program, Registry

WriteTool = Callable[..., Path]


def look(project: Project, name: str = "greet") -> Program:
    found = Registry(project.home / "tools").look(name)
    assert found is not None
    return found


def test_what_changed_after_it_was_judged_is_not_kept(project: Project, write_tool: WriteTool) -> None:
    approved = Approved(project.home)
    write_tool("greet", "echo one")
    judged = look(project)
    write_tool("greet", "echo two")
    approved.keep(judged)
    assert approved.last("greet") is None
