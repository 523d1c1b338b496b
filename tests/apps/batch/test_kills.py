"""A batch that is killed again and again, with items that fail and items that wait: each is completed exactly once.

Covers forge_cli.apps.batch.store, forge_cli.apps.batch.batch.
"""

import json
import random
import signal
import time
from collections import Counter

import pytest

from forge_cli.testing import Project
from tests.support.batches import effects, results, sorter, write_items
from tests.support.deadline import deadline

KILLS = 3
WORDS = ("", "", "", "flaky", "pay", "pay flaky")


def finished(line: str) -> bool:
    event = json.loads(line)
    return event["type"] == "itemFinished" and "retry_in" not in event


def kill_after(forge, number: int) -> int:
    """Kill forge once so many items have ended; returns how many lines it printed."""
    seen = 0
    with deadline(100):
        for line in forge.process.stdout:
            seen += finished(line)
            if seen >= number:
                break
    forge.signal(signal.SIGKILL)
    forge.process.wait(20)
    return seen


def answer_all(cli) -> int:
    waiting = json.loads(cli("approvals", "list", "--json").out)
    for row in waiting:
        assert cli("approvals", "answer", row["session"], row["request"], "yes").code == 0
    return len(waiting)


def assert_each_item_is_completed_once(
    cli, start, project: Project, number: int, seed: int
) -> None:
    draw = random.Random(seed)
    items = {f"i{index}": draw.choice(WORDS) for index in range(number)}
    write_items(sorter(project), items)
    words = (
        "batch",
        "worker.yaml",
        "items.jsonl",
        "--on-ask",
        "park",
        "--json",
        "--concurrency",
        "6",
    )
    for _ in range(KILLS):
        kill_after(start(*words), draw.randint(1, number // (KILLS + 2)))
    while (done := cli(*words)).code == 10:
        assert answer_all(cli)
    assert done.code == 0, done.err
    completed = Counter(
        line["key"] for line in results(project) if line["result"]["status"] == "completed"
    )
    assert completed == Counter(dict.fromkeys(items, 1))
    for name in ("notes.txt", "paid.txt"):
        assert max(Counter(effects(project, name)).values(), default=0) <= 1, name
    sessions = Counter(line["result"]["sessionId"] for line in results(project))
    assert set(sessions) == {path.stem for path in (project.home / "sessions").glob("*.jsonl")}
    assert cli("batch", "status", "items.results.jsonl").code == 0
    assert cli("sessions", "verify").code == 0


@pytest.mark.parametrize("seed", [1])
def test_every_item_is_completed_exactly_once(cli, start, project: Project, seed: int) -> None:
    assert_each_item_is_completed_once(cli, start, project, 40, seed)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(3))
def test_every_item_of_many_is_completed_exactly_once(
    cli, start, project: Project, seed: int
) -> None:
    assert_each_item_is_completed_once(cli, start, project, 300, seed)


def test_batch_continues_despite_leftovers_of_a_killed_process(
    cli, start, project: Project
) -> None:
    """Empty, torn or zeroed logs, parts of logs, locks and answers."""
    left = ["", '{"v": 1, "seq"', "\0" * 64]
    write_items(sorter(project), {"i0": ""} | {f"i{index}": "hang" for index in range(1, 7)})
    words = ("batch", "worker.yaml", "items.jsonl", "--json", "--concurrency", "6")
    forge = start(*words)
    with deadline(60):
        while len(list(project.folder.glob("hangs-*"))) < 6:
            assert forge.process.poll() is None
            time.sleep(0.01)
    forge.signal(signal.SIGKILL)
    forge.process.wait(20)
    logs = sorted((project.home / "sessions").glob("*.jsonl"))
    for index, log in enumerate(log for log in logs if "sessionEnd" not in log.read_text()):
        if index < len(left):
            log.write_text(left[index])
        elif index == len(left):
            log.unlink()
        for ending in ("part", "answer", "lock", "0123abcd"):
            log.with_name(f".{log.name}.{ending}").write_text("1")
    project.write("released", "")
    done = cli(*words)
    assert (done.code, [line["result"]["status"] for line in results(project)]) == (
        0,
        ["completed"] * 7,
    ), done.err
    assert cli("sessions", "verify").code == 0
