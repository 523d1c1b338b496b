"""What a command does on copies, applied, is what it would have done; dropped or undone it leaves nothing.

Covers forge_cli.sandbox.trial.changes, forge_cli.sandbox.trial.walk.
"""

import random
import shutil
from pathlib import Path

import pytest

from forge_cli.record.changes import ChangeLog
from forge_cli.record.undo import undo
from forge_cli.sandbox.trial.apply import apply

from .trees import NAMES, STEPS, carry_out, make_tree, on_copies, steps, tree

pytestmark = [pytest.mark.anyio, pytest.mark.needs("overlay")]

AT_ONCE = 50


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


UNDONE_NAMES = [name for name in NAMES if name.isprintable()]
UNDONE_STEPS = [step for step in STEPS if step not in ("pipe", "hard")]
"""What forge undo restores: no pipes, no second names of a file, and no names that the file tools refuse."""


async def compare(tmp_path: Path, seed: int, names: list[str] = NAMES, kinds: list[str] = STEPS) -> None:
    """Fifty sequences, each in a tree of its own, done on copies and for real."""
    chance = random.Random(seed)
    zone, real = tmp_path / "zone", tmp_path / "real"
    lines = []
    for number in range(AT_ONCE):
        make_tree(zone / str(number), chance, names)
        (zone / str(number)).mkdir(parents=True, exist_ok=True)
        lines += steps(str(number), chance, names, kinds)
    shutil.copytree(zone, real, symlinks=True)
    before = tree(zone)
    copies, done = await on_copies(zone, tmp_path / "trial", lines)
    assert (done.exit_code, done.stderr) == (0, "")
    assert tree(zone) == before, "nothing happens before it is applied"
    carry_out(real, lines)
    apply(copies.read(), ChangeLog(tmp_path / "session.jsonl").keep)
    wanted, found = tree(real), tree(zone)
    assert {name for name in wanted | found if wanted.get(name) != found.get(name)} == set()
    undone = undo(ChangeLog(tmp_path / "session.jsonl"), lambda file, why: False)
    if kinds is UNDONE_STEPS:
        assert [each for each in undone if each.left] == []
        assert tree(zone) == before


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(2))
async def test_applied_is_the_same_as_done(tmp_path: Path, seed: int) -> None:
    await compare(tmp_path, seed)


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(2))
async def test_what_was_applied_is_undone(tmp_path: Path, seed: int) -> None:
    await compare(tmp_path, seed, UNDONE_NAMES, UNDONE_STEPS)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 40))
async def test_two_thousand_sequences(tmp_path: Path, seed: int) -> None:
    await compare(tmp_path, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 20))
async def test_a_thousand_sequences_are_undone(tmp_path: Path, seed: int) -> None:
    await compare(tmp_path, seed, UNDONE_NAMES, UNDONE_STEPS)
