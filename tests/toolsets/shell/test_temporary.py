"""One ``/tmp`` for all lines of a session: files of a trial stay if it is applied or has no other effect.

Covers forge_cli.toolsets.shell.trying, forge_cli.sandbox.worker_processes, forge_cli.engine.runtime.assemble.
"""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from forge_cli.core.events import ApprovalRequired, ToolResult
from forge_cli.testing import Project, Seen, call, calls

pytestmark = pytest.mark.needs("overlay")

WORKER = (
    "name: w\ntoolsets: {shell: {rules: [{pattern: tee, approval: preApproved}, {use: reading}]}}\n"
)
LIST = "cd /tmp; ls -d z* z*/* 2>/dev/null; cat z* z*/* 2>/dev/null | sort -u"
"""Files whose names begin with a z: the folder of the test itself is in ``/tmp``, too."""


@pytest.fixture
def shell(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    return project


def run(project: Project, *lines: str, **options: object) -> Seen:
    turns = [calls(call("shell", command=line)) for line in lines]
    return project.run(*turns, "done", timeout=60, **options)


def last(seen: Seen) -> str:
    value = seen.of(ToolResult)[-1].value
    return str(value.data["stdout"])  # type: ignore[union-attr]


def test_temporary_files_of_a_line_without_effects_stay(shell: Project) -> None:
    seen = run(shell, "echo hi > /tmp/z.txt", "mkdir /tmp/zd && mv /tmp/z.txt /tmp/zd/m.txt", LIST)
    assert (last(seen), seen.of(ApprovalRequired)) == ("zd\nzd/m.txt\nhi\n", [])


def test_temporary_files_of_an_applied_line_stay(shell: Project) -> None:
    seen = run(shell, "echo hi | tee /tmp/z.txt > made", LIST, answers=[True])
    assert (last(seen), shell.read("made")) == ("z.txt\nhi\n", "hi\n")


def test_temporary_files_of_a_denied_line_are_removed(shell: Project) -> None:
    seen = run(
        shell,
        "echo kept > /tmp/zk",
        "echo hi > /tmp/z.txt; rm /tmp/zk; touch made",
        LIST,
        answers=[False],
    )
    assert last(seen) == "zk\nkept\n"


def test_temporary_files_of_an_incomplete_trial_are_removed_before_the_real_run(
    shell: Project,
) -> None:
    shell.write(".env", "KEY=1\n")
    line = "cat .env 2>/dev/null > /tmp/zcopied; echo 1 >> /tmp/zcount"
    assert last(run(shell, line, LIST, answers=[False])) == ""
    assert last(run(shell, line, LIST, answers=[True])) == "zcopied\nzcount\n1\nKEY=1\n"


def test_untried_lines_share_the_temporary_folder(shell: Project) -> None:
    seen = run(shell, "echo one | tee /tmp/a", "cat /tmp/a; echo two >> /tmp/a", "cat /tmp/a")
    assert (last(seen), seen.of(ApprovalRequired)) == ("one\ntwo\n", [])
    shell.write("worker.yaml", "name: w\ntoolsets: {shell: {try: off}}\n")
    assert last(run(shell, "echo one > /tmp/a", "cat /tmp/a", answers=[True, True])) == "one\n"


def test_temporary_folder_belongs_to_one_session_and_is_removed(
    shell: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = os.listdir(tmp_path)
    run(shell, "echo hi > /tmp/z.txt")
    assert last(run(shell, LIST)) == ""
    assert os.listdir(tmp_path) == before


def test_program_in_the_temporary_folder_can_be_started(shell: Project) -> None:
    seen = run(shell, "printf '#!/bin/sh\\necho made\\n' > /tmp/run; chmod +x /tmp/run", "/tmp/run")
    assert last(seen) == "made\n"


def cache(project: Project, more: str = "", line: str = "echo ${XDG_CACHE_HOME:-none}") -> str:
    project.write("worker.yaml", f"name: w\n{more}")
    done = project.forge(
        "tools", "call", "shell", "--worker", "worker.yaml", f"command={line}", "-y"
    )
    return done.stdout


def test_caches_of_a_session_are_in_its_temporary_folder(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    (tmp_path / ".cache/tool").mkdir(parents=True)
    assert cache(project, "toolsets: {shell: {}}\n") == "/tmp/.cache\n"
    assert (
        cache(
            project, f"sandbox: {{read: ['{tmp_path}/.cache/tool']}}\ntoolsets: {{shell: {{}}}}\n"
        )
        == "none\n"
    )
    monkeypatch.setenv("XDG_CACHE_HOME", "/mine")
    assert cache(project, "toolsets: {shell: {env: [XDG_CACHE_HOME]}}\n") == "/mine\n"
    assert cache(project, "sandbox: {isolation: 'off'}\ntoolsets: {shell: {}}\n") == "none\n"


@pytest.mark.skipif(shutil.which("go") is None, reason="go is not installed")
def test_go_cache_is_found_in_the_next_call(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as home:
        monkeypatch.setenv("HOME", home)
        project.write("worker.yaml", "name: w\ntoolsets: {shell: {rules: [{use: testing}]}}\n")
        project.write("go.mod", "module x\n\ngo 1.18\n")
        project.write("x_test.go", 'package x\n\nimport "testing"\n\nfunc TestX(t *testing.T) {}\n')
        seen = run(project, "go test ./...", "go test ./...")
    assert "(cached)" in last(seen)
