"""Machines are lost, items fail and wait: each is completed exactly once, and no call is made twice."""

import json
import os
import random
import signal
import subprocess
import threading
from collections import Counter
from contextlib import suppress

import pytest

from .conftest import Sorter, running_cluster

WORDS = ("note", "note", "note pay", "note flaky", "note pay flaky")
TURN = 10
"""Tokens of a turn."""
CONCURRENCY = 6


def lose_machines(
    sorter: Sorter, forge: "subprocess.Popen[str]", draw: random.Random, kills: int, each: int
) -> str:
    """Kill a Dask worker that ran an item after each given number of ended items; return the output."""
    watch = threading.Timer(150, forge.kill)
    watch.start()
    finished = 0
    assert forge.stdout
    for line in forge.stdout:
        event = json.loads(line)
        finished += event["type"] == "itemFinished" and "retry_in" not in event
        if kills and finished >= each:
            kills, finished = kills - 1, 0
            machines = sorted(
                {file.read_text() for file in (sorter.folder / "seen").iterdir()} - {""}
            )
            with suppress(ProcessLookupError):  # one that was lost before
                os.kill(int(draw.choice(machines)), signal.SIGKILL)
    assert forge.stderr
    told = forge.stderr.read()
    forge.wait(30)
    watch.cancel()
    assert not kills, "too few items have ended to lose a machine"
    return told


def answer_all(sorter: Sorter) -> int:
    waiting = json.loads(sorter.project.forge("approvals", "list", "--json").stdout)
    for row in waiting:
        assert (
            sorter.project.forge(
                "approvals", "answer", row["session"], row["request"], "yes"
            ).returncode
            == 0
        )
    return len(waiting)


def assert_each_item_is_completed_once(sorter: Sorter, number: int, kills: int, seed: int) -> None:
    draw = random.Random(seed)
    items = {f"i{index}": draw.choice(WORDS) for index in range(number)}
    sorter.items(items)
    argv = ("--on-ask", "park", "--json", "--concurrency", str(CONCURRENCY), "--retries", "4")
    budget = number * TURN // 4
    first = sorter.batch(*argv, "--max-tokens", str(budget))
    assert first.returncode == 5, first.stderr
    spent = sum(
        line["result"]["usage"][name]
        for line in sorter.lines()
        for name in ("inputTokens", "outputTokens")
    )
    assert spent < budget + 4 * CONCURRENCY * TURN
    forge = sorter.start(*argv)
    try:
        told = lose_machines(sorter, forge, draw, kills, max(1, number // (kills + 3)))
    finally:
        forge.kill()
    code = forge.returncode
    assert code in (0, 1, 10), told
    for _ in range(5):
        if code == 0:
            break
        answer_all(sorter)
        done = sorter.batch(*argv)
        code, told = done.returncode, done.stderr
    assert code == 0, told
    completed = Counter(
        line["key"] for line in sorter.lines() if line["result"]["status"] == "completed"
    )
    assert completed == Counter(dict.fromkeys(items, 1))
    for name in ("notes.txt", "paid.txt"):
        assert max(Counter(sorter.effects(name)).values(), default=0) <= 1, name
    kept = {path.stem for path in (sorter.project.home / "sessions").glob("*.jsonl")}
    assert kept == {line["result"]["sessionId"] for line in sorter.lines()}
    assert sorter.project.forge("batch", "status", "items.results.jsonl").returncode == 0
    assert sorter.project.forge("sessions", "verify").returncode == 0


@pytest.mark.long
@pytest.mark.timeout(300)
def test_every_item_is_completed_exactly_once(sorter: Sorter) -> None:
    with running_cluster(3) as sorter.cluster:
        assert_each_item_is_completed_once(sorter, 16, 1, seed=1)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(2))
def test_every_item_of_many_is_completed_exactly_once(sorter: Sorter, seed: int) -> None:
    with running_cluster(3) as sorter.cluster:
        assert_each_item_is_completed_once(sorter, 300, 4, seed)
