"""The tasks of a morning with the shipped coder, on a terminal: questions and keys. Covers benchmarks/day.py."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

pytestmark = pytest.mark.needs("overlay")


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    day = importlib.import_module("day")
    found: Callable[..., Any] = day.play
    return found


@pytest.mark.parametrize(
    ("task", "mode", "questions"),
    [
        ("fix a bug", "ask", 1),
        pytest.param("fix a bug", "accept edits", 0, marks=pytest.mark.long),
        ("explore", "ask", 0),
        pytest.param("add a feature", "ask", 4, marks=pytest.mark.long),
        ("add a feature", "accept edits", 1),
        pytest.param("build", "accept edits", 3, marks=pytest.mark.long),
    ],
)
def test_task_asks_no_more_than_necessary(
    play: Callable[..., Any], task: str, mode: str, questions: int
) -> None:
    asked = play(task, mode)
    granted = task == "add a feature"  # by a key and a digit
    assert (len(asked.about), asked.keys) == (questions, questions + granted)
