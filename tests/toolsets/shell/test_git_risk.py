"""The risk of changes by git: ordinary work is low, files that programs obey are high.

Covers forge_cli.toolsets.shell.trying.
"""

import subprocess

import pytest

from forge_cli import ApprovalRequest
from forge_cli.core.events import ApprovalRequired
from forge_cli.testing import Project, call, calls

pytestmark = pytest.mark.needs("overlay")

RISKS = {
    "git add a.txt": "medium",
    "git add -A": "medium",
    "git commit -qam second": "medium",
    "git add -A && git commit -qm second": "medium",
    "git commit -q --allow-empty -m none": "medium",
    "git stash push -q && git stash pop -q; git commit -qam second": "medium",
    "cp b.txt d.txt; touch -d 2001-01-01 .git/objects/*/*; git add -A": "medium",
    "git tag v1": "medium",
    "git branch other": "medium",
    "git mv b.txt c.txt && git commit -qm moved": "medium",
    "git add -A && mkdir .idea && echo x > .idea/workspace.xml": "high",
}


@pytest.fixture
def repository(project: Project) -> Project:
    project.write("worker.yaml", "name: w\ntoolsets: {shell: {}}\n")
    for name in ("a.txt", "b.txt"):
        project.write(name, "one\n")
    lines = [
        "init -q -b main",
        "config user.name a",
        "config user.email a@b.c",
        "add .",
        "commit -qm first",
    ]
    for words in lines:
        subprocess.run(
            ["git", "-C", project.folder, *words.split()],
            check=True,
            timeout=60,
            capture_output=True,
        )
    project.write("a.txt", "two\n")
    return project


@pytest.mark.few(6)
@pytest.mark.parametrize("line", RISKS)
def test_risk_is_that_of_changes_outside_the_git_folder(repository: Project, line: str) -> None:
    seen = repository.run(calls(call("shell", command=line)), "done", timeout=120, answers=[False])
    (asked,) = seen.of(ApprovalRequired)
    assert isinstance(asked.request, ApprovalRequest)
    assert asked.request.risk == RISKS[line]
