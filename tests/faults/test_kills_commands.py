"""Killed at any system call while a command is applied, undone or redone: all or nothing, and nothing is left."""

import json
import os
import random
import shutil
from pathlib import Path

import pytest

from forge_cli.testing import Project

from .test_kills import killed

WORKER = """
name: builder
model: script:../script.yaml
sandbox: {zones: [{name: code, path: ., mode: rw, approval: {write: preApproved, delete: preApproved}}]}
toolsets: {shell: {}}
"""
LINE = (
    "mv data.bin kept.bin; rm gone; echo more >> app.py; mkdir -p new/deep; echo x > new/deep/x; "
    "ln -sf app.py link; chmod 600 mode; rm -r old; echo file > old"
)
RUN = ("run", "work/worker.yaml", "go", "-p", "-y", "-C", "work")
pytestmark = pytest.mark.needs("overlay")


@pytest.fixture
def builder(project: Project) -> Project:
    calls = [{"tool": "shell", "input": {"command": LINE}}]
    project.write("script.yaml", json.dumps({"turns": [{"calls": calls}, {"text": "done"}]}))
    return project


def fill(builder: Project) -> Path:
    shutil.rmtree(builder.folder / "work", ignore_errors=True)
    shutil.rmtree(builder.home / "sessions", ignore_errors=True)
    for name in ("gone", "app.py", "mode", "old/a", "old/b/c"):
        builder.write(f"work/{name}", "one\n")
    builder.write("work/worker.yaml", WORKER)
    (builder.folder / "work/data.bin").write_bytes(bytes(range(256)) * 400)
    (builder.folder / "work/link").symlink_to("gone")
    return builder.folder / "work"


def tree(folder: Path) -> dict[str, tuple[int, bytes | str | None]]:
    found: dict[str, tuple[int, bytes | str | None]] = {}
    for path in sorted(folder.rglob("*")):
        said = (
            os.readlink(path)
            if path.is_symlink()
            else path.read_bytes()
            if path.is_file()
            else None
        )
        found[str(path.relative_to(folder))] = (path.lstat().st_mode, said)
    return found


def forge(builder: Project, *argv: str, codes: tuple[int, ...] = (0,)) -> str:
    done = builder.forge(*argv)
    assert done.returncode in codes, (argv, done.stdout, done.stderr)
    return done.stdout


def survive_command(builder: Project, number: int) -> int:
    work = fill(builder)
    before = tree(work)
    code, count = killed(builder, number, *RUN)
    assert code == (-9 if number <= count else 0), number
    forge(builder, "undo", "--list", codes=(0, 3))
    assert {name for name in tree(work) if name.startswith(".forge-")} == set(), number
    done = tree(work)
    assert done == before or (
        "kept.bin" in done and "gone" not in done and done["old"][1] == b"file\n"
    ), number
    forge(builder, "undo", codes=(0, 3))
    assert tree(work) == before, number
    return count


def survive_undo(builder: Project, number: int) -> int:
    work = fill(builder)
    before = tree(work)
    forge(builder, *RUN)
    after = tree(work)
    code, count = killed(builder, number, "undo")
    assert code == (-9 if number <= count else 0), number
    forge(builder, "undo")
    assert tree(work) == before, number
    forge(builder, "undo", "--redo")
    assert tree(work) == after, number
    return count


def survive_redo(builder: Project, number: int) -> int:
    work = fill(builder)
    before = tree(work)
    forge(builder, *RUN)
    after = tree(work)
    forge(builder, "undo")
    code, count = killed(builder, number, "undo", "--redo")
    assert code == (-9 if number <= count else 0), number
    if number % 2:
        forge(builder, "undo", "--redo")
        assert tree(work) == after, number
    forge(builder, "undo")
    assert tree(work) == before, number
    forge(builder, "undo", "--redo")
    assert tree(work) == after, number
    return count


