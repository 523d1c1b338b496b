"""Attacks on a zone or its copy that try to apply changes other than the shown ones.

Covers forge_cli.sandbox.trial.left.
"""

import os
import subprocess
from pathlib import Path

import anyio
import pytest

from forge_cli.core.errors import Stale, ToolError
from forge_cli.files.home import TRIALS
from forge_cli.sandbox.changes.apply import ChangeSet, apply_changes
from forge_cli.sandbox.changes.path_changes import UnknownChange
from forge_cli.sandbox.processes.command import bash_argv
from forge_cli.sandbox.trial.copies import Report, mounted_below
from forge_cli.sandbox.trial.left import finish_trials

from ..trees import on_copies, tree

pytestmark = pytest.mark.needs("overlay")

FORGED = """
import ctypes, os, stat
def forge(step):
    try: step()
    except OSError: pass
os.rename("given", "taken")
for name in ("opaque", "whiteout", "redirect", "metacopy", "origin", "impure"):
    for value in (b"y", b"x", b"/kept"):
        for path in ("made", "made/file", "taken"):
            forge(lambda: os.setxattr(path, "user.overlay." + name, value))
for path in ("kept/file", "kept/other", "made/gone"):
    forge(lambda: os.mknod(path, stat.S_IFCHR | 0o600, 0))
    forge(lambda: ctypes.CDLL(None).renameat2(-100, path.encode(), -100, b"made/moved", 4))
forge(lambda: os.rename(os.getcwd(), os.getcwd() + ".away"))
"""


@pytest.fixture
def zone(tmp_path: Path) -> Path:
    zone = tmp_path / "zone"
    for name in ("kept/file", "kept/other", "given"):
        (zone / name).parent.mkdir(parents=True, exist_ok=True)
        (zone / name).write_text(f"{name}\n")
    return zone


def changes_of(zone: Path, line: str) -> ChangeSet:
    async def run() -> ChangeSet:
        copies, done = await on_copies(zone, zone.parent / "trial", argv=bash_argv(line))
        assert (done.exit_code, done.stderr) == (0, ""), done
        return copies.read()

    return anyio.run(run)


def test_marks_of_an_overlay_cannot_be_forged(zone: Path) -> None:
    changes = changes_of(
        zone, f"mkdir made; echo x > made/file; python3 -c '{FORGED.replace(chr(39), chr(34))}'"
    )
    before = {name: said for name, said in tree(zone).items() if name != "given"}
    apply_changes(changes)
    after = tree(zone)
    assert {name: said for name, said in after.items() if name in before} == before
    assert set(after) - set(before) == {"made", "made/file", "taken"}


@pytest.mark.parametrize(
    "line",
    [
        'python3 -c \'import os; os.setxattr("given", "user.note", b"x")\'',
        'python3 -c \'import os; os.setxattr("kept", "user.note", b"x")\'',
        'python3 -c \'import os; os.setxattr("given", "user.note", b"x")\'; chmod 600 given',
    ],
)
def test_attribute_that_is_set_is_an_effect(zone: Path, line: str) -> None:
    with pytest.raises(UnknownChange, match="it set attributes of (given|kept)"):
        changes_of(zone, line)


def test_attributes_from_before_are_kept(zone: Path) -> None:
    paths = [zone / name for name in ("given", "kept", "kept/file", "kept/other")]
    for path in paths:
        os.setxattr(path, "user.note", b"before")
    apply_changes(
        changes_of(
            zone,
            "echo more >> given; chmod 600 kept/file; chmod 700 kept; echo x > kept/new; touch kept/other",
        )
    )
    assert [os.getxattr(path, "user.note") for path in paths] == [b"before"] * 4
    assert (zone / "kept/new").exists()


FLOOD = """
import socket
asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asked.connect(("127.0.0.1", 53))
while True:
    asked.send(b"x" * 40)
    open("begun", "w")
"""


def test_flood_of_questions_does_not_hide_what_is_written(zone: Path) -> None:
    async def run() -> tuple[Report | None, bool]:
        line = f"python3 -c '{FLOOD}' & until [ -e begun ]; do :; done; head -c 60000000 /dev/zero > big; sleep 60"
        copies, done = await on_copies(
            zone, zone.parent / "trial", argv=bash_argv(line), room=20_000_000
        )
        return copies.report(), done.timed_out

    assert anyio.run(run) == (Report(network=True, exceeded=True, reached=[]), False)


def test_second_name_outside_is_not_written(zone: Path) -> None:
    os.link(zone / "given", zone.parent / "outside")
    os.link(zone / "given", zone / "second")
    apply_changes(changes_of(zone, "echo more >> given"))
    assert (zone / "given").read_text() == "given\nmore\n"
    assert [path.read_text() for path in (zone.parent / "outside", zone / "second")] == [
        "given\n",
        "given\n",
    ]


@pytest.mark.parametrize("place", ["folder", "link", "link above", "nothing"])
def test_folder_that_replaced_the_zone_is_not_changed(zone: Path, place: str) -> None:
    changes = changes_of(zone, "mkdir new; echo x > new/file")
    other = zone.parent / "other"
    if place == "link above":
        moved = zone.parent.with_name(f"{zone.parent.name}-moved")
        zone.parent.rename(moved)
        zone.parent.symlink_to(moved)
    else:
        zone.rename(zone.parent / "away")
        other.mkdir()
    match place:
        case "folder":
            other.rename(zone)
        case "link":
            zone.symlink_to(other)
    with pytest.raises((Stale, FileNotFoundError, NotADirectoryError)):
        apply_changes(changes)
    assert [
        path for path in zone.parent.resolve().rglob("new/file") if "trial" not in path.parts
    ] == []


def test_folder_that_cannot_be_changed_leaves_all_as_it_was(zone: Path) -> None:
    changes = changes_of(zone, "echo x > a; echo more >> kept/file; rm kept/other; chmod 600 given")
    before = tree(zone)
    if subprocess.run(["chattr", "+i", zone / "kept"], capture_output=True, timeout=60).returncode:
        pytest.skip("only root can make a folder immutable, and not on every file system")
    try:
        with pytest.raises(ToolError, match="nothing was changed"):
            apply_changes(changes)
        assert tree(zone) == before
    finally:
        subprocess.run(["chattr", "-i", zone / "kept"], check=True, timeout=60)


def test_file_system_inside_a_zone_is_noticed(zone: Path) -> None:
    assert mounted_below([Path("/")]) is not None
    assert mounted_below([zone]) is None
    assert mounted_below([Path("/proc/self")]) is None


def test_incomplete_changes_do_not_stop_other_sessions(zone: Path, tmp_path: Path) -> None:
    sessions = tmp_path / "sessions"
    for name in ("one", "two", "three"):
        place = sessions / f"{name}{TRIALS}" / "call"
        place.parent.mkdir(parents=True)
        changes_of(zone, "echo x > new").folder.rename(place)
        (place / "journal").touch()
    for name in ("one", "three"):
        text = (sessions / f"{name}{TRIALS}/call/changes.json").read_text()
        (sessions / f"{name}{TRIALS}/call/changes.json").write_text(
            text.replace(str(zone), str(tmp_path / "gone"))
        )
    said: list[str] = []
    finish_trials(sessions, lambda _, sentence: said.append(sentence))
    assert len(said) == 3
    assert [sentence for sentence in said if sentence.endswith("completed")] == [
        "1 interrupted change completed"
    ]
    assert sum("forge sessions rm" in sentence for sentence in said) == 2
    assert (zone / "new").read_text() == "x\n"
