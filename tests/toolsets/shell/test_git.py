"""git in a confined shell: a line that names it can commit, and nothing that runs later can be planted.

Covers forge_cli.sandbox.isolation.confinement.
"""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from forge_cli.core.results import Custom
from forge_cli.testing import Project, call, calls

pytestmark = [pytest.mark.needs("bwrap"), pytest.mark.needs("git")]

WORKER = """
name: w
sandbox: {isolation: required}
toolsets:
  shell: {rules: [{pattern: git, approval: preApproved}, {pattern: "true", approval: preApproved}]}
"""
COMMIT = "git -c user.name=a -c user.email=a@b commit -q -m second"


def git(folder: Path, *argv: str) -> str:
    given = [
        "git",
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        "-c",
        "init.defaultBranch=main",
        *argv,
    ]
    return subprocess.run(given, cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def repository(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    git(project.folder, "init", "-q")
    project.write("a.txt", "one\n")
    git(project.folder, "add", ".")
    git(project.folder, "commit", "-q", "-m", "first")
    project.write("a.txt", "two\n")
    return project


def run(project: Project, command: str, tool: str = "shell", **options: Any) -> dict[str, Any]:
    seen = project.run(
        calls(call(tool, command=command)), "done", approval_mode="approve_all", **options
    )
    value = seen.outcomes[0].value
    assert isinstance(value, Custom), value
    return dict(value.data)


def log(project: Project) -> list[str]:
    return git(project.folder, "log", "--format=%s").split()


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "command",
    [
        f"git add a.txt && {COMMIT}",
        f"/usr/bin/env true; git add a.txt; {COMMIT}",
        f"git add a.txt && {COMMIT.replace('second', '')} \"$(cat <<'EOF'\nsecond\nEOF\n)\"",
    ],
)
@pytest.mark.parametrize("tool", ["shell", "exec_command"])
def test_line_that_names_git_can_commit(repository: Project, tool: str, command: str) -> None:
    data = run(repository, command, tool)
    assert data.get("exitCode", data.get("exit_code")) == 0, data
    assert log(repository) == ["second", "first"]


@pytest.mark.parametrize(
    "command", ["touch .git/x", "echo git commit > .git/x", "bash -c 'touch .git/x' git", "gitk"]
)
def test_line_that_does_not_name_git_cannot_write_its_folder(
    repository: Project, command: str
) -> None:
    assert run(repository, command)["exitCode"] != 0
    assert not (repository.folder / ".git/x").exists()


@pytest.mark.few(6)
@pytest.mark.parametrize("tool", ["shell", "exec_command"])
@pytest.mark.parametrize(
    "planted",
    [
        *(
            "hooks/pre-commit",
            "config",
            "config.worktree",
            "commondir",
            "info/attributes",
            "modules/x/config",
        ),
        *("remotes/origin", "branches/origin"),
    ],
)
def test_code_that_git_runs_later_cannot_be_planted(
    repository: Project, planted: str, tool: str
) -> None:
    folder = repository.folder / ".git"
    before = (folder / planted).read_text() if (folder / planted).exists() else None
    line = f"git status -s; mkdir -p .git/{Path(planted).parent}; echo evil > .git/{planted}; true"
    run(repository, line, tool)
    assert ((folder / planted).read_text() if (folder / planted).exists() else None) == before
    assert git(repository.folder, "status", "-s") == " M a.txt\n"


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "line",
    [
        "mv .git/info .git/old; mkdir .git/info; echo evil > .git/info/attributes",
        "mv .git/hooks .git/old; mkdir .git/hooks; echo evil > .git/hooks/pre-commit",
        "mv .git old; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit",
        "rm -rf .git/info; ln -s /tmp .git/info",
        "rm .git/config; git config alias.x '!evil'",
    ],
)
def test_folder_around_git_cannot_be_moved_away(repository: Project, line: str) -> None:
    run(repository, f"git status; {line}; true")
    folder = repository.folder / ".git"
    assert not (folder / "info/attributes").exists()
    assert not (folder / "hooks/pre-commit").exists()
    assert (folder / "info").is_dir()
    assert not (folder / "info").is_symlink()
    assert "evil" not in (folder / "config").read_text()


@pytest.mark.parametrize(
    ("line", "kept"), [("git init -q new", True), ("mkdir -p new/.git; true", False)]
)
def test_line_that_names_git_can_create_only_a_standard_repository(
    repository: Project, line: str, kept: bool
) -> None:
    run(repository, line)
    assert (repository.folder / "new/.git").exists() is kept


def test_repository_around_the_folder_counts(repository: Project) -> None:
    (repository.folder / "sub/deep").mkdir(parents=True)
    repository.write("sub/deep/b.txt", "b")
    command = call("exec_command", command=f"git add . && {COMMIT}", workdir="sub/deep")
    repository.run(calls(command), "done", approval_mode="approve_all")
    assert log(repository) == ["second", "first"]


def test_repository_outside_writable_zones_stays_unchanged(repository: Project) -> None:
    (repository.folder / "sub").mkdir()
    repository.write(
        "worker.yaml", WORKER.replace("required}", "required, zones: [{name: sub, mode: rw}]}")
    )
    assert run(repository, COMMIT + " -a")["exitCode"] != 0
    assert log(repository) == ["first"]
