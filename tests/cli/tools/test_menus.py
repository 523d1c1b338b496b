"""The callers of an executable and its place in menus, as a tool.yaml states them with ``manual_execution``."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from forge_cli.core.events import ManualToolsAvailable
from forge_cli.testing import Project

WORKER = """name: w
model: script:script.yaml
toolsets:
  executables: {approval: {default: preApproved}}
"""


@pytest.fixture
def write(project: Project) -> Callable[..., Path]:
    def write(*lines: str, name: str = "push") -> Path:
        folder = project.home / "tools" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "run.sh").write_text("echo pushed\n")
        head = [f"name: {name}", "description: Pushes", "entrypoint: run.sh"]
        (folder / "tool.yaml").write_text("\n".join([*head, *lines]) + "\n")
        return folder

    return write


def test_menus_have_labels_and_categories(project: Project, write) -> None:
    write("manual_execution: {mode: both, label: Push it, category: Git}")
    write("manual_execution: manual", name="file_it")
    write(name="other")
    project.write("worker.yaml", WORKER)
    seen = project.run("done")
    (offered,) = seen.of(ManualToolsAvailable)[-1:]
    found = {tool["name"]: (tool["label"], tool["category"]) for tool in offered.tools}
    assert found["push"] == ("Push it", "Git")
    assert "file_it" in found
    assert "other" not in found


def test_import_shows_who_may_call_a_tool(cli, tmp_path: Path, write, project: Project) -> None:
    folder = write(
        "manual_execution: {mode: manual, label: Push it}", "needs_approval: true"
    ).rename(tmp_path / "push")
    done = cli("tools", "import", str(folder))
    assert "  called by:   people only" in done.out
    (tool,) = json.loads(cli("tools", "import", str(folder), "--json").out)["tools"]
    assert "  approval:    always asks" in done.out
    assert tool["needsApproval"] == "ask"
    assert tool["manualExecution"] == {"mode": "manual", "label": "Push it", "category": None}
