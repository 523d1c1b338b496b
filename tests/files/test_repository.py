"""The git branch of a folder, as the files of the repository have it."""

import os
import subprocess
from pathlib import Path

import pytest

from forge_cli.files.repository import git_branch


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "deep/down").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / ".git/HEAD").write_text("ref: refs/heads/feature/names\n")
    return folder


def test_branch_is_found_in_and_around_a_folder(repository: Path) -> None:
    assert [git_branch(repository / folder) for folder in ("", "deep", "deep/down")] == [
        "feature/names"
    ] * 3


def test_worktree_names_the_place_of_its_repository(repository: Path, tmp_path: Path) -> None:
    (repository / ".git/worktrees/other").mkdir(parents=True)
    (repository / ".git/worktrees/other/HEAD").write_text("ref: refs/heads/other\n")
    (tmp_path / "tree").mkdir()
    for target in (repository / ".git/worktrees/other", "../repository/.git/worktrees/other"):
        (tmp_path / "tree/.git").write_text(f"gitdir: {target}\n")
        assert git_branch(tmp_path / "tree") == "other"


@pytest.mark.parametrize(
    "content", ["8534e75a046d4c548534e75a046d4c548534e75a\n", "ref: refs/remotes/x\n", "", "\xff"]
)
def test_detached_head_has_no_branch(repository: Path, content: str) -> None:
    (repository / ".git/HEAD").write_text(content, encoding="latin-1")
    assert git_branch(repository / "deep") is None


def test_missing_or_unreadable_repository_has_no_branch(tmp_path: Path) -> None:
    assert git_branch(tmp_path / "missing") is None
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / ".git/HEAD")
    assert git_branch(tmp_path) is None


@pytest.mark.needs("git")
def test_branch_equals_that_of_git(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "-b", "trunk", tmp_path / "real"], check=True)
    assert git_branch(tmp_path / "real") == "trunk"
