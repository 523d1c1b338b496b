"""Bounds of drafts: their size, their age, and what the kernel cannot do in a view.

Covers forge_cli.sandbox.processes.view, forge_cli.inspection.health, forge_cli.sandbox.zones.config.
"""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from forge_cli.testing import Project, call, calls
from tests.support.logs import script

pytestmark = [pytest.mark.needs("overlay")]

WORKER = """
name: drafter
model: script:script.yaml
sandbox: {draft: {size: 8m}, zones: [{name: code, path: ., mode: rw}]}
toolsets: {filesystem: {}, shell: {}}
"""


@pytest.fixture
def drafter(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("folder/file", "x\n")
    return project


def results(project: Project, *commands: str) -> tuple[dict[str, Any], list[str]]:
    """Run commands in a draft; return the result, and what the model read of each."""
    made = [call("shell", command=command) for command in commands]
    script(project, calls(*made), "done")
    record = project.folder.parent / "record.jsonl"
    done = project.forge(
        "run", "worker.yaml", "go", "--output-format", "json", "--record", str(record)
    )
    assert done.returncode == 0, done
    events = [json.loads(line) for line in record.read_text().splitlines()]
    told = [json.dumps(event) for event in events if event["type"] == "toolResult"]
    return json.loads(done.stdout), told


def test_command_that_outgrows_the_draft_is_stopped(drafter: Project) -> None:
    result, told = results(
        drafter,
        "head -c 5000000 /dev/zero > one",
        "head -c 5000000 /dev/zero > two; sleep 20",
        "echo fits > three",
    )
    assert "the draft may hold 8m (sandbox.draft.size)" in told[1]
    changes = {each["path"]: each["bytes"] for each in result["draft"]["changes"]}
    assert changes == {"one": 5_000_000, "three": 5}


def test_size_needs_a_unit_that_is_known(drafter: Project) -> None:
    drafter.write("worker.yaml", WORKER.replace("8m", "8 bananas"))
    done = drafter.forge("run", "worker.yaml", "go")
    assert done.returncode == 3
    assert "is not a size" in done.stderr


def test_rename_of_a_folder_explains_itself(drafter: Project) -> None:
    python = "import os; os.rename('folder', 'other')"
    result, told = results(drafter, f'python3 -c "{python}"', "mv folder moved")
    assert result["denials"] == []
    assert "in a draft, a folder that was there before cannot be renamed in one step" in told[0]
    assert {each["path"] for each in result["draft"]["changes"]} >= {"moved", "moved/file"}


def test_old_drafts_are_listed_and_never_deleted(drafter: Project) -> None:
    result, _ = results(drafter, "echo x > new")
    assert '"drafts"' not in drafter.forge("doctor", "--json").stdout
    file: Path = drafter.home / "drafts" / result["draft"]["id"] / "draft.json"
    state = json.loads(file.read_text())
    state["began"] = time.time_ns() - 31 * 24 * 3600 * 10**9
    file.write_text(json.dumps(state))
    told = drafter.forge("doctor", "--json").stdout
    assert f"1 draft older than 30 days: {result['draft']['id']}" in told
    assert drafter.forge("doctor", "--clean").returncode == 0
    assert file.exists()
