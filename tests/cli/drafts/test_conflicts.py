"""``forge drafts show`` and ``apply`` with files that changed on both sides.

Covers forge_cli.cli.drafts.apply, forge_cli.cli.drafts.show, forge_cli.cli.drafts.common,
forge_cli.engine.runtime.drafting.
"""

import json
import subprocess
from typing import Any

import pytest

from forge_cli.testing import Project, call, calls
from tests.support.logs import script

pytestmark = [pytest.mark.needs("overlay", "git")]

WORKER = """
name: drafter
model: script:script.yaml
sandbox: {zones: [{name: code, path: ., mode: rw}]}
toolsets: {filesystem: {}, shell: {}}
"""
LINES = "".join(f"line {number}\n" for number in range(9))
MINE = LINES.replace("line 0", "mine")
DRAFT = LINES.replace("line 8", "draft")
BOTH = MINE.replace("line 8", "draft")


@pytest.fixture
def drafter(project: Project) -> Project:
    """A draft in which a file was edited that the person edits afterwards."""
    project.write("worker.yaml", WORKER)
    project.write("both.txt", LINES)
    return project


def draft(project: Project, *made: Any) -> None:
    script(project, calls(*made), "done")
    done = project.forge("run", "worker.yaml", "go", "--draft", "-p")
    assert done.returncode == 0, done


def edit(project: Project) -> None:
    draft(
        project,
        call("edit_file", path="both.txt", old="line 8", new="draft"),
        call("write_file", path="made.txt", content="made\n"),
    )
    project.write("both.txt", MINE)


def test_conflict_is_shown_three_ways_and_merged_on_demand(drafter: Project) -> None:
    edit(drafter)
    shown = drafter.forge("drafts", "show")
    assert (
        "conflict both.txt: was changed since the draft began; both changes can be" in shown.stdout
    )
    assert "+++ both.txt (merged)" in shown.stdout
    refused = drafter.forge("drafts", "apply", "last")
    assert refused.returncode == 1
    assert "--conflict merge|draft|mine|leave" in refused.stderr
    assert not (drafter.folder / "made.txt").exists()
    applied = drafter.forge("drafts", "apply", "last", "--conflict", "merge")
    assert applied.returncode == 0, applied
    assert (drafter.read("both.txt"), drafter.read("made.txt")) == (BOTH, "made\n")
    assert json.loads(drafter.forge("drafts", "list", "--json").stdout) == []
    assert drafter.forge("undo", "last").returncode == 0
    assert drafter.read("both.txt") == MINE


def test_overlap_is_shown_with_markers_and_one_side_is_taken_by_name(drafter: Project) -> None:
    edit(drafter)
    drafter.write("both.txt", LINES.replace("line 8", "mine"))
    shown = drafter.forge("drafts", "show").stdout
    for line in ("<<<<<<< real file", "||||||| start of the draft", ">>>>>>> draft"):
        assert f"\n{line}\n" in shown
    refused = drafter.forge("drafts", "apply", "last", "--conflict", "merge")
    assert refused.returncode == 1
    assert "both sides changed the same lines in 1 place" in refused.stderr
    unnamed = drafter.forge("drafts", "apply", "last", "--conflict", "draft")
    assert unnamed.returncode == 2
    assert "name the files" in unnamed.stderr
    assert drafter.read("both.txt") == LINES.replace("line 8", "mine")
    applied = drafter.forge("drafts", "apply", "last", "both.txt", "--conflict", "draft")
    assert applied.returncode == 0, applied
    assert drafter.read("both.txt") == DRAFT


def test_rest_is_applied_and_the_conflict_is_left_or_forgotten(drafter: Project) -> None:
    edit(drafter)
    applied = drafter.forge("drafts", "apply", "last", "--conflict", "leave")
    assert applied.returncode == 0, applied
    assert "left in the draft: " in applied.stderr
    assert (drafter.read("both.txt"), drafter.read("made.txt")) == (MINE, "made\n")
    forgotten = drafter.forge("drafts", "apply", "last", "both.txt", "--conflict", "mine")
    assert forgotten.returncode == 0, forgotten
    assert drafter.read("both.txt") == MINE
    assert json.loads(drafter.forge("drafts", "list", "--json").stdout) == []


def test_start_of_a_file_that_forge_did_not_write_is_taken_from_git(drafter: Project) -> None:
    commands = "git init -q && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m a"
    subprocess.run(["bash", "-c", commands], cwd=drafter.folder, check=True, timeout=60)
    subprocess.run(["git", "add", "both.txt"], cwd=drafter.folder, check=True, timeout=60)
    edit(drafter)
    for backup in drafter.home.glob("sessions/**/*.undo/*"):
        backup.unlink()
    applied = drafter.forge("drafts", "apply", "last", "both.txt", "--conflict", "merge")
    assert applied.returncode == 0, applied
    assert drafter.read("both.txt") == BOTH
