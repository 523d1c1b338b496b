"""User files and the home of forge on two file systems: applying, storing and undoing are the same."""

import pytest

from tests.support.layouts import LAYOUTS, run_tests

FEW = [
    *(
        "tests/cli/test_undo_commands.py",
        "tests/cli/test_redo.py",
        "tests/faults/test_kills_commands.py",
    ),
    *("-k", "moved or repository or cut_off or done_again or few_kills"),
]
ALL = [
    *("tests/sandbox/trial", "tests/cli/test_undo_commands.py", "tests/cli/test_undo.py"),
    *("tests/cli/test_redo.py", "tests/cli/test_undo_moved.py", "tests/cli/test_odd_names.py"),
    *("tests/cli/test_leftovers.py", "tests/toolsets/shell/test_trying.py", "tests/record"),
    *("tests/faults/test_kills.py", "tests/faults/test_kills_commands.py"),
    "tests/faults/test_power_layouts.py",
]
pytestmark = [pytest.mark.needs("mounts", "overlay")]


def passes(layout: str, *tests: str, timeout: float) -> None:
    done = run_tests(layout, *tests, timeout=timeout)
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}"
    assert " passed" in done.stdout


@pytest.mark.few(1)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_commands_are_applied_and_undone(layout: str) -> None:
    passes(layout, *FEW, timeout=110)


def test_power_cuts_are_survived_on_two_file_systems() -> None:
    passes("two", "tests/faults/test_power_layouts.py", timeout=110)


@pytest.mark.long
@pytest.mark.parametrize("layout", LAYOUTS)
def test_trials_undo_and_copies_work_on_every_layout(layout: str) -> None:
    passes(layout, *ALL, "-m", "not long or long", timeout=3000)
