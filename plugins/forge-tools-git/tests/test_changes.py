"""Staging, committing and pushing: permissions, previews and results."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from forge_cli import ApprovalDecision, InterruptSignal
from forge_cli.testing import call, calls

if TYPE_CHECKING:
    from conftest import Repo


def hook(repo: Repo, name: str, script: str) -> None:
    file = repo.folder / ".git/hooks" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


class TestStage:
    def test_asks_and_shows_what_it_would_stage(self, repo: Repo) -> None:
        repo.commit(a="1\n", b="1\n")
        for name in ("a", "b", "c"):
            repo.write(name, "2\n")
        seen = repo.seen(call("git_stage", paths=["a", "c"]), answers=[True])
        (request,) = seen.asked
        assert (
            request.risk,
            request.preview.data["modified"],
            request.preview.data["untracked"],
        ) == (
            "high",
            ["a"],
            ["c"],
        )
        assert seen.outcomes[0].value.summary == "on main: 2 staged, 1 modified"
        assert repo.git("diff", "--cached", "--name-only").split() == ["a", "c"]

    @pytest.mark.long
    @pytest.mark.parametrize("path", ["--patch", "-n", "*", ":/a", ":(glob)**"])
    def test_path_is_never_an_option_or_a_pattern(self, repo: Repo, path: str) -> None:
        repo.write("a")
        outcome = repo.call("git_stage", paths=[path], answers=[True])
        assert outcome.error == f"git: pathspec '{path}' did not match any files"
        assert repo.git("diff", "--cached", "--name-only") == ""

    @pytest.mark.long
    @pytest.mark.parametrize("paths", [["../x"], ["a", "/etc/passwd"]])
    def test_path_outside_the_working_directory_is_refused(
        self, repo: Repo, paths: list[str]
    ) -> None:
        repo.write("a")
        seen = repo.seen(call("git_stage", paths=paths), answers=[])
        assert (seen.statuses, seen.asked) == (["error"], [])

    @pytest.mark.long
    def test_ignored_files_are_reported(self, repo: Repo) -> None:
        repo.write(".gitignore", "a\n")
        repo.write("a")
        assert (
            "ignored by one of your .gitignore files"
            in repo.call("git_stage", paths=["a"], answers=[True]).error
        )

    @pytest.mark.long
    def test_filters_are_applied(self, repo: Repo) -> None:
        repo.git("config", "filter.upper.clean", "tr a-z A-Z")
        repo.write(".gitattributes", "*.up filter=upper\n")
        repo.write("x.up", "quiet\n")
        repo.call("git_stage", paths=["x.up"], answers=[True])
        assert repo.git("show", ":x.up") == "QUIET\n"


class TestCommit:
    @pytest.fixture
    def ready(self, repo: Repo) -> Repo:
        repo.commit("start", a="one\n")
        repo.write("a", "two\n")
        repo.git("add", "a")
        return repo

    @pytest.mark.long
    def test_shows_the_staged_diff_and_commits(self, ready: Repo) -> None:
        message = '# Say two\n\nBecause -- of $(things) and "quotes".\n'
        seen = ready.seen(call("git_commit", message=message), answers=[True])
        (request,) = seen.asked
        assert (request.preview.kind, request.risk) == ("git.diff", "high")
        assert "-one\n+two\n" in request.preview.data
        assert "[main " in seen.outcomes[0].value.content
        assert ready.git("log", "-1", "--format=%B").strip() == message.strip()
        assert ready.git("show", "HEAD:a") == "two\n"

    @pytest.mark.long
    def test_complete_staged_diff_is_shown(self, repo: Repo) -> None:
        repo.write(".env", "password\n")
        repo.write("part/a")
        repo.git("add", "--all")
        part = type(repo)(type(repo.project)(repo.folder / "part"))
        part.worker()
        (request,) = part.seen(call("git_commit", message="x"), answers=[False]).asked
        assert "+password" in request.preview.data
        assert "b/part/a" in request.preview.data

    @pytest.mark.long
    def test_commit_always_asks_despite_pre_approval(self, ready: Repo) -> None:
        ready.worker("{approval: {default: preApproved}}")
        assert ready.call("git_commit", message="x").status == "denied"
        assert ready.by_hand("git_commit", "message=x").returncode == 4
        assert ready.git("log", "--format=%s").split() == ["start"]

    @pytest.mark.long
    def test_nothing_is_asked_without_staged_changes(self, repo: Repo) -> None:
        repo.commit(a="1\n")
        repo.write("a", "2\n")
        seen = repo.seen(call("git_commit", message="x"), answers=[])
        assert seen.asked == []
        assert seen.outcomes[0].error.startswith("nothing is staged, so there is nothing to commit")

    @pytest.mark.long
    def test_change_during_the_question_is_shown_again(self, ready: Repo) -> None:
        shown: list[str] = []

        async def slow_person(request: Any) -> ApprovalDecision:
            shown.append(request.preview.data)
            if len(shown) == 1:
                ready.write("a", "three\n")
                ready.git("add", "a")
            return ApprovalDecision(True)

        seen = ready.seen(call("git_commit", message="x"), approval_callback=slow_person)
        assert seen.statuses == ["success"]
        assert ["+two" in patch for patch in shown] == [True, False]
        assert "+three" in shown[1]

    @pytest.mark.long
    def test_session_grant_covers_only_this_content(self, ready: Repo) -> None:
        ready.write("b")
        ready.worker("{approval: {tools: {git_stage: preApproved}}}")
        yes = ApprovalDecision(True, remember="session")
        made = [
            call("git_commit", message="x"),
            call("git_stage", paths=["b"]),
            call("git_commit", message="x"),
        ]
        seen = ready.project.run(
            *(calls(one) for one in made), "done", worker="../worker.yaml", answers=[yes, yes]
        )
        assert seen.statuses == ["success"] * 3
        assert [request.preview.data.count("diff --git") for request in seen.asked] == [1, 1]

    @pytest.mark.long
    def test_hooks_run_and_may_refuse(self, ready: Repo) -> None:
        hook(ready, "pre-commit", "echo 'no tests, no commit' >&2; exit 1")
        outcome = ready.call("git_commit", message="x", answers=[True])
        assert (outcome.status, outcome.error) == ("error", "git: no tests, no commit")

    @pytest.mark.long
    def test_hooks_see_no_keys_of_providers(
        self, ready: Repo, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
        hook(ready, "pre-commit", "env > seen; exit 0")
        assert ready.call("git_commit", message="x", answers=[True]).status == "success"
        seen = (ready.folder / "seen").read_text()
        assert "sk-secret" not in seen
        assert f"HOME={os.environ['HOME']}" in seen

    @pytest.mark.long
    def test_background_program_of_a_hook_delays_nothing(self, ready: Repo) -> None:
        ready.worker(sandbox="{isolation: off}")
        hook(ready, "post-commit", "sleep 30 & echo $! > ../pid")
        outcome = ready.call("git_commit", message="x", answers=[True])
        assert outcome.status == "success"
        with pytest.raises(ProcessLookupError):
            os.kill(int((ready.folder.parent / "pid").read_text()), 0)
        assert outcome.duration_ms < 20_000

    def test_interrupt_ends_git_and_its_children(self, ready: Repo) -> None:
        pipe, signal = ready.folder / "pipe", InterruptSignal()
        os.mkfifo(pipe)
        hook(ready, "pre-commit", "exec 3>pipe; echo ready >&3; sleep 60")

        def interrupt() -> None:
            with pipe.open() as lines:
                assert lines.readline() == "ready\n"
                signal.interrupt()
                lines.read()  # ends once nobody holds the pipe any more

        watcher = threading.Thread(target=interrupt, daemon=True)
        watcher.start()
        seen = ready.seen(call("git_commit", message="x"), answers=[True], interrupt_signal=signal)
        watcher.join(20)
        assert not watcher.is_alive()
        assert seen.statuses == ["interrupted"]

    def test_missing_identity_is_reported(self, ready: Repo) -> None:
        Path(os.environ["HOME"], ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")
        assert (
            "Please tell me who you are"
            in ready.call("git_commit", message="x", answers=[True]).error
        )


class TestPush:
    @pytest.fixture
    def remote(self, repo: Repo, tmp_path: Path) -> Path:
        repo.worker(sandbox="{isolation: off}")
        repo.commit("one")
        repo.git("init", "--quiet", "--bare", str(tmp_path / "there"))
        repo.git("remote", "add", "origin", str(tmp_path / "there"))
        return tmp_path / "there"

    def subjects(self, repo: Repo, remote: Path) -> list[str]:
        return repo.git("-C", str(remote), "log", "--format=%s", "main", check=False).split()

    def test_model_cannot_push(self, repo: Repo, remote: Path) -> None:
        outcome = repo.call("git_push", branch="main", answers=[])
        assert (outcome.status, outcome.error) == (
            "blocked",
            "git_push can only be called by a person",
        )
        assert self.subjects(repo, remote) == []

    @pytest.mark.long
    def test_person_can_push(self, repo: Repo, remote: Path) -> None:
        done = repo.by_hand("git_push", "--branch", "main")
        assert (done.returncode, done.stderr) == (0, "")
        assert "main -> main" in done.stdout
        assert self.subjects(repo, remote) == ["one"]
        assert "up-to-date" in repo.by_hand("git_push", "branch=main").stdout

    @pytest.mark.long
    def test_force_asks(self, repo: Repo, remote: Path) -> None:
        repo.by_hand("git_push", "branch=main")
        repo.git("commit", "--quiet", "--amend", "--allow-empty", "-m", "other")
        refused = repo.by_hand("git_push", "branch=main")
        assert refused.returncode == 1
        assert "rejected" in refused.stderr
        denied = repo.by_hand("git_push", "branch=main", "--force")
        assert (denied.returncode, self.subjects(repo, remote)) == (4, ["one"])
        assert repo.by_hand("git_push", "branch=main", "--force", "-y").returncode == 0
        assert self.subjects(repo, remote) == ["other"]

    @pytest.mark.long
    @pytest.mark.few(3)
    @pytest.mark.parametrize(
        "branch",
        ["missing", "+main", ":main", "main:other", "-f", "--mirror", "HEAD", "@{-1}", "*"],
    )
    def test_only_a_local_branch_is_pushed(self, repo: Repo, remote: Path, branch: str) -> None:
        done = repo.by_hand("git_push", f"branch={branch}")
        assert (done.returncode, done.stderr) == (
            1,
            f"forge: there is no local branch '{branch}'\n",
        )
        assert self.subjects(repo, remote) == []

    @pytest.mark.long
    @pytest.mark.few(1)
    @pytest.mark.parametrize("name", ["upstream", "--receive-pack=touch x", "../there"])
    def test_push_needs_a_configured_remote(self, repo: Repo, remote: Path, name: str) -> None:
        done = repo.by_hand("git_push", "branch=main", f"remote={name}")
        assert done.stderr == f"forge: there is no remote '{name}'; known remotes: origin\n"
        assert self.subjects(repo, remote) == []

    @pytest.mark.long
    def test_push_has_a_label_in_menus(self, repo: Repo) -> None:
        (menu,) = [
            line["tools"]
            for line in repo.seen(call("git_status")).lines
            if line["type"] == "manualToolsAvailable"
        ]
        (entry,) = menu
        assert (entry["name"], entry["label"], entry["category"]) == (
            "git_push",
            "Push to Remote",
            "Git",
        )
