"""Contexts for checks and previews of a call: they can read files, and never change any.

Covers forge_cli.engine.gate.contexts and forge_cli.sandbox.files.sandbox.
"""

import pytest

from forge_cli.core.events import ToolResult
from forge_cli.testing import Project, call, calls

WORKER = """
name: w
sandbox: {zones: [{name: z, path: ./z, mode: rw, approval: {write: preApproved, delete: preApproved}}]}
toolsets: {custom: {module: ./tools.py, tools: [act]}}
"""
CHANGES = {
    "write": "write_bytes('/z/made', b'x')",
    "over": "write_bytes('/z/kept', b'x')",
    "delete": "delete('/z/kept')",
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("where", ["needs_approval", "preview"])
def test_check_or_preview_of_a_call_cannot_change_files(
    project: Project, where: str, change: str
) -> None:
    project.write("worker.yaml", WORKER)
    project.write("z/kept", "kept")
    look = f"def look(args, context):\n    context.sandbox.{CHANGES[change]}\n    return True\n"
    project.write(
        "tools.py",
        f"from forge_cli import tool\n\n{look}\n"
        f"@tool(needs_approval={'look' if where == 'needs_approval' else 'True'}"
        f"{', preview=look' if where == 'preview' else ''})\n"
        "def act() -> str:\n    'Act.'\n    return 'acted'\n",
    )
    seen = project.run(calls(call("act")), "done", answers=[False, False])
    (result,) = seen.of(ToolResult)
    assert result.status != "success"
    assert sorted(path.name for path in (project.folder / "z").iterdir()) == ["kept"]
    assert project.read("z/kept") == "kept"


def test_check_can_read_files(project: Project) -> None:
    project.write("worker.yaml", WORKER)
    project.write("z/kept", "kept")
    look = "def look(args, context):\n    return context.sandbox.read_bytes('/z/kept') != b'kept'\n"
    project.write(
        "tools.py",
        f"from forge_cli import tool\n\n{look}\n"
        "@tool(needs_approval=look)\ndef act() -> str:\n    'Act.'\n    return 'acted'\n",
    )
    seen = project.run(calls(call("act")), "done")
    assert seen.of(ToolResult)[0].status == "success"
