"""``forge run --draft`` in a folder that cannot have a view.

Covers forge_cli.sandbox.drafts.view, forge_cli.engine.turns.environment.
"""

import json
import os
import subprocess
import sys

import pytest

from forge_cli.testing import Project, call, calls
from tests.support.layouts import command
from tests.support.logs import script

pytestmark = [pytest.mark.needs("overlay")]

WORKER = """
name: drafter
model: script:script.yaml
sandbox: {zones: [{name: code, path: ., mode: rw}]}
toolsets: {filesystem: {}, shell: {}}
"""


def test_session_works_on_a_copy_of_a_folder_with_a_mount_in_it(project: Project) -> None:
    project.write("worker.yaml", WORKER)
    project.write("old.txt", "one\n")
    (project.folder / "home").mkdir()
    script(
        project,
        calls(
            call("edit_file", path="old.txt", old="one", new="two"),
            call("shell", command="echo x > by-shell.txt"),
        ),
        "done",
    )
    # This layout mounts a file system on the folder "home".
    argv = [sys.executable, "-m", "forge_cli", "run", str(project.folder / "worker.yaml"), "go"]
    record = project.folder.parent / "record.jsonl"
    run = subprocess.run(
        [
            *command("tmpfs-home", project.folder, *argv, "--draft", "--trace", "normal"),
            *("--cd", str(project.folder), "--record", str(record)),
        ],
        env={**os.environ, "FORGE_HOME": str(project.home), "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run
    assert "it works on a plain copy" in run.stderr
    assert "is another file system" in run.stderr
    assert "Copy: you work on a copy of" in record.read_text()
    assert project.read("old.txt") == "one\n"
    applied = project.forge("drafts", "apply", "last")
    assert applied.returncode == 0, applied
    assert (project.read("old.txt"), project.read("by-shell.txt")) == ("two\n", "x\n")
    undone = project.forge("undo", "last")
    assert undone.returncode == 0, undone
    assert project.read("old.txt") == "one\n"
    assert json.loads(project.forge("drafts", "list", "--json").stdout) == []
    assert [each.name for each in project.folder.parent.glob("*.draft-*")] == []
