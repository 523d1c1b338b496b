"""Real repositories in temporary folders, and a worker with the toolset git in them."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from forge_cli.testing import Project, Seen, call, calls

USER_CONFIG = """
[user]
    name = Ada
    email = ada@example.org
[init]
    defaultBranch = main
[protocol "file"]
    allow = always
"""


def plain_git(folder: Path, *words: str, check: bool = True) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


@dataclass
class Repo:
    """A folder under git with a worker in it; ``git`` is git as everybody has it."""

    project: Project

    @property
    def folder(self) -> Path:
        return self.project.folder

    def git(self, *words: str, check: bool = True) -> str:
        return plain_git(self.folder, *words, check=check)

    def write(self, name: str, content: str = "text\n") -> Path:
        return self.project.write(name, content)

    def commit(self, message: str = "one", **files: str) -> None:
        for name, content in files.items():
            self.write(name.replace("_", "."), content)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)

    def worker(self, section: str = "{}", sandbox: str = "{isolation: auto}") -> None:
        """Write the worker file beside the repository, outside of it."""
        file = self.folder.parent / "worker.yaml"
        file.write_text(
            f"name: committer\ninstructions: Work.\ntoolsets:\n  git: {section}\nsandbox: {sandbox}\n"
        )

    def seen(self, *made: Any, **options: Any) -> Seen:
        return self.project.run(calls(*made), "done", worker="../worker.yaml", **options)

    def call(self, tool: str, /, answers: Any = None, **args: Any) -> Any:
        """The outcome of one call by the model; ``answers`` are those of a person."""
        (outcome,) = self.seen(call(tool, **args), answers=answers).outcomes
        return outcome

    def by_hand(self, tool: str, *words: str) -> subprocess.CompletedProcess[str]:
        return self.project.forge("tools", "call", tool, "--worker", "../worker.yaml", *words)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder that is not in /tmp, which a confined process has for itself."""
    with tempfile.TemporaryDirectory(prefix="forge-test-", dir="/var/tmp") as folder:
        yield Path(folder).resolve()


@pytest.fixture(autouse=True)
def _own_environment(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(os.environ):
        if name in {"CI", "NO_COLOR", "FORCE_COLOR"} or name.startswith(("FORGE_", "GIT_", "XDG_")):
            monkeypatch.delenv(name)
    home = tmp_path_factory.mktemp("home")
    (home / ".gitconfig").write_text(USER_CONFIG)
    monkeypatch.setenv("HOME", str(home))


@pytest.fixture
def folder(tmp_path: Path) -> Repo:
    """A folder that is not yet a repository."""
    (tmp_path / "project").mkdir()
    repo = Repo(Project(tmp_path / "project"))
    repo.worker()
    return repo


@pytest.fixture
def repo(folder: Repo) -> Repo:
    folder.git("init", "--quiet")
    return folder