VAST = 65 << 20
"""Bytes of a file that is too large to be kept: it is moved, and moved back."""
MOVES = "mv big.iso kept.iso; mkdir d; mv other.iso d/; mv third.iso t; mv fourth.iso third.iso; mv t fourth.iso"


BETWEEN = {"undo": "rename.7", "redo": "rename.5"}
"""The call that moves a file from where it waits to where it comes back to."""


def fill_vast(builder: Project) -> dict[str, str]:
    """Make huge files for a command to move; return their names."""
    work = fill(builder)
    calls = [{"tool": "shell", "input": {"command": MOVES}}]
    builder.write("script.yaml", json.dumps({"turns": [{"calls": calls}, {"text": "done"}]}))
    for name in ("big", "other", "third", "fourth"):
        with (work / f"{name}.iso").open("wb") as stream:
            stream.write(name.encode())
            stream.truncate(VAST)
    return vast(work)


def vast(work: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted(work.rglob("*")):
        if path.is_file() and path.stat().st_size == VAST:
            with path.open("rb") as stream:
                found[str(path.relative_to(work))] = stream.read(8).rstrip(b"\0").decode()
    return found


def survive_moving_back(builder: Project, number: int | str, step: str, then: str) -> int:
    """Killed while vast files are moved: nothing is lost, and both ways lead on from there."""
    before = fill_vast(builder)
    work = builder.folder / "work"
    forge(builder, *RUN)
    after = vast(work)
    assert sorted(after.values()) == sorted(before.values())
    ways = {"undo": ("undo",), "redo": ("undo", "--redo")}
    if step == "redo":
        forge(builder, *ways["undo"])
    code, count = killed(builder, number, *ways[step])
    if number in BETWEEN.values():
        assert [name for name in vast(work) if name.startswith(".forge-undo-")]
    assert sorted(vast(work).values()) == sorted(before.values()), number
    first, second = (then, "undo" if then == "redo" else "redo")
    for way in (first, second, first):
        forge(builder, *ways[way], codes=(0, 3))
        assert vast(work) == (before if way == "undo" else after), (number, way)
    assert code == (-9 if isinstance(number, str) or number <= count else 0), number
    return count


CASES = {"command": survive_command, "undo": survive_undo, "redo": survive_redo}


def nothing_is_left(builder: Project) -> None:
    forge(builder, "doctor", "--clean")
    assert list((builder.home / "sessions").glob("*.trials")) == []
    assert [path for path in builder.home.rglob(".forge-*") if path.is_file()] == []


@pytest.mark.parametrize(("case", "number"), [("command", 30), ("undo", 20), ("redo", 25)])
def test_command_survives_a_few_kills(builder: Project, case: str, number: int) -> None:
    CASES[case](builder, number)
    nothing_is_left(builder)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_command_survives_many_kills(builder: Project, case: str) -> None:
    draw = random.Random(case)
    count = CASES[case](builder, 10**6)
    for number in draw.sample(range(1, count + 1), min(count, 25)):
        CASES[case](builder, number)
        nothing_is_left(builder)


@pytest.mark.long
@pytest.mark.parametrize(("step", "then"), [("redo", "undo"), ("redo", "redo"), ("undo", "undo")])
def test_move_killed_between_its_two_steps_is_restored(
    builder: Project, step: str, then: str
) -> None:
    assert survive_moving_back(builder, BETWEEN[step], step, then)
    nothing_is_left(builder)


@pytest.mark.long
@pytest.mark.parametrize(("step", "then"), [("undo", "undo"), ("redo", "redo"), ("redo", "undo")])
def test_moves_killed_at_some_calls_are_restored(builder: Project, step: str, then: str) -> None:
    count = survive_moving_back(builder, 10**6, step, then)
    assert count > 10
    for number in random.Random(f"{step} {then}").sample(range(1, count + 1), 12):
        survive_moving_back(builder, number, step, then)
