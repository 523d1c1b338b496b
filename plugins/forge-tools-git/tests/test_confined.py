"""git with confined child processes: it works, and programs named by a repository cannot do harm."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from forge_cli.errors import WorkerError
from forge_cli.testing import Project, call, calls

if TYPE_CHECKING:
    from conftest import Repo

REQUIRED = "{isolation: required}"


@pytest.fixture
def confined(repo: Repo) -> Repo:
    repo.commit("start", a="one\n")
    repo.write("a", "two\n")
    repo.worker("{approval: {tools: {git_stage: preApproved}}}", REQUIRED)
    return repo


def hook(repo: Repo, name: str, script: str) -> None:
    file = repo.folder / ".git/hooks" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


@pytest.mark.needs("bwrap")
def test_worker_reads_stages_and_commits(confined: Repo) -> None:
    made = [
        call("git_status"),
        call("git_diff"),
        call("git_stage", paths=["."]),
        call("git_commit", message="two"),
    ]
    seen = confined.project.run(*map(calls, made), "Done.", worker="../worker.yaml", answers=[True])
    assert [outcome.error for outcome in seen.outcomes] == [None] * 4
    assert confined.git("log", "--format=%s").split() == ["two", "start"]
    assert confined.git("status", "--porcelain") == ""


HARM = """
mkdir -p .git/modules .git/hooks
for path in ../outside ~/outside .git/hooks/post-commit .git/config .git/commondir .git/modules/x .env; do
    (echo harm >> $path) 2> /dev/null
done
ls -A ~/.ssh > seen; readlink /proc/self/ns/net >> seen
"""


@pytest.mark.few(1)
@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("where", [".git/hooks", "in the tree"])
def test_hook_cannot_write_outside(confined: Repo, where: str) -> None:
    confined.write(".env", "old\n")
    home = Path(os.environ["HOME"])
    (home / ".ssh").mkdir()
    (home / ".ssh/id").write_text("secret")
    hook(confined, "pre-commit", HARM)
    if where != ".git/hooks":
        (confined.folder / ".git/hooks").rename(confined.folder / "githooks")
        confined.git("config", "core.hooksPath", "githooks")
    config = confined.project.read(".git/config")
    confined.git("add", "a")
    assert confined.call("git_commit", message="two", answers=[True]).error is None
    assert confined.project.read(".git/config") == config
    assert confined.project.read(".env") == "old\n"
    inside = [".git/commondir", ".git/modules/x", ".git/hooks/post-commit"]
    harmed = [
        confined.folder.parent / "outside",
        home / "outside",
        *(confined.folder / name for name in inside),
    ]
    assert [path for path in harmed if path.exists()] == []
    (network,) = confined.project.read("seen").splitlines()
    assert network != os.readlink("/proc/self/ns/net")
    confined.worker(sandbox="{isolation: off}")
    confined.git("add", "seen")
    confined.call("git_commit", message="three", answers=[True])
    assert all(path.exists() for path in harmed), "this hook would have harmed nobody"


@pytest.mark.needs("bwrap")
def test_reading_tools_cannot_write_to_the_git_folder(confined: Repo) -> None:
    """A filter from the user's own settings runs for a diff."""
    confined.git("config", "--global", "filter.mine.clean", "cat; touch .git/made made")
    confined.write(".gitattributes", "* filter=mine\n")
    assert confined.call("git_diff").error is None
    assert (confined.folder / "made").exists()
    assert not (confined.folder / ".git/made").exists()


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize(
    ("zones", "start"),
    [("[{name: code, path: .}]", "."), ("[{name: part, path: ., mode: rw}]", "part")],
    ids=["read-only", "below the top"],
)
def test_read_only_repository_is_reported_with_a_reason(
    confined: Repo, zones: str, start: str
) -> None:
    confined.write("part/b", "new\n")
    part = type(confined)(Project(confined.folder / start))
    part.worker(
        "{approval: {tools: {git_stage: preApproved}}}", f"{{isolation: required, zones: {zones}}}"
    )
    seen = part.seen(call("git_status"), call("git_stage", paths=["."]))
    assert seen.statuses == ["success", "error"]
    assert "(git is confined here: it writes only to zones with 'mode: rw'" in (
        seen.outcomes[1].error or ""
    )


@pytest.mark.long
@pytest.mark.needs("bwrap")
def test_linked_work_tree_can_be_committed_to(confined: Repo, tmp_path: Path) -> None:
    confined.git("worktree", "add", "--quiet", "../tree")
    tree = type(confined)(Project(tmp_path / "tree"))
    zones = "[{name: tree, path: ., mode: rw}, {name: main, path: ../project, mode: rw}]"
    tree.worker("{}", f"{{isolation: required, zones: {zones}}}")
    tree.write("b")
    tree.git("add", "b")
    assert tree.call("git_commit", message="there", answers=[True]).error is None
    assert confined.git("log", "--format=%s", "tree").split() == ["there", "start"]


@pytest.mark.needs("bwrap")
class TestPush:
    @pytest.fixture
    def remote(self, confined: Repo, tmp_path: Path) -> Path:
        confined.git("init", "--quiet", "--bare", str(tmp_path / "there"))
        confined.git("remote", "add", "origin", str(tmp_path / "there"))
        return tmp_path / "there"

    def test_push_reaches_a_folder_that_is_a_zone(self, confined: Repo, remote: Path) -> None:
        zones = "[{name: code, path: ., mode: rw}, {name: there, path: ../there, mode: rw}]"
        confined.worker("{}", f"{{isolation: required, zones: {zones}}}")
        (Path(os.environ["HOME"]) / ".ssh").mkdir()
        (Path(os.environ["HOME"]) / ".ssh/id").write_text("the key")
        hook(confined, "pre-push", "cat ~/.ssh/id > seen")
        done = confined.by_hand("git_push", "branch=main")
        assert (done.returncode, done.stderr) == (0, "")
        assert confined.git("-C", str(remote), "log", "--format=%s", "main").split() == ["start"]
        assert confined.project.read("seen") == "the key", (
            "what a remote asks for is there for a push alone"
        )

    @pytest.mark.long
    def test_push_to_another_folder_explains_the_confinement(
        self, confined: Repo, remote: Path
    ) -> None:
        done = confined.by_hand("git_push", "branch=main")
        assert done.returncode == 1
        assert "git is confined here" in done.stderr
        assert confined.git("-C", str(remote), "branch", "--list") == ""


@pytest.mark.long
@pytest.mark.parametrize("zones", ["[]", "[{name: part, path: ./part, mode: rw}]"])
def test_worker_without_a_zone_around_the_working_directory_is_refused(
    repo: Repo, zones: str
) -> None:
    repo.worker("{}", f"{{zones: {zones}}}")
    with pytest.raises(WorkerError) as caught:
        repo.call("git_status")
    assert str(caught.value) == (
        f"{repo.folder}/../worker.yaml:4:8: toolsets.git: no zone of this worker contains "
        f"{repo.folder}, where git runs\n"
        "  use -C DIR to work in another folder, declare a zone under sandbox.zones, such as "
        "{name: code, path: ., mode: rw}, or remove the toolset"
    )
    done = repo.project.forge("worker", "check", "../worker.yaml")
    assert done.returncode == 3


@pytest.mark.long
def test_required_isolation_without_a_mechanism_is_refused(repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    repo.worker("{}", REQUIRED)
    done = repo.project.forge(
        "tools",
        "call",
        "git_status",
        "--worker",
        "../worker.yaml",
        env={"PATH": str(tmp_path / "bin")},
    )
    assert done.returncode == 3
    assert "isolation is required" in done.stderr
