"""git_status and git_log, and how they are shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from forge_tools_git.status import parse_status
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.testing import Project

if TYPE_CHECKING:
    from conftest import Repo


@pytest.mark.long
def test_new_repository_has_nothing_to_commit(repo: Repo) -> None:
    value = repo.call("git_status").value
    assert (value.kind, value.summary) == ("git.status", "on main: nothing to commit")
    assert value.data["branch"] == "main"
    assert value.display.collapsed is True


def test_files_are_grouped_by_status(repo: Repo) -> None:
    repo.commit(a="1\n", b="two\nlines\n", c="3\n", d="4\n")
    repo.write("a", "2\n")
    repo.write("c", "33\n")
    repo.git("add", "c")
    repo.write("c", "333\n")
    repo.git("mv", "b", "über name")
    (repo.folder / "d").unlink()
    repo.write("new/file")
    value = repo.call("git_status").value
    assert value.summary == "on main: 2 staged, 3 modified, 1 untracked"
    assert value.display.collapsed is False
    assert value.data == {
        "branch": "main",
        "upstream": None,
        "ahead": 0,
        "behind": 0,
        "staged": ["c", "über name"],
        "modified": ["a", "c", "d"],
        "untracked": ["new/"],
        "conflicted": [],
        "deleted": ["d"],
        "renamed": {"über name": "b"},
    }
    assert repo.by_hand("git_status").stdout.splitlines() == [
        "on main: 2 staged, 3 modified, 1 untracked",
        "  staged     c",
        "  staged     über name (was b)",
        "  modified   a",
        "  modified   c",
        "  modified   d (deleted)",
        "  untracked  new/",
    ]


@pytest.mark.long
def test_conflicts_are_counted(repo: Repo) -> None:
    repo.commit(a="1\n")
    repo.git("switch", "--quiet", "-c", "other")
    repo.commit(a="2\n")
    repo.git("switch", "--quiet", "main")
    repo.commit(a="3\n")
    repo.git("merge", "other", check=False)
    value = repo.call("git_status").value
    assert (value.summary, value.data["conflicted"]) == ("on main: 1 conflicted", ["a"])


@pytest.mark.long
def test_distance_to_the_upstream_is_shown(repo: Repo, tmp_path: Path) -> None:
    repo.commit("one")
    repo.git("clone", "--quiet", "--bare", ".", str(tmp_path / "there"))
    repo.git("remote", "add", "origin", str(tmp_path / "there"))
    repo.commit("two")
    repo.commit("three")
    repo.git("push", "--quiet", "--set-upstream", "origin", "main")
    repo.git("reset", "--quiet", "--hard", "HEAD~1")
    repo.commit("another three")
    value = repo.call("git_status").value
    assert value.summary == "on main, 1 ahead of and 1 behind origin/main: nothing to commit"
    assert (value.data["upstream"], value.data["ahead"], value.data["behind"]) == (
        "origin/main",
        1,
        1,
    )


@pytest.mark.long
def test_detached_head_is_shown_as_no_branch(repo: Repo) -> None:
    repo.commit("one")
    repo.git("switch", "--quiet", "--detach")
    value = repo.call("git_status").value
    assert (value.summary, value.data["branch"]) == ("on no branch: nothing to commit", None)


@pytest.mark.long
def test_status_in_a_subfolder_covers_only_that_folder(repo: Repo) -> None:
    repo.commit("start", a="1\n")
    for name in ("a", "part/b", "part/c"):
        repo.write(name, "new\n")
    repo.git("add", "part/c")
    part = type(repo)(Project(repo.folder / "part"))
    part.worker()
    status = part.call("git_status").value.data
    assert (status["staged"], status["modified"], status["untracked"]) == (["c"], [], ["b"])
    assert "+++ b/c\n" in part.call("git_diff", staged=True).value.data


@pytest.mark.long
def test_very_many_files_are_cut(repo: Repo) -> None:
    for number in range(1010):
        repo.write(f"{number:04}")
    value = repo.call("git_status").value
    assert value.summary == "on main: 1010 untracked"
    assert (len(value.data["untracked"]), value.data["omitted"]) == (1000, {"untracked": 10})
    assert repo.by_hand("git_status").stdout.endswith("  ... and 10 more untracked\n")


@pytest.mark.long
def test_log_lists_commits_newest_first(repo: Repo) -> None:
    for subject in ("one", "two", "three: äöü"):
        repo.commit(subject, **{"a" if subject != "two" else "b": subject})
    value = repo.call("git_log", limit=2).value
    assert (value.kind, value.summary) == ("git.log", "2 commits")
    assert [(entry["subject"], entry["author"]) for entry in value.data] == [
        ("three: äöü", "Ada"),
        ("two", "Ada"),
    ]
    assert repo.git("rev-parse", "--short", "HEAD").strip() == value.data[0]["commit"]
    assert [entry["subject"] for entry in repo.call("git_log", path="b").value.data] == ["two"]
    assert repo.call("git_log", path="missing").value.summary == "no commits"
    assert repo.call("git_log", limit=0).status == "invalid"


@pytest.mark.long
def test_log_of_a_new_repository_is_empty(repo: Repo) -> None:
    assert (repo.call("git_log").value.data, repo.call("git_log").value.summary) == (
        [],
        "no commits",
    )


@pytest.mark.long
@pytest.mark.parametrize("tool", ["git_status", "git_diff", "git_log"])
def test_missing_repository_is_an_error(folder: Repo, tool: str) -> None:
    outcome = folder.call(tool)
    assert (outcome.status, outcome.error) == (
        "error",
        "the working directory is not a git repository; run git init to make it one",
    )


@pytest.mark.long
def test_git_folder_itself_is_an_error(repo: Repo) -> None:
    hidden = type(repo)(Project(repo.folder / ".git"))
    hidden.worker()
    assert "is not a work tree of git" in hidden.call("git_status").error


@pytest.mark.long
def test_missing_git_is_an_error(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repo.folder))
    assert repo.call("git_status").error == "git is not installed on this machine"


@pytest.mark.long
def test_reading_tools_are_pre_approved_with_low_risk(repo: Repo) -> None:
    rows = {
        row["name"]: row for row in json.loads(repo.project.forge("tools", "list", "--json").stdout)
    }
    assert {name: rows[name]["approval"] for name in rows if name.startswith("git_")} == {
        "git_status": "preApproved",
        "git_diff": "by rule",
        "git_log": "preApproved",
        "git_stage": "ask",
        "git_commit": "ask",
        "git_push": "by rule",
    }
    shown = json.loads(
        repo.project.forge(
            "tools", "show", "git_log", "--worker", "../worker.yaml", "--json"
        ).stdout
    )
    assert (shown["effects"], shown["risk"], shown["source"]) == (["read"], "low", "package")


@given(st.text(alphabet=st.sampled_from("12u?!# .MADRUC\0ab/0"), max_size=80))
def test_every_git_output_can_be_parsed(text: str) -> None:
    assert json.dumps(parse_status(text).data())
