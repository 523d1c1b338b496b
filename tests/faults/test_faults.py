"""A session killed at any moment can be resumed: readable, with a valid history, and nothing done twice."""

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from forge_cli.record.log import broken_link, read_session
from forge_cli.testing import Project

TURNS = 30
LINES = 380
"""About as many lines as the whole work has."""
CRASHING = Path(__file__).parents[1] / "support/faults/crashing.py"
TOOLS = '''
import os
import signal
from pathlib import Path
from forge_cli import tool

LEFT = Path(__file__).with_name("left")


def crash(when: str) -> None:
    kind, _, number = os.environ["POINT"].partition(":")
    if kind == when and len(LEFT.read_text().splitlines()) + (when == "before") == int(number):
        os.kill(os.getpid(), signal.SIGKILL)


@tool(effects=["write"])
def leave(word: str) -> str:
    """Leave a word behind."""
    crash("before")
    with LEFT.open("a") as file:
        file.write(word + "\\n")
    crash("after")
    return word


@tool(read_only=True)
def look(n: int) -> int:
    """Look at a number."""
    return n
'''


def turn(number: int) -> str:
    looks = "".join(f", {{tool: look, input: {{n: {n}}}}}" for n in range(number % 3))
    return f"  - text: turn {number}\n    calls: [{{tool: leave, input: {{word: w{number}}}}}{looks}]\n"


@pytest.fixture
def busy(project: Project) -> Project:
    project.write("tools.py", TOOLS)
    project.write("left", "")
    approval = "{default: preApproved}"
    toolsets = f"{{custom: {{module: ./tools.py, tools: [leave, look], approval: {approval}}}}}"
    project.write("worker.yaml", f"name: busy\ntoolsets: {toolsets}\n")
    turns = "".join(turn(number) for number in range(1, TURNS + 1))
    project.write("script.yaml", f"turns:\n{turns}  - text: done\n")
    return project


def work(
    busy: Project, point: str, session: str | None = None
) -> "subprocess.CompletedProcess[str]":
    words = [
        sys.executable,
        str(CRASHING),
        str(busy.folder),
        point,
        *([session] if session else []),
    ]
    with busy.environment():
        return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


def the_session(busy: Project) -> Path | None:
    found = (
        list((busy.home / "sessions").glob("*.jsonl")) if (busy.home / "sessions").exists() else []
    )
    return found[0] if found else None


def points(count: int, seed: int) -> list[list[str]]:
    """Pairs of moments: the first kill, and the kill of the resumed process."""
    draw = random.Random(seed)

    def point() -> str:
        kind = draw.choice(["line", "half", "before", "after"])
        return f"{kind}:{draw.randint(1, LINES if kind in ('line', 'half') else TURNS)}"

    return [[point(), point()] for _ in range(count)]


def survive(busy: Project, moments: list[str]) -> None:
    session: str | None = None
    for moment in [*moments, "never"]:
        done = work(busy, moment, session)
        assert "Error" not in done.stderr.replace("UsageError", ""), (moments, done.stderr)
        path = the_session(busy)
        if path is None:
            continue
        log = read_session(path)
        assert broken_link(log) is None, moments
        session = log.session if log.lines else None
        if session is None:
            path.unlink()
        if done.returncode == 0 and json.loads(done.stdout)["status"] == "completed":
            break
    counts = Counter(busy.read("left").split())
    assert max(counts.values(), default=0) <= 1, (moments, counts)
    assert path is not None
    log = read_session(path)
    last = [line for line in log.lines if line.type == "message"][-1].data["message"]
    assert (last["role"], last["content"]) == ("assistant", "done"), moments
    started = Counter(line.data["toolCallId"] for line in log.lines if line.type == "toolStarted")
    results = Counter(line.data["toolCallId"] for line in log.lines if line.type == "toolResult")
    assert set(started) <= set(results), moments
    assert max(results.values()) == 1, moments


@pytest.mark.few(1)
@pytest.mark.parametrize("moments", points(4, seed=6), ids="-".join)
def test_session_survives_kills_at_a_few_moments(busy: Project, moments: list[str]) -> None:
    survive(busy, moments)


@pytest.mark.long
@pytest.mark.parametrize("moments", points(80, seed=26), ids="-".join)
def test_session_survives_kills_at_many_moments(busy: Project, moments: list[str]) -> None:
    survive(busy, moments)


def test_interrupted_call_asks_before_it_is_repeated(busy: Project) -> None:
    """The script repeats the call after the crash; it may have run, so it must ask."""
    busy.write("script.yaml", "turns:\n" + turn(1) + turn(1) + "  - text: done\n")
    work(busy, "after:1")
    path = the_session(busy)
    assert path is not None
    done = work(busy, "never", read_session(path).session)
    assert json.loads(done.stdout)["status"] == "completed", done.stderr
    assert busy.read("left").split() == ["w1"]
    decided = [line for line in read_session(path).lines if line.type == "approvalDecided"]
    assert [line.data["approved"] for line in decided][:2] == [True, False]
    assert "was interrupted with these arguments and may have run" in decided[1].data["reason"]
