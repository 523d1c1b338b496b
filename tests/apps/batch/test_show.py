"""The output of a batch on a real terminal.

Covers forge_cli.apps.batch.show, forge_cli.apps.batch.store.
"""

import re

import pytest

from forge_cli.apps.batch.show import BatchScreen, provider_state
from forge_cli.apps.batch.store import BatchCounts, BatchEvent, Spending
from forge_cli.core.messages import Usage
from forge_cli.engine.batch.local import SharedPace
from forge_cli.testing import Project
from tests.support.batches import sorter, write_items


def plain(line: str) -> str:
    return re.sub(r"\x1b\[\d*m", "", line).rstrip()


def failed(key: str, error: str, retry_in: float | None = None) -> BatchEvent:
    counts = BatchCounts(1200, completed=31, failed=2, parked=1, running=8)
    result = {"status": "failed", "error": error}
    return BatchEvent(
        "itemFinished",
        counts,
        Spending(Usage(10_000, 500), 1.5),
        key=key,
        result=result,
        retry_in=retry_in,
    )


def test_progress_lines_show_counts() -> None:
    screen = BatchScreen("triage")
    assert [plain(line)[2:] for line in screen.lines(1)] == ["triage · reading the inputs"]
    for event in (failed("a", "one"), failed("b", "two\nhint", 2.0), failed("c\x1b[2J", "three")):
        screen.take(event)
    assert [plain(line) for line in screen.lines(60)][1:] == [
        "  31 completed   8 running   2 failed   1 parked   1,158 waiting",
        "  10.5k tokens · $1.50 · 2.0 a minute · about 9 h 43 min left · 1 min 0 s",
        "  a: failed: one",
        "  b: failed: two (again in 2.0 s)",
        "  c\\x1b[2J: failed: three",
    ]
    assert plain(screen.lines(60)[0])[2:].replace("░", "") == "triage    34 of 1,200"
    assert list(screen.failures) == ["a: failed: one", "c\\x1b[2J: failed: three"]
    assert screen.line(60).startswith(
        "31 completed, 8 running, 2 failed, 1 parked, 1,158 waiting · 10.5k tokens · "
    )


def test_unknown_values_are_omitted() -> None:
    screen = BatchScreen("triage")
    screen.take(BatchEvent("batchEnd", BatchCounts(2, completed=2), Spending(cost=None)))
    assert screen.line(2) == "2 completed · 0 tokens · 2.0 s"


def test_problem_of_the_provider_is_shown() -> None:
    pace = SharedPace(8, clock=lambda: 0.0)
    screen = BatchScreen("triage", lambda: provider_state(pace))
    screen.take(BatchEvent("batchStart", BatchCounts(2, running=2), Spending()))
    pace.tell("HTTP 500: boom; trying again in 4 s")
    assert plain(screen.lines(4)[-1]) == "  HTTP 500: boom; trying again in 4 s"
    pace.hold(3540.0)
    busy = "the provider is busy, next request in 59 min 0 s"
    assert plain(screen.lines(4)[-1]) == f"  {busy}"
    assert screen.line(4) == f"0 completed, 2 running · {busy} · 0 tokens · 4.0 s"
    assert screen.line(4, ended=True) == "0 completed, 2 running · 0 tokens · 4.0 s"


def test_interrupted_items_wait_and_small_costs_are_shown() -> None:
    screen, spending = BatchScreen("triage"), Spending(Usage(100, 10), 0.0042)
    for status in ("completed", "interrupted", "interrupted"):
        counts = BatchCounts(3, completed=1)
        screen.take(
            BatchEvent("itemFinished", counts, spending, key="a", result={"status": status})
        )
    assert screen.line(30) == "1 completed, 2 waiting · 110 tokens · $0.0042 · 2.0 a minute · 30 s"


def test_long_key_leaves_room_for_its_error() -> None:
    screen = BatchScreen("triage")
    screen.take(failed("k" * 300, "the folder cannot be created"))
    (error,) = screen.failures
    assert error.endswith(": failed: the folder cannot be created")
    assert len(error) < 80


@pytest.mark.few(1)
@pytest.mark.parametrize("columns", [80, 50])
def test_interrupted_batch_on_a_terminal_shows_its_state(
    terminal, project: Project, columns: int
) -> None:
    write_items(sorter(project), {"a": "", "b": "break", "c": "hang", "d": "pay"})
    words = ("batch", "worker.yaml", "items.jsonl", "--on-ask", "park", "--retries", "0")
    keyboard = terminal(*words, columns=columns, TERM="xterm")
    keyboard.expect("3 of 4")
    keyboard.expect("s")
    keyboard.expect("b: failed: no answer for b")
    shown = [line for line in keyboard.screen(columns) if line.strip()]
    assert re.match(r"\S sorter  █{18}░{6}  3 of 4$", shown[0])
    assert shown[1] == "  1 completed   1 running   1 failed   1 parked"
    assert shown[3] == "  b: failed: no answer for b"
    keyboard.type("\x03")
    assert keyboard.end() == 130
    last = [line for line in keyboard.screen(columns) if line.strip()]
    assert "█" not in "".join(last)
    told = " ".join(" ".join(last).split())
    assert told.startswith("^C forge: 1 completed, 1 failed, 1 parked, 1 waiting · ")
    assert "b: failed: no answer for b results: items.results.jsonl" in told
    assert told.endswith("the same command resumes the rest")
