"""What a command does on copies, applied, is what it would have done; dropped or taken back it leaves nothing.

Covers forge_cli.sandbox.trial.changes, forge_cli.sandbox.trial.walk.
"""

import random
import shutil
from pathlib import Path

import pytest

from forge_cli.sandbox.trial.apply import apply, take_back

from .trees import carry_out, make_tree, on_copies, steps, tree

pytestmark = [pytest.mark.anyio, pytest.mark.needs("overlay")]

AT_ONCE = 50


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def compare(tmp_path: Path, seed: int) -> None:
    """Fifty sequences, each in a tree of its own."""
    chance = random.Random(seed)
    zone, real = tmp_path / "zone", tmp_path / "real"
    lines = []
    for number in range(AT_ONCE):
        make_tree(zone / str(number), chance)
        (zone / str(number)).mkdir(parents=True, exist_ok=True)
        lines += steps(str(number), chance)
    shutil.copytree(zone, real, symlinks=True)
    before = tree(zone)
    copies, done = await on_copies(zone, tmp_path / "trial", lines)
    assert (done.exit_code, done.stderr) == (0, "")
    assert tree(zone) == before, "nothing happens before it is applied"
    changes = copies.read()
    carry_out(real, lines)
    apply(changes)
    wanted, found = tree(real), tree(zone)
    assert {name for name in wanted | found if wanted.get(name) != found.get(name)} == set()
    take_back(changes)
    assert tree(zone) == before


@pytest.mark.parametrize("seed", range(2))
async def test_applied_is_the_same_as_done(tmp_path: Path, seed: int) -> None:
    await compare(tmp_path, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 40))
async def test_two_thousand_sequences(tmp_path: Path, seed: int) -> None:
    await compare(tmp_path, seed)
