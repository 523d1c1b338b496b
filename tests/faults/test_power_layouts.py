"""A power cut while changes are applied, undone or redone loses no file.

Covers forge_cli.sandbox.changes.apply, forge_cli.record.redo, forge_cli.record.changes.
"""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from forge_cli.testing import Project
from tests.support.faults.cut import Moment, Node, Tree
from tests.support.layouts import LAYOUT

from .test_kills_commands import RUN, builder, fill, forge, tree

CUT = Path(__file__).parents[1] / "support/faults/cut.py"
__all__ = ["builder"]
pytestmark = pytest.mark.needs("overlay")
GONE: Tree = {}
KINDS = {
    "two": [
        ("sure", "sure"),
        ("short", "short"),
        ("zeros", "zeros"),
        ("sure", "zeros"),
        ("zeros", "sure"),
    ],
    "tmpfs-workspace": [(None, "sure"), (None, "zeros")],
    "tmpfs-home": [("sure", None), ("short", None), ("zeros", None)],
}
"""What is there of the files of a person, and of the home, after a power cut; None is a file system in memory."""
ONE = KINDS["two"]
State = tuple[Tree, Tree]
Contents = dict[str, tuple[int, bytes | str | None]]


def states(builder: Project, *argv: str) -> Iterator[tuple[str, State]]:
    """Everything that a power cut can leave of a command of forge, with the call before which it comes."""
    builder.home.mkdir(exist_ok=True)
    report = builder.home.with_name("cut")
    with builder.environment():
        done = subprocess.run(
            [sys.executable, str(CUT), str(report), *argv],
            cwd=builder.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    moments = msgspec.json.decode(report.read_bytes(), type=list[Moment])
    seen: set[bytes] = set()
    for moment in moments:
        for work, home in KINDS.get(LAYOUT, ONE):
            state = (moment.trees["work"].get(work, GONE), moment.trees["home"].get(home, GONE))
            key = msgspec.json.encode(state)
            if key not in seen:
                seen.add(key)
                yield f"{work}/{home} before {moment.before}", state


def bring_back(builder: Project, state: State) -> None:
    """Restore the state that a power cut has left."""
    contents = builder.home.with_name("cut.contents")
    made: dict[int, Path] = {}
    for place, found in zip((builder.folder, builder.home), state, strict=True):
        empty(place)
        for name in sorted(found):
            make(place / name, found[name], contents, made)
        for name in sorted(found, reverse=True):
            if found[name].kind == "folder":
                (place / name).chmod(found[name].mode)


def empty(place: Path) -> None:
    """Remove all but the folder of a zone, by whose number forge knows it."""
    for path in place.iterdir():
        if path.name == "work":
            empty(path)
        elif path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def make(path: Path, node: Node, contents: Path, made: dict[int, Path]) -> None:
    if node.kind == "folder":
        path.mkdir(exist_ok=True)
    if node.kind == "link":
        path.symlink_to(node.content)
    if node.kind != "file":
        return
    first = made.setdefault(node.number, path)
    if first is not path and os.stat(first).st_dev == os.stat(path.parent).st_dev:
        os.link(first, path)
        return
    shutil.copyfile(contents / node.content, path)
    path.chmod(node.mode)


def next_start(builder: Project, *argv: str, codes: tuple[int, ...] = (0, 3)) -> str:
    """The output of forge when it starts after a power cut."""
    done = builder.forge(*argv)
    said = done.stdout + done.stderr
    assert done.returncode in codes, (argv, said)
    assert "Traceback" not in said
    assert "internal error" not in said
    return said


def same(builder: Project, *possible: Contents) -> None:
    """The files of the person are as in one of these trees."""
    found = tree(builder.folder / "work")
    differences = [
        [
            f"{name}: {one.get(name)!r:.60} instead of {found.get(name)!r:.60}"
            for name in sorted(one.keys() | found.keys())
            if one.get(name) != found.get(name)
        ]
        for one in possible
    ]
    assert [] in differences, "\n or ".join(", ".join(each) for each in differences)


def survive_command(builder: Project, before: Contents, after: Contents) -> None:
    next_start(builder, "undo", "--list")
    same(builder, before, after)
    next_start(builder, "undo")
    same(builder, before)


def survive_undo(builder: Project, before: Contents, after: Contents) -> None:
    next_start(builder, "undo")
    same(builder, before)
    next_start(builder, "undo", "--redo")
    same(builder, after)


def survive_redo(builder: Project, before: Contents, after: Contents) -> None:
    next_start(builder, "undo")
    same(builder, before)
    next_start(builder, "undo", "--redo")
    same(builder, after)


Survive = Callable[[Project, Contents, Contents], None]
CASES: dict[str, tuple[Survive, list[tuple[str, ...]]]] = {
    "command": (survive_command, [RUN]),
    "undo": (survive_undo, [RUN, ("undo",)]),
    "redo": (survive_redo, [RUN, ("undo",), ("undo", "--redo")]),
}


def without_home(builder: Project, before: Contents, after: Contents) -> None:
    """The home is gone, with all that was kept: each file is as before or as after, or still has its temporary name."""
    found = tree(builder.folder / "work")
    contents = {said for _, said in found.values()}
    for name, (_, said) in found.items():
        possible = [side[name][1] for side in (before, after) if name in side]
        assert said in possible or ".forge-" in name, name
    for name in before.keys() & after.keys():
        sides = {before[name][1], after[name][1]}
        assert None in sides or sides & contents, name  # a folder has nothing to lose
    next_start(builder, "undo", codes=(0, 2, 3))
    next_start(builder, "doctor", codes=(0, 1))


def without_work(builder: Project, before: Contents, after: Contents) -> None:
    """The user's files were in memory: changes that cannot be completed are named, and nothing fails."""
    next_start(builder, "undo", "--list")
    next_start(builder, "undo", codes=(0, 1, 3))
    next_start(builder, "doctor", codes=(0, 1))


def cut_at(builder: Project, case: str, count: int) -> None:
    """Try so many of the states, drawn from all of them."""
    survive, (*first, last) = CASES[case]
    work = fill(builder)
    trees = [tree(work)]
    for argv in first:
        forge(builder, *argv)
        trees.append(tree(work))
    found = list(states(builder, *last))
    before, after = trees[0], tree(work) if case == "command" else trees[1]
    check = {"tmpfs-workspace": without_work, "tmpfs-home": without_home}.get(LAYOUT, survive)
    failed: list[str] = []
    tried = random.Random(count).sample(found, min(count, len(found)))
    for where, state in tried:
        bring_back(builder, state)
        try:
            check(builder, before, after)
        except AssertionError as error:
            failed.append(f"{where}\n{str(error)[:1500]}")
    sys.stdout.write(f"{case}: {len(found)} states, {len(tried)} tried, {len(failed)} failed\n")
    if failed:
        pytest.fail("\n\n" + "\n\n".join(failed))


@pytest.mark.parametrize("case", CASES)
def test_few_power_cuts_are_survived(builder: Project, case: str) -> None:
    cut_at(builder, case, 3)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_many_power_cuts_are_survived(builder: Project, case: str) -> None:
    cut_at(builder, case, 150)
