"""A line that only the rule set for reading allows can print and do nothing else; otherwise it asks.

Covers forge_cli.sandbox.trial.reading.
"""

import os
import socket
import subprocess

import pytest

from forge_cli import ApprovalRequest
from forge_cli.core.events import ApprovalRequired, ToolResult
from forge_cli.core.trial import CommandTried
from forge_cli.testing import Project, Seen, call, calls

pytestmark = pytest.mark.needs("overlay")

WORKER = "name: w\ntoolsets: {shell: {rules: [{use: reading}]%s}}\n"


@pytest.fixture
def reader(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A worker that may read, in a folder with secrets, and a program there that is asked for its version."""
    project.write("worker.yaml", WORKER % "")
    project.write("notes.txt", "hello\n")
    project.write(".env", "KEY=sekret\n")
    project.write("sub/.env.local", "KEY=sekret\n")
    project.write("sub/.env.example", "KEY=\n")
    monkeypatch.setenv("PATH", f"{project.folder}/bin{os.pathsep}{os.environ['PATH']}")
    return project


def plant(reader: Project, script: str) -> None:
    reader.write("bin/node", f"#!/bin/bash\n{script}\necho v22\n").chmod(0o755)


def run(reader: Project, line: str = "node --version", **options: object) -> Seen:
    return reader.run(calls(call("shell", command=line)), "done", timeout=60, **options)


def result(seen: Seen) -> ToolResult:
    (found,) = seen.of(ToolResult)
    return found


def printed(seen: Seen) -> str:
    return str(result(seen).value.data["stdout"])  # type: ignore[union-attr]


def reason(seen: Seen) -> str:
    (asked,) = seen.of(ApprovalRequired)
    assert isinstance(asked.request, ApprovalRequest)
    return asked.request.reason


def test_reading_line_returns_its_result_without_asking(reader: Project) -> None:
    plant(reader, "cat notes.txt sub/.env.example; stat -c %s .env; touch /tmp/scratch")
    seen = run(reader)
    assert printed(seen) == "hello\nKEY=\n11\nv22\n"
    assert (seen.of(ApprovalRequired), seen.of(CommandTried)) == ([], [])


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("script", "wanted"),
    [
        ("echo more >> notes.txt", "notes.txt, which is read-only"),
        ("(echo more >> notes.txt) 2>/dev/null", "notes.txt, which is read-only"),
        ("rm -f notes.txt 2>&1 | true", "notes.txt, which is read-only"),
        ("mkdir made 2>/dev/null", "made, which is read-only"),
        ("chmod 600 notes.txt 2>/dev/null", "notes.txt, which is read-only"),
        ("cat .env", ".env, which may hold secrets"),
        ("cat .env >/dev/null 2>&1 & wait", ".env, which may hold secrets"),
        ("cat */.env.l*", "sub/.env.local, which may hold secrets"),
        ("(exec 3<>/dev/tcp/reads.example/80) 2>/dev/null", "the network ("),
        ("(exec 3<>/dev/tcp/192.0.2.77/80) 2>/dev/null", "the network ("),
    ],
)
def test_reading_line_that_needs_more_asks_with_the_reason(
    reader: Project, script: str, wanted: str
) -> None:
    plant(reader, script)
    seen = run(reader, answers=[False])
    assert wanted in reason(seen)
    assert (result(seen).status, reader.read("notes.txt")) == ("denied", "hello\n")
    assert "sekret" not in str(seen.events)


def test_yes_runs_it_like_any_other_line(reader: Project) -> None:
    plant(reader, "echo more >> notes.txt; cat .env")
    seen = run(reader, answers=[True])
    assert (result(seen).status, reader.read("notes.txt")) == ("success", "hello\nmore\n")
    assert "KEY=" in printed(seen)


def test_yes_applies_the_effects_of_the_trial(reader: Project) -> None:
    plant(reader, "echo more >> notes.txt")
    seen = run(reader, answers=[True])
    assert [each.path for each in seen.of(CommandTried)[0].changed] == ["notes.txt"]
    assert reader.read("notes.txt") == "hello\nmore\n"


def test_reading_line_that_needs_more_is_refused_if_the_default_blocks(reader: Project) -> None:
    reader.write("worker.yaml", WORKER % ", default: blocked")
    plant(reader, "cat .env")
    seen = run(reader, answers=[True])
    assert (result(seen).status, seen.of(ApprovalRequired)) == ("blocked", [])
    assert "it wanted " in str(result(seen).error)


def test_reading_line_that_needs_more_is_denied_without_a_person(reader: Project) -> None:
    plant(reader, "echo more >> notes.txt; echo x > sub/.env.local")
    seen = run(reader)
    assert (result(seen).status, reader.read("notes.txt")) == ("denied", "hello\n")
    assert reader.read("sub/.env.local") == "KEY=sekret\n"


def test_local_server_is_not_reachable(reader: Project) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        plant(reader, f"(exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]}) 2>/dev/null")
        assert "it wanted the network" in reason(run(reader, answers=[False]))
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_variables_of_the_worker_are_not_set(
    reader: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SETTING", "ordinary")
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_0123456789")
    reader.write("worker.yaml", WORKER % ", env: [GITHUB_TOKEN, MY_SETTING]")
    plant(reader, "env")
    assert "GIT_OPTIONAL_LOCKS=0" in printed(seen := run(reader))
    assert not {"GITHUB_TOKEN", "MY_SETTING"} & {
        line.partition("=")[0] for line in printed(seen).splitlines()
    }
    for line in (
        "printenv GITHUB_TOKEN",
        'echo "$MY_SETTING"',
        "awk 'BEGIN{print ENVIRON[\"MY_SETTING\"]}'",
    ):
        seen = run(reader, line, answers=[False])
        assert (len(seen.of(ApprovalRequired)), result(seen).status) == (1, "denied"), line
        assert "ghp_0123456789" not in str(seen.events)


def test_rule_that_allows_it_runs_it_unlimited(reader: Project) -> None:
    reader.write(
        "worker.yaml",
        "name: w\ntoolsets: {shell: {rules: [{use: reading}, {pattern: node, approval: preApproved}]}}\n",
    )
    plant(reader, "echo more >> notes.txt")
    assert result(run(reader)).status == "success"
    assert reader.read("notes.txt") == "hello\nmore\n"


def test_git_reads_a_repository_with_environment_settings_in_it(reader: Project) -> None:
    """Git looks at a file again whose times differ from its index: stand-ins are not taken for such."""

    def git(*words: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words],
            cwd=reader.folder,
            check=True,
        )

    git("init", "-q")
    git("add", "-f", ".")
    git("commit", "-qm", "all")
    os.utime(reader.folder / ".git/index", (2_000_000_000, 2_000_000_000))
    for line in (
        "git status --short",
        "git diff",
        "git diff HEAD",
        "git log --oneline | wc -l",
        "git ls-files -m",
    ):
        seen = run(reader, line)
        assert (seen.of(ApprovalRequired), result(seen).status) == ([], "success"), (
            line,
            str(seen.of(ApprovalRequired)),
        )
    reader.write("notes.txt", "hello world\n")
    assert printed(run(reader, "git status --short")) == " M notes.txt\n"


def asks_of_each(reader: Project, lines: list[str]) -> list[str]:
    """The lines that ask, each by its reason; none of them prints a secret."""
    seen = reader.run(
        *(calls(call("shell", command=line)) for line in lines),
        "done",
        answers=[False] * len(lines),
    )
    assert "sekret" not in str(seen.events)
    return [
        asked.request.reason
        for asked in seen.of(ApprovalRequired)
        if isinstance(asked.request, ApprovalRequest)
    ]


@pytest.mark.needs("rg")
@pytest.mark.parametrize("name", [".ignore", ".rgignore", "sub/.ignore"])
def test_search_that_an_ignore_file_opens_to_secrets_asks(reader: Project, name: str) -> None:
    reader.write("sub/notes.txt", "KEY=none\n")
    free = ["rg KEY sub", "rg -l KEY | xargs cat", "rg --files | xargs cat"]
    assert asks_of_each(reader, free) == []
    reader.write(name, "!.env*\n!/sub/.env*\n")
    assert len(asks_of_each(reader, free)) == len(free)


def test_indirect_access_to_a_secret_asks(reader: Project) -> None:
    os.symlink("../.env", reader.folder / "sub/settings.txt")
    lines = [
        "find sub -name 'set*' | xargs cat",
        "wc -l $(find . -name '*.txt')",
        "grep -R KEY sub/settings.txt sub",
        "find -L sub -name '*.txt' -exec grep KEY {} +",
        "for f in $(find sub -name '*.txt'); do head -1 $f; done",
    ]
    assert len(asks_of_each(reader, lines)) == len(lines)


def test_git_comparison_of_plain_folders_asks_for_secrets(reader: Project) -> None:
    reader.write("one/a.txt", "x\n")
    reasons = asks_of_each(
        reader, ["git diff one sub", "git diff --stat sub one", "git diff --no-index one sub"]
    )
    assert len(reasons) == 3


def test_file_name_that_looks_like_an_option_writes_nothing(reader: Project) -> None:
    reader.write("-onotes.txt", "x\n")
    assert (
        len(
            asks_of_each(
                reader,
                ["find -name '*.txt' -printf '%f\\n' | xargs sort", "ls | grep txt | xargs sort"],
            )
        )
        == 2
    )
    assert reader.read("notes.txt") == "hello\n"


def test_files_outside_the_zones_are_not_visible(reader: Project) -> None:
    outside = reader.folder.parent / "outside"
    outside.mkdir()
    (outside / "file.txt").write_text("sekret\n")
    os.symlink(outside, reader.folder / "linked")
    os.symlink(outside / "file.txt", reader.folder / "sub/file.txt")
    asks_of_each(
        reader,
        [
            "grep -R sek.et .",
            "find . -name '*.txt' | xargs cat",
            "find -L . -name '*.txt'",
            "ls -RL .",
        ],
    )
