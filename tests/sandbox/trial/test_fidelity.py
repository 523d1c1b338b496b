"""Commands on copies: applied, they have the same effect as without copies; undone, they leave nothing.

Covers forge_cli.sandbox.changes.path_changes, forge_cli.sandbox.changes.walk.
"""

import random
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from forge_cli.core.context import executing
from forge_cli.core.errors import ToolError
from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.record.changes import ChangedFile, ChangeLog
from forge_cli.record.redo import redo_changes, undo_with_redo
from forge_cli.record.undo import Undoing
from forge_cli.sandbox.changes.apply import apply_changes
from forge_cli.sandbox.files.sandbox import Sandbox
from tests.support.owner import as_owner

from ..trees import NAMES, STEPS, carry_out, make_tree, on_copies, steps, tree

pytestmark = [pytest.mark.anyio, pytest.mark.needs("overlay")]

AT_ONCE = 50


UNDONE_STEPS = [step for step in STEPS if step not in ("pipe", "hard")]
"""What forge undo restores: no pipes, and no second names of a file."""


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
    apply_changes(copies.read(), ChangeLog(kept_path / "session.jsonl").keep)
    wanted, found = tree(real), tree(zone)
    assert {name for name in wanted | found if wanted.get(name) != found.get(name)} == set()
    after = tree(zone)
    log = ChangeLog(kept_path / "session.jsonl")
    undone = undo_with_redo(log, no)[0]
    assert_undone(before, tree(zone), undone, zone)
    undone = redo_changes(log, no)
    assert_undone(after, tree(zone), undone, zone)
    if kinds is UNDONE_STEPS:
        assert [each for each in undone if each.left] == []


def no(file: ChangedFile, why: str) -> bool:
    return False


def assert_undone(
    wanted: dict[str, tuple[object, ...]],
    found: dict[str, tuple[object, ...]],
    done: list[Undoing],
    zone: Path,
) -> None:
    """Check that all is as before, except named leftovers, and hard links, which become files."""
    left = {str(each.file.path.relative_to(zone)) for each in done if each.left}
    differing = {
        name for name in wanted | found if wanted.get(name, ())[:3] != found.get(name, ())[:3]
    }
    around = {name for name in differing if any(other.startswith(f"{name}/") for other in left)}
    assert differing - around <= left


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(2))
async def test_applied_is_the_same_as_done(tmp_path: Path, kept_path: Path, seed: int) -> None:
    await compare(tmp_path, kept_path, seed)


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(2))
async def test_applied_changes_are_undone(tmp_path: Path, kept_path: Path, seed: int) -> None:
    await compare(tmp_path, kept_path, seed, kinds=UNDONE_STEPS)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 14))
async def test_many_sequences(tmp_path: Path, kept_path: Path, seed: int) -> None:
    await compare(tmp_path, kept_path, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 10))
async def test_many_sequences_are_undone(tmp_path: Path, kept_path: Path, seed: int) -> None:
    await compare(tmp_path, kept_path, seed, kinds=UNDONE_STEPS)


async def sequences(tmp_path: Path, kept_path: Path, seed: int, count: int) -> None:
    """Sequences of several commands and of calls of file tools between them, each undone, redone and undone again."""
    chance = random.Random(seed)
    zone = tmp_path / "zone"
    for number in range(count):
        make_tree(zone / str(number), chance)
        (zone / str(number)).mkdir(parents=True, exist_ok=True)
    before = tree(zone)
    log = ChangeLog(kept_path / "session.jsonl")
    sandbox = Sandbox([Zone("zone", zone, ZoneMode.RW)])
    sandbox.open_changes = lambda: log
    for turn in range(3):
        with executing(f"command {turn}"):
            lines = [
                line
                for number in range(count)
                for line in steps(str(number), chance, kinds=UNDONE_STEPS)
            ]
            copies, done = await on_copies(zone, kept_path / f"trial{turn}", lines)
            assert (done.exit_code, done.stderr) == (0, "")
            apply_changes(copies.read(), log.keep)
        with executing(f"tools {turn}"):
            for number in range(count):
                use_tools(sandbox, zone / str(number), chance)
    after = tree(zone)
    for _ in range(2):
        assert [each for each in undo_with_redo(log, no)[0] if each.left] == []
        assert tree(zone) == before
        assert [each for each in redo_changes(log, no) if each.left] == []
        assert tree(zone) == after
    for turn in (2, 1, 0):
        for kind in ("tools", "command"):
            undo_with_redo(log, no, [f"{kind} {turn}"])
    assert tree(zone) == before


def use_tools(sandbox: Sandbox, folder: Path, chance: random.Random) -> None:
    """Write one file and delete another, as far as the tools allow it."""
    for _ in range(2):
        name = f"/zone/{folder.name}/{'/'.join(chance.choices(NAMES, k=chance.randint(1, 3)))}"
        with suppress(ToolError, OSError):
            if chance.random() < 0.5:
                sandbox.write_bytes(name, b"tool%d" % chance.randint(0, 99))
            else:
                sandbox.delete(name)


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(3))
async def test_sixty_sequences_of_calls_are_undone_and_redone(
    tmp_path: Path, kept_path: Path, seed: int
) -> None:
    await sequences(tmp_path, kept_path, seed, 20)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3, 9))
async def test_many_sequences_of_calls(tmp_path: Path, kept_path: Path, seed: int) -> None:
    await sequences(tmp_path, kept_path, seed, 20)


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


async def test_read_only_files_are_applied_too(tmp_path: Path, kept_path: Path) -> None:
    zone, real = tmp_path / "zone", tmp_path / "real"
    do_closed(zone, real)
    script = "\n".join(f"(cd {number}; {line})" for number, line in enumerate(CLOSED))
    copies, done = await on_copies(zone, kept_path / "trial", argv=["sh", "-c", script])
    assert (done.exit_code, done.stderr) == (0, "")
    assert as_owner(lambda: apply_changes(copies.read()))
    assert tree(zone) == tree(real)
