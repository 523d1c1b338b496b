"""Several drafts of one task, and the check that decides between them.

Covers forge_cli.cli.attempts, forge_cli.engine.runtime.draft_check.
"""

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from forge_cli.testing import Project, call, calls
from tests.support.deadline import deadline
from tests.support.logs import script

pytestmark = [pytest.mark.needs("overlay")]

WORKER = """
name: drafter
model: script:script.yaml
sandbox: {zones: [{name: code, path: ., mode: rw}]}
toolsets: {filesystem: {}, shell: {}}
"""
WRITE = calls(call("write_file", path="made.txt", content="good\n"))


@pytest.fixture
def drafter(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    script(project, WRITE, "the answer")
    return project


def run(project: Project, *flags: str) -> Any:
    return project.forge("run", "worker.yaml", "go", *flags)


def drafts(project: Project) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(project.forge("drafts", "list", "--json").stdout)
    return found


def texts(project: Project) -> list[str]:
    return sorted(path.name for path in project.folder.glob("*.txt"))


def test_check_that_passes_lets_the_draft_be_applied_unseen(drafter: Project) -> None:
    done = run(drafter, "--draft", "--check", "grep good made.txt", "--on-end", "apply", "-p")
    assert done.returncode == 0, done
    assert done.stdout == "the answer\n"
    assert texts(drafter) == ["made.txt"]


def test_check_that_fails_fails_the_task_and_keeps_the_draft(drafter: Project) -> None:
    check = "seq 1 30; cat made.txt; exit 3"
    done = run(drafter, "--draft", "--check", check, "--on-end", "apply", "--output-format", "json")
    assert done.returncode == 1, done
    result = json.loads(done.stdout)
    assert result["status"] == "failed"
    assert "ended with 3" in result["error"]
    assert result["draft"]["state"] == "ready"
    assert result["draft"]["check"]["exitCode"] == 3
    lines = result["draft"]["check"]["output"].split("\n")
    assert (lines[0], lines[-1], len(lines)) == ("12", "good", 20)
    assert texts(drafter) == []
    assert [each["state"] for each in drafts(drafter)] == ["ready"]


def test_check_is_confined_and_sees_only_the_view(drafter: Project) -> None:
    outside = drafter.folder.parent / "outside"
    check = f"touch {outside}; echo more >> made.txt"
    run(drafter, "--draft", "--check", check, "-p")
    assert not outside.exists()
    assert texts(drafter) == []


def test_first_attempt_that_passes_is_offered_and_the_others_wait(drafter: Project) -> None:
    done = run(drafter, "--attempts", "3", "--check", "test -e made.txt", "--json")
    assert done.returncode == 0, done
    end = json.loads(done.stdout.splitlines()[-1])
    offered = end["result"]["draft"]
    assert offered["check"]["exitCode"] == 0
    assert len(offered["attempts"]) == 3
    assert {each["id"] for each in drafts(drafter)} == set(offered["attempts"])
    assert len({each["session"] for each in drafts(drafter)}) == 3
    assert done.stderr.count("its check passed first") == 1
    assert done.stderr.count("its check passed, too") == 2
    applied = drafter.forge("drafts", "apply", "last")
    assert offered["id"] in applied.stdout
    assert texts(drafter) == ["made.txt"]
    assert drafts(drafter) == []


def test_offered_attempt_is_applied_at_once_if_that_is_wanted(drafter: Project) -> None:
    flags = ("--attempts", "2", "--check", "true", "--on-end", "apply", "-p", "-o", "answer.md")
    done = run(drafter, *flags)
    assert done.returncode == 0, done
    assert done.stdout == "the answer\n"
    assert (drafter.folder / "answer.md").read_text() == "the answer\n"
    assert texts(drafter) == ["made.txt"]
    assert drafts(drafter) == []


def test_no_attempt_that_passes_is_a_failure_with_each_reason(drafter: Project) -> None:
    done = run(drafter, "--attempts", "2", "--check", "echo so wrong; false", "-p")
    assert done.returncode == 1, done
    assert done.stdout == ""
    assert "no attempt passed its check; nothing was applied" in done.stderr
    assert done.stderr.count("so wrong") == 4  # in the command and in the output, twice
    assert len(drafts(drafter)) == 2
    assert texts(drafter) == []


def test_attempts_that_fail_before_their_check_say_why(drafter: Project) -> None:
    (drafter.folder / "script.yaml").unlink()
    done = run(drafter, "--attempts", "2", "--check", "true", "-p")
    assert done.returncode == 1, done
    assert done.stderr.count("before its check") == 2
    assert "script.yaml" in done.stderr
    assert drafts(drafter) == []


def test_interrupt_stops_the_check_of_every_attempt(drafter: Project) -> None:
    argv = [sys.executable, "-m", "forge_cli", "run", "worker.yaml", "go", "--attempts", "2"]
    env = {**os.environ, "FORGE_HOME": str(drafter.home)}
    started = subprocess.Popen(
        [*argv, "--check", "touch checking; sleep 300"],
        cwd=drafter.folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with deadline(60):
        while len(list((drafter.home / "drafts").glob("*/*/upper/checking"))) < 2:
            time.sleep(0.05)
    started.send_signal(signal.SIGINT)
    assert started.wait(60) == 130
    assert [each["state"] for each in drafts(drafter)] == ["ready", "ready"]


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--attempts", "2"), "--attempts needs --check"),
        (("--attempts", "0", "--check", "true"), "at least 1"),
        (("--attempts", "17", "--check", "true"), "16"),
        (("--check", "true"), "--check needs a draft"),
        (("--draft", "--check", " "), "--check is empty"),
        (("--attempts", "2", "--check", "true", "-i"), "-i and --check contradict"),
        (("--attempts", "2", "--check", "true", "-b"), "-b and --attempts contradict"),
        (("--attempts", "2", "--check", "true", "-c"), "--attempts and -c contradict"),
        (("--attempts", "2", "--check", "true", "--ephemeral"), "--ephemeral contradict"),
        (("--draft", "--on-end", "apply"), "--on-end apply takes changes"),
    ],
)
def test_flags_that_cannot_be_followed_are_one_sentence(
    drafter: Project, flags: tuple[str, ...], sentence: str
) -> None:
    done = run(drafter, *flags)
    assert done.returncode == 2, done
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert drafts(drafter) == []
