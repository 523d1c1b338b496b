"""Killed at any system call that changes a file, a session still takes a yes: the call that asked is made once."""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from forge_cli.record.log import read_session
from forge_cli.testing import Project
from tests.support.faults.effects import TOOLS

from .test_kills import MOST, killed, logs

WORKER = """
name: asking
model: script:script.yaml
toolsets: {custom: {module: ./tools.py, tools: [leave, ask]}}
"""
ASK = '''

@tool(effects=["write"], needs_approval=True)
def ask(word: str) -> str:
    """Leave a word that somebody has to agree to."""
    return leave(word)
'''
PARK = ("run", "worker.yaml", "-p", "--on-ask", "park")


@pytest.fixture
def asking(project: Project) -> Project:
    project.write("tools.py", TOOLS + ASK)
    project.write("worker.yaml", WORKER)
    turns = (
        "calls: [{tool: leave, input: {word: free}}, {tool: ask, input: {word: first}}]",
        ("calls: [{tool: ask, input: {word: second}}]"),
    )
    project.write(
        "script.yaml", "turns:\n" + "".join(f"  - {turn}\n" for turn in turns) + "  - text: done\n"
    )
    return project


def start_afresh(asking: Project) -> None:
    for folder in ("sessions", "proofs"):
        shutil.rmtree(asking.home / folder, ignore_errors=True)
    asking.write("left", "")


def answer(asking: Project, session: str) -> None:
    """Say yes to every pending request; it must be accepted."""
    for row in json.loads(asking.forge("approvals", "list", "--json").stdout):
        if row["session"] == session and row["answer"] is None:
            done = asking.forge("approvals", "answer", session, row["request"], "yes")
            assert done.returncode == 0, done.stderr


def finish(asking: Project, log: Path) -> None:
    """Resume and answer until the end; a yes is needed for each call that asks, and no second one."""
    codes = list[int]()
    while len(codes) < 8 and codes[-1:] not in ([0], [2]):
        begun = '"type": "message"' in log.read_text()
        codes.append(asking.forge(*PARK, *([] if begun else ["go"]), "-r", log.stem).returncode)
        answer(asking, log.stem)
    assert codes[-1] in (0, 2), codes
    assert codes.count(10) <= 3, codes


def waiting(log: Path) -> set[str]:
    """The words of calls that have asked, and are not decided; any other one is cut off by a kill."""
    asked: dict[str, str] = {}
    for line in read_session(log).lines:
        if line.type == "approvalRequired":
            asked[line.data["toolCallId"]] = line.data["args"]["word"]
        elif line.type == "approvalDecided":
            asked.pop(line.data["toolCallId"], None)
    return set(asked.values())


def finish_waiting(asking: Project, number: int) -> None:
    """Finish the session: every pending call runs once, and none twice."""
    words = {word for log in logs(asking) for word in waiting(log)}
    for log in logs(asking):
        finish(asking, log)
    done = Counter(asking.read("left").split())
    assert (max(done.values(), default=1), {word: done[word] for word in words}) == (
        1,
        dict.fromkeys(words, 1),
    ), number


def park_first(asking: Project) -> Path:
    """A session that waits for the answer to its first question."""
    assert asking.forge(*PARK, "go").returncode == 10
    return logs(asking)[0]


def park_second(asking: Project) -> Path:
    """A session with a yes that was made use of, which waits for another."""
    log = park_first(asking)
    answer(asking, log.stem)
    assert asking.forge(*PARK, "-r", log.stem).returncode == 10
    return log


def counts(asking: Project) -> list[int]:
    left = asking.read("left").split()
    return [left.count("first"), left.count("second")]


def survive_run(asking: Project, number: int) -> int:
    code, count = killed(asking, number, *PARK, "go")
    assert code == (-9 if number <= count else 10), number
    finish_waiting(asking, number)
    return count


def survive_fork(asking: Project, number: int) -> int:
    first = park_second(asking)
    code, count = killed(asking, number, *PARK, "-r", first.stem, "--fork")
    assert code == (-9 if number <= count else 10), number
    for log in logs(asking):
        finish(asking, log)
    assert counts(asking) == [1, len(logs(asking))], number
    return count


def survive_answer(asking: Project, number: int) -> int:
    log = park_second(asking)
    (row,) = json.loads(asking.forge("approvals", "list", "--json").stdout)
    code, count = killed(asking, number, "approvals", "answer", log.stem, row["request"], "yes")
    assert code == (-9 if number <= count else 0), number
    answer(asking, log.stem)
    assert asking.forge(*PARK, "-r", log.stem).returncode == 0, number
    assert counts(asking) == [1, 1], number
    return count


def survive_resume(asking: Project, number: int) -> int:
    """Killed while the yes is made use of: the call that it was for may have been made, but never twice."""
    log = park_first(asking)
    answer(asking, log.stem)
    code, count = killed(asking, number, *PARK, "-r", log.stem)
    assert code == (-9 if number <= count else 10), number
    finish_waiting(asking, number)
    return count


CASES: dict[str, Callable[[Project, int], int]] = {
    "run": survive_run,
    "fork": survive_fork,
    "answer": survive_answer,
    "resume": survive_resume,
}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("case", "number"), [("run", 5), ("fork", MOST), ("answer", 3), ("resume", 4)]
)
def test_kill_at_a_system_call_repeats_no_consented_call(
    asking: Project, case: str, number: int
) -> None:
    start_afresh(asking)
    CASES[case](asking, number)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_filter_handles_every_system_call(asking: Project, case: str) -> None:
    for number in range(1, MOST):
        start_afresh(asking)
        if CASES[case](asking, number) < number:
            return
    pytest.fail(f"more than {MOST} calls")
