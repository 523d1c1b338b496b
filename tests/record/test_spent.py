"""The use of a day: counted over all processes of a home, and limits that stop the next turn.

Covers forge_cli.record.spent.
"""

import os
import signal
from pathlib import Path

import pytest

from forge_cli.core.errors import WorkerError
from forge_cli.core.messages import Usage
from forge_cli.engine.turns.limits import Budget, CostWatch, DayBudget, LimitReached
from forge_cli.files.home import forge_home
from forge_cli.files.project import read_project
from forge_cli.files.settings import DayLimits
from forge_cli.files.settings_files import load_settings, load_user_settings
from forge_cli.files.worker import Limits
from forge_cli.record.spent import KEPT_DAYS, DayLedger, DayUse
from forge_cli.testing import Project

PROCESSES, TURNS = 20, 50


class Dollar:
    """Every turn costs a dollar."""

    def cost(self, usage: Usage) -> float:
        return 1.0


def budget(home: Path, **limits: float) -> Budget:
    day = DayBudget(DayLimits(**limits), DayLedger(home))
    return Budget(Limits(), Dollar(), day=day)


def test_twenty_processes_lose_nothing(tmp_path: Path) -> None:
    children = []
    for _ in range(PROCESSES):
        child = os.fork()
        if not child:
            ledger = DayLedger(tmp_path)
            for _ in range(TURNS):
                ledger.add(10, 0.25)
            os._exit(0)
        children.append(child)
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    assert DayLedger(tmp_path).today() == DayUse(PROCESSES * TURNS * 10, PROCESSES * TURNS * 0.25)


def test_killed_process_leaves_whole_lines(tmp_path: Path) -> None:
    child = os.fork()
    if not child:
        ledger = DayLedger(tmp_path)
        while True:
            ledger.add(7, None)
    ledger = DayLedger(tmp_path)
    while not ledger.today().tokens:
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    (file,) = (tmp_path / "spent").iterdir()
    assert ledger.today() == DayUse(7 * file.read_bytes().count(b"\n"))


def test_old_days_are_removed(tmp_path: Path) -> None:
    (tmp_path / "spent").mkdir()
    for day in range(1, 20):
        (tmp_path / "spent" / f"2020-01-{day:02}").write_text("1 1\n")
    DayLedger(tmp_path).add(1, None)
    assert len(list((tmp_path / "spent").iterdir())) == KEPT_DAYS
    assert DayLedger(tmp_path).today() == DayUse(1)


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        ({"cost": 2}, "the limit of $2.00 a day was reached ($2.00 today)"),
        ({"tokens": 30}, "the limit of 30 tokens a day was reached (40 today)"),
    ],
)
def test_day_ends_the_next_turn_of_every_session(tmp_path: Path, limits, sentence: str) -> None:
    first, second = budget(tmp_path, **limits), budget(tmp_path, **limits)
    child = Budget(Limits(), Dollar(), second)
    for each in (first, child):
        each.start_turn()
        each.spend(Usage(input_tokens=15, output_tokens=5))
    for each in (first, second, child, budget(tmp_path, **limits)):
        with pytest.raises(LimitReached) as reached:
            each.start_turn()
        assert str(reached.value) == sentence


def test_unusual_cost_of_a_turn_is_reported() -> None:
    usual = CostWatch()
    for cost in (1, 1, 1):
        assert usual.note(cost) is None
    assert usual.note(3) == "this turn cost $3.00; the median of this session is $1.00"


def test_limits_of_a_day_are_the_persons_own(project: Project) -> None:
    home = forge_home()
    home.mkdir(parents=True)
    (home / "config.yaml").write_text("limits: {max_turns: 9, per_day: {cost: 5}}\nbackground: 3\n")
    settings = load_user_settings(home)
    assert settings.limits.per_day == DayLimits(cost=5)
    for text in ("limits: {per_day: {cost: 1}}", "background: 2"):
        project.write(".forge/config.yaml", text)
        with pytest.raises(WorkerError, match="set it in your own config.yaml"):
            read_project(project.folder / ".forge/config.yaml")
    merged = load_settings(home, project.folder)
    assert (merged.limits.per_day, merged.background) == (DayLimits(cost=5), 3)
