"""A line is parsed once and judged once for each call.

Covers forge_cli.toolsets.shell.judged.
"""

import json
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from forge_cli.bashrules.allow.parser import read_line
from forge_cli.bashrules.judge import LineJudge
from forge_cli.core.events import ApprovalRequired, ToolResult
from forge_cli.testing import Project, call, calls

WATCHED = {read_line.__code__: "read", LineJudge.judge.__code__: "judged"}


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count how often a line is read and judged, as the interpreter sees it."""
    found: Counter[str] = Counter()

    def notice(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code in WATCHED:
            found[WATCHED[frame.f_code]] += 1

    before = sys.getprofile()
    threading.setprofile(notice)
    sys.setprofile(notice)
    try:
        yield found
    finally:
        sys.setprofile(before)
        threading.setprofile(before)


RULES = "[{pattern: git push, approval: blocked}, {pattern: touch, approval: ask}, {use: reading}, {use: testing}]"


@pytest.fixture
def worker(project: Project) -> Project:
    project.write("worker.yaml", f"name: w\ntoolsets: {{shell: {{try: off, rules: {RULES}}}}}\n")
    project.write("notes.txt", "hello\n")
    return project


@pytest.mark.parametrize(
    "line", ["touch made.txt", "ls > made.txt && frob x", "git add a; touch b", "f() { touch x; }"]
)
def test_asking_line_is_parsed_once_and_judged_once(worker: Project, line: str) -> None:
    with counted() as found:
        seen = worker.run(calls(call("shell", command=line)), "done", answers=[True], timeout=60)
    assert len(seen.of(ApprovalRequired)) == len(seen.of(ToolResult)) == 1
    assert found == {"read": 1, "judged": 1}


def test_line_with_a_possible_rule_set_is_judged_once_more(worker: Project) -> None:
    """By the sets to opt in to, which a person is offered if they would allow it."""
    with counted() as found:
        worker.run(calls(call("shell", command="make x")), "done", answers=[True], timeout=60)
    assert found == {"read": 1, "judged": 2}


def test_refused_line_is_parsed_once_and_judged_once(worker: Project) -> None:
    with counted() as found:
        worker.run(calls(call("shell", command="ls; git push")), "done", timeout=60)
    assert found["read"] == 1
    assert found["judged"] == 1


def test_allowed_line_is_parsed_once(worker: Project) -> None:
    """It may be judged again, without the confinement of a rule set and by the other rules."""
    with counted() as found:
        seen = worker.run(
            calls(call("shell", command="cat notes.txt | head -3")), "done", timeout=60
        )
    assert seen.of(ApprovalRequired) == []
    assert found["read"] == 1
    assert found["judged"] <= 3


def test_next_call_of_a_line_is_judged_by_the_current_files(
    worker: Project,
) -> None:
    worker.write("secret/.env", "KEY=1\n")
    link = "ln -sf secret/.env notes.txt"
    cat = call("shell", command="cat notes.txt")
    seen = worker.run(
        calls(cat),
        calls(call("shell", command=link)),
        calls(cat),
        "done",
        answers=[True, False],
        timeout=60,
    )
    first, second = seen.of(ApprovalRequired)
    assert (first.request.args["command"], second.request.args["command"]) == (
        link,
        "cat notes.txt",
    )
    assert "notes.txt leads to a file that may hold secrets" in second.request.reason


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../other/a", "goes up by '..'; a rule set knows other zones by absolute paths only"),
        ("/var/a", "may be outside of the zones"),
    ],
)
def test_reason_of_an_operand_outside_is_true_of_other_zones(
    project: Project, path: str, reason: str
) -> None:
    other = project.folder.parent / "other"
    other.mkdir()
    zones = "[{name: here, path: ., mode: rw}, {name: other, path: ../other, mode: ro}]"
    project.write(
        "worker.yaml",
        f"name: w\nsandbox: {{zones: {zones}}}\ntoolsets: {{shell: {{rules: [{{use: reading}}]}}}}\n",
    )
    argv = ("approve", "worker.yaml", "shell", "--json")
    judged = json.loads(project.forge(*argv, f"command=cat {path}").stdout)
    assert judged["reason"] == f"'cat {path}': {path} {reason}"
    judged = json.loads(project.forge(*argv, f"command=cat {other}/a").stdout)
    assert judged["verdict"] == "preApproved"
