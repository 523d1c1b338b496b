"""Looking at a repository starts nothing that the repository names, and changes nothing in it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from forge_cli.testing import call

if TYPE_CHECKING:
    from conftest import Repo

LOOKS = [
    call("git_status"),
    call("git_diff"),
    call("git_diff", staged=True),
    call("git_log"),
    call("git_log", path="a"),
]
PLAIN = [("status",), ("diff",), ("log",), ("diff", "--cached"), ("log", "-p")]
Trap = Callable[["Repo", str], None]
TRAPS: dict[str, Trap] = {}


def trap(make: Trap) -> Trap:
    TRAPS[make.__name__] = make
    return make


@trap
def fsmonitor(repo: Repo, program: str) -> None:
    repo.git("config", "core.fsmonitor", program)


@trap
def hook(repo: Repo, program: str) -> None:
    (repo.folder / ".git/hooks").mkdir(exist_ok=True)
    (repo.folder / ".git/hooks/post-index-change").symlink_to(program)


@trap
def clean_filter(repo: Repo, program: str) -> None:
    repo.write(".gitattributes", "* filter=evil=x\n")
    config = repo.folder / ".git/config"
    config.write_text(
        f'{config.read_text()}[filter "evil=x"]\n\tclean = {program}\n\trequired = true\n'
    )


@trap
def filter_of_no_encoding(repo: Repo, program: str) -> None:
    (repo.folder / ".gitattributes").write_bytes(b"* filter=ev\xffil\n")
    config = repo.folder / ".git/config"
    config.write_bytes(
        config.read_bytes() + b'[filter "ev\xffil"]\n\tclean = ' + program.encode() + b"\n"
    )


@trap
def filter_process_in_an_included_file(repo: Repo, program: str) -> None:
    repo.write(".gitattributes", "* filter=evil\n")
    (repo.folder / ".git/more").write_text(f'[filter "evil"]\n\tprocess = {program}\n')
    repo.git("config", "include.path", "more")


@trap
def external_diff(repo: Repo, program: str) -> None:
    repo.git("config", "diff.external", program)


@trap
def diff_driver(repo: Repo, program: str) -> None:
    repo.write(".gitattributes", "* diff=evil\n")
    repo.git("config", "diff.evil.command", program)


@trap
def textconv(repo: Repo, program: str) -> None:
    repo.write(".gitattributes", "* diff=evil\n")
    repo.git("config", "diff.evil.textconv", program)


@trap
def signature(repo: Repo, program: str) -> None:
    signer = repo.folder.parent / "signer"
    created = "printf '\\n[GNUPG:] SIG_CREATED \\n' >&2"
    signer.write_text(
        f"#!/bin/sh\ncat > /dev/null\n{created}\necho '-----BEGIN PGP SIGNATURE-----'\n"
    )
    signer.chmod(0o755)
    repo.git(
        "-c", f"gpg.program={signer}", "commit", "--quiet", "--allow-empty", "-S", "-m", "signed"
    )
    repo.git("config", "gpg.program", program)
    repo.git("config", "log.showSignature", "true")


@trap
def submodule(repo: Repo, program: str) -> None:
    inner = repo.folder.parent / "inner"
    repo.git("init", "--quiet", str(inner))
    repo.git("-C", str(inner), "commit", "--quiet", "--allow-empty", "-m", "inner")
    repo.git("submodule", "--quiet", "add", str(inner), "inner")
    repo.git("commit", "--quiet", "-m", "with a submodule")
    repo.git("-C", "inner", "config", "core.fsmonitor", program)


@trap
def missing_objects(repo: Repo, program: str) -> None:
    """A partial clone fetches missing objects with a program of its remote."""
    blob = repo.git("rev-parse", "HEAD:a").strip()
    (repo.folder / ".git/objects" / blob[:2] / blob[2:]).unlink()
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.url": str(repo.folder.parent),
        "remote.origin.promisor": "true",
        "remote.origin.uploadpack": program,
        "protocol.file.allow": "always",
    }.items():
        repo.git("config", key, value)


@pytest.fixture
def repo(repo: Repo) -> Repo:
    """A repository without confinement, so that a started program would have an effect."""
    repo.worker(sandbox="{isolation: off}")
    return repo


@pytest.fixture
def sprung(tmp_path: Path) -> Path:
    """A file that the program of a trap leaves behind."""
    return tmp_path / "sprung"


@pytest.fixture
def program(tmp_path: Path, sprung: Path) -> str:
    file = tmp_path / "program"
    file.write_text(f"#!/bin/sh\necho sprung >> {sprung}\n")
    file.chmod(0o755)
    return str(file)


def prepared(repo: Repo, make: Trap, program: str) -> None:
    repo.commit(a="one\n", b="same\n")
    make(repo, program)
    repo.write("a", "two\n")
    os.utime(repo.folder / "b", (1_000_000_000, 1_000_000_000))


@pytest.mark.few(2)
@pytest.mark.parametrize("make", TRAPS.values(), ids=TRAPS)
def test_program_named_by_the_repository_is_not_run(
    repo: Repo, make: Trap, program: str, sprung: Path
) -> None:
    prepared(repo, make, program)
    sprung.unlink(missing_ok=True)
    seen = repo.seen(*LOOKS)
    assert not sprung.exists()
    if make is not missing_objects:
        assert set(seen.statuses) == {"success"}
    for words in PLAIN:
        repo.git(*words, check=False)
    assert sprung.exists(), "this trap would not have caught anybody"


@pytest.mark.long
def test_reading_tools_write_nothing(repo: Repo) -> None:
    prepared(repo, lambda repo, program: None, "")
    before = snapshot(repo.folder)
    repo.seen(*LOOKS)
    assert snapshot(repo.folder) == before
    repo.git("diff")
    assert snapshot(repo.folder) != before


def snapshot(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.long
def test_work_tree_elsewhere_is_not_read(repo: Repo, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    repo.commit(key="old\n")
    (elsewhere / "key").write_text("secret\n")
    repo.git("config", "core.worktree", str(elsewhere))
    for outcome in repo.seen(*LOOKS).outcomes:
        assert "is not a work tree of git" in outcome.error


@pytest.mark.long
def test_disguised_repository_is_not_read(repo: Repo) -> None:
    repo.git("init", "--quiet", "--bare", "inner")
    (repo.folder / "inner/worker.yaml").write_text("")
    inner = type(repo)(type(repo.project)(repo.folder / "inner"))
    inner.worker()
    assert "is not a work tree of git" in inner.call("git_status").error


@pytest.mark.long
def test_git_variables_of_the_environment_are_ignored(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.commit("here")
    repo.git("init", "--quiet", str(tmp_path / "other"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other/.git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "other"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "/bin/false")
    monkeypatch.setenv("GIT_TRACE", "1")
    assert [entry["subject"] for entry in repo.call("git_log").value.data] == ["here"]
