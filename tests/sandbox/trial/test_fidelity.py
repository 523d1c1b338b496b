"""What a command does on copies, applied, is what it would have done; dropped or undone it leaves nothing.

Covers forge_cli.sandbox.trial.changes, forge_cli.sandbox.trial.walk.
"""

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from forge_cli.record.changes import ChangeLog
from forge_cli.record.undo import undo
from forge_cli.sandbox.trial.apply import apply

from ...owner import as_owner
from .trees import NAMES, STEPS, carry_out, make_tree, on_copies, steps, tree

pytestmark = [pytest.mark.anyio, pytest.mark.needs("overlay")]

AT_ONCE = 50


UNDONE_NAMES = [name for name in NAMES if name.isprintable()]
UNDONE_STEPS = [step for step in STEPS if step not in ("pipe", "hard")]
"""What forge undo restores: no pipes, no second names of a file, and no names that the file tools refuse."""


async def compare(
    tmp_path: Path, kept_path: Path, seed: int, names: list[str] = NAMES, kinds: list[str] = STEPS
) -> None:
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
    copies, done = await on_copies(zone, kept_path / "trial", lines)
    assert (done.exit_code, done.stderr) == (0, "")
    assert tree(zone) == before, "nothing happens before it is applied"
    carry_out(real, lines)
    apply(copies.read(), ChangeLog(kept_path / "session.jsonl").keep)
    wanted, found = tree(real), tree(zone)
    assert {name for name in wanted | found if wanted.get(name) != found.get(name)} == set()
    undone = undo(ChangeLog(kept_path / "session.jsonl"), lambda file, why: False)
    if kinds is UNDONE_STEPS:
        assert [each for each in undone if each.left] == []
        assert tree(zone) == before


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(2))
async def test_applied_is_the_same_as_done(tmp_path: Path, kept_path: Path, seed: int) -> None:
    await compare(tmp_path, kept_path, seed)


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(2))
async def test_what_was_applied_is_undone(tmp_path: Path, kept_path: Path, seed: int) -> None:
    await compare(tmp_path, kept_path, seed, UNDONE_NAMES, UNDONE_STEPS)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 40))
async def test_two_thousand_sequences(tmp_path: Path, kept_path: Path, seed: int) -> None:
    await compare(tmp_path, kept_path, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 20))
async def test_a_thousand_sequences_are_undone(tmp_path: Path, kept_path: Path, seed: int) -> None:
    await compare(tmp_path, kept_path, seed, UNDONE_NAMES, UNDONE_STEPS)


CLOSED = [
    "echo new > file; chmod 444 file",
    "rm -f closed; echo x > closed; chmod 400 closed",
    "chmod u+w closed; echo more >> closed; chmod 444 closed",
    "mkdir -p a/b; echo 1 > a/b/f; chmod 555 a/b a",
    "mkdir locked; chmod 0 locked",
    "chmod 0 folder",
    "chmod 500 .",
    "chmod u+w shut; echo 2 > shut/new; chmod u-w shut",
    "chmod u+w shut; mv shut/x shut/y; chmod 500 shut",
    "chmod u+w shut; rm -f shut/x; chmod u-w shut",
    "chmod -R u+w shut; rm -r shut",
    "chmod -R u+w shut; rm -r shut; echo file > shut",
    "cp -a shut again",
]


def do_closed(zone: Path, real: Path) -> None:
    """Make a tree for each line, and do it for real in a second one."""
    for number, line in enumerate(CLOSED):
        for root in (zone / str(number), real / str(number)):
            for name in ("file", "closed", "folder/x", "shut/x"):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text("old\n")
            for name, mode in {"closed": 0o444, "shut/x": 0o444, "shut": 0o555}.items():
                (root / name).chmod(mode)
        subprocess.run(["sh", "-c", line], cwd=real / str(number), check=True, timeout=60)


async def test_what_its_owner_may_not_write_is_applied_as_well(tmp_path: Path, kept_path: Path) -> None:
    zone, real = tmp_path / "zone", tmp_path / "real"
    do_closed(zone, real)
    script = "\n".join(f"(cd {number}; {line})" for number, line in enumerate(CLOSED))
    copies, done = await on_copies(zone, kept_path / "trial", argv=["sh", "-c", script])
    assert (done.exit_code, done.stderr) == (0, "")
    assert as_owner(lambda: apply(copies.read()))
    assert tree(zone) == tree(real)
