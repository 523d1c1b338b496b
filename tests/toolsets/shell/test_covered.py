"""A line that only rule sets allow which promise no effect: caches are dropped, redirections written, the rest asks.

Covers forge_cli.sandbox.trial.caches.
"""

import os
from collections.abc import Sequence

import pytest

from forge_cli import ApprovalRequest
from forge_cli.core.events import ApprovalRequired, ToolResult
from forge_cli.testing import Project, Seen, call, calls

pytestmark = pytest.mark.needs("overlay")

SETS = "rules: [{use: reading}, {use: linting}]"
TAG = "Signature: 8a477f597d28d172789f06886806bc55"


@pytest.fixture
def linter(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A worker that may read and lint, with a linter of its own in a folder that may be written."""
    settle(project, SETS)
    project.write("notes.txt", "hello\n")
    project.write(".env", "KEY=sekret\n")
    monkeypatch.setenv("PATH", f"{project.folder}/bin{os.pathsep}{os.environ['PATH']}")
    return project


def settle(project: Project, rules: str) -> None:
    zone = "{name: workspace, path: ., mode: rw, approval: {write: preApproved}}"
    project.write(
        "worker.yaml", f"name: w\nsandbox: {{zones: [{zone}]}}\ntoolsets: {{shell: {{{rules}}}}}\n"
    )


def plant(project: Project, script: str) -> None:
    project.write("bin/flake8", f"#!/bin/bash\n{script}\n").chmod(0o755)


def run(project: Project, line: str, answers: Sequence[bool] = ()) -> Seen:
    return project.run(
        calls(call("shell", command=line)), "done", timeout=60, answers=list(answers)
    )


def status(seen: Seen) -> str:
    return seen.of(ToolResult)[0].status


def reasons(seen: Seen) -> list[str]:
    return [
        asked.request.reason
        for asked in seen.of(ApprovalRequired)
        if isinstance(asked.request, ApprovalRequest)
    ]


@pytest.mark.parametrize(
    "script",
    [
        "echo fine",
        "mkdir -p .mypy_cache/3.11 && echo 1 > .mypy_cache/3.11/x",
        f"mkdir -p out/deep && echo '{TAG}' > out/CACHEDIR.TAG && echo 1 > out/deep/x",
        "echo 1 > app.tsbuildinfo",
        "echo x > notes.txt; echo hello > notes.txt; touch -r worker.yaml notes.txt; touch -d @1 notes.txt; exit 0",
    ],
)
def test_linter_that_writes_only_caches_does_not_ask(linter: Project, script: str) -> None:
    os.utime(linter.folder / "notes.txt", (1, 1))
    before = sorted(linter.folder.rglob("*"))
    plant(linter, script)
    seen = run(linter, "flake8 .")
    assert (reasons(seen), status(seen)) == ([], "success")
    assert sorted(linter.folder.rglob("*")) == sorted(
        [*before, linter.folder / "bin", linter.folder / "bin/flake8"]
    )


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("echo more >> notes.txt", "it changed notes.txt"),
        ("rm notes.txt", "it changed notes.txt"),
        ("echo 'Signature: 0' > CACHEDIR.TAG", "it changed CACHEDIR.TAG"),
        ("for i in 1 2 3 4 5 6 7; do echo > made$i; done", "and 2 others"),
        ("cat .env", ".env, which may hold secrets"),
        ("(exec 3<>/dev/tcp/lints.example/80) 2>/dev/null", "the network (lints.example:80)"),
    ],
)
def test_linter_with_an_effect_asks(linter: Project, script: str, told: str) -> None:
    plant(linter, script)
    seen = run(linter, "flake8 .", [False])
    assert told in reasons(seen)[0]
    assert (status(seen), linter.read("notes.txt")) == ("denied", "hello\n")
    assert "sekret" not in str(seen.events)


def test_yes_applies_the_effect(linter: Project) -> None:
    plant(linter, "echo more >> notes.txt")
    assert status(run(linter, "flake8 .", [True])) == "success"
    assert linter.read("notes.txt") == "hello\nmore\n"


def test_linter_with_an_effect_is_refused_if_the_default_blocks(linter: Project) -> None:
    settle(linter, f"{SETS}, default: blocked")
    plant(linter, "echo more >> notes.txt")
    seen = run(linter, "flake8 .", [True])
    assert (reasons(seen), status(seen)) == ([], "blocked")
    assert linter.read("notes.txt") == "hello\n"


def test_findings_of_a_linter_are_the_result(linter: Project) -> None:
    plant(linter, "echo notes.txt:1: bad; exit 1")
    seen = run(linter, "flake8 . | head -3; flake8 src")
    assert (reasons(seen), status(seen)) == ([], "error")
    assert seen.of(ToolResult)[0].value.data["stdout"] == "notes.txt:1: bad\n" * 2  # type: ignore[union-attr]


def test_redirection_permits_no_other_effect(linter: Project) -> None:
    plant(linter, "echo more >> notes.txt; cat .env; echo fine")
    seen = run(linter, "cat notes.txt > copy.txt; head -1 worker.yaml >> copy.txt")
    assert (reasons(seen), linter.read("copy.txt")) == ([], "hello\nname: w\n")
    seen = run(linter, "flake8 --version > version.txt", [False])
    assert "notes.txt" in reasons(seen)[0] or ".env" in reasons(seen)[0]
    assert not (linter.folder / "version.txt").exists()


def test_rule_that_allows_the_linter_lets_it_write(linter: Project) -> None:
    settle(linter, "rules: [{use: linting}, {pattern: flake8, approval: preApproved}]")
    plant(linter, "echo more >> notes.txt")
    assert status(run(linter, "flake8 .")) == "success"
    assert linter.read("notes.txt") == "hello\nmore\n"


def test_linter_runs_like_any_line_if_trials_are_off(linter: Project) -> None:
    settle(linter, f"{SETS}, try: off")
    plant(linter, "echo more >> notes.txt")
    assert status(run(linter, "flake8 .")) == "success"
    assert linter.read("notes.txt") == "hello\nmore\n"


def test_files_in_the_shared_temporary_folder_stay_there(linter: Project) -> None:
    plant(linter, "echo found > /tmp/report; cat /tmp/report")
    seen = linter.run(
        calls(call("shell", command="flake8 .")),
        calls(call("shell", command="cat /tmp/report")),
        "done",
        answers=[True],
    )
    assert [each.value.data["stdout"] for each in seen.of(ToolResult)] == ["found\n"] * 2  # type: ignore[union-attr]
