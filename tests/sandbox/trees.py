"""Random trees of files, compared completely, and commands for them."""

import os
import random
import stat
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from forge_cli.core.processes import Finished
from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.sandbox.isolation.confinement import Confinement
from forge_cli.sandbox.isolation.isolation import Confined, available_mechanisms
from forge_cli.sandbox.processes.command import clean_environment
from forge_cli.sandbox.processes.process import ChildProcesses
from forge_cli.sandbox.trial.copies import Copies

NAMES = [
    "a",
    "b",
    "c",
    "-n",
    "with space",
    "new\nline",
    "ünï",
    "\udcff\udcfe",
    ".dot",
    ".wh.a",
    "x" * 200,
    "ba\\ck",
]
STEPS = [
    *("write", "append", "cut", "delete", "clear", "move", "folder"),
    *("link", "hard", "mode", "sparse", "pipe", "swap", "over", "edit", "repoint"),
]
DRIVER = """
import os, shutil, stat, sys
def do(step, one, other, number):
    waits = step in ("write", "append", "sparse", "clear", "edit")
    if waits and os.path.exists(one) and stat.S_ISFIFO(os.stat(one).st_mode):
        return  # it would wait for somebody at the other end
    if step in ("write", "append", "sparse", "link", "folder", "hard", "pipe"):
        os.makedirs(os.path.dirname(other if step == "hard" else one), exist_ok=True)
    if step == "write": open(one, "w").write(str(number) * (number % 50))
    elif step == "append": open(one, "a").write("more%d" % number)
    elif step == "cut": os.truncate(one, number % 5)
    elif step == "delete": os.unlink(one)
    elif step == "clear": shutil.rmtree(one)
    elif step == "move" and not os.path.lexists(other) and not other.startswith(one + "/"): shutil.move(one, other)
    elif step == "folder": os.makedirs(one)
    elif step == "link": os.symlink(other, one)
    elif step == "hard": os.link(one, other, follow_symlinks=False)
    elif step == "mode" and not os.path.islink(one): os.chmod(one, 0o700 | number % 0o100)
    elif step == "sparse":
        with open(one, "wb") as file: file.seek(number * 4096); file.write(b"end")
    elif step == "pipe": os.mkfifo(one)
    elif step == "over" and (os.path.islink(one) or not os.path.isdir(one)): os.replace(one, other)
    elif step == "edit":
        with open(one + "~", "w") as new: new.write(open(one).read().upper() + "e%d" % number)
        os.replace(one + "~", one)
    elif step == "repoint": os.unlink(one); os.symlink("to%d" % number, one)
    elif step == "swap":
        if os.path.isdir(one) and not os.path.islink(one): shutil.rmtree(one); open(one, "w").write("file")
        else: os.unlink(one); os.mkdir(one)
for line in eval(sys.stdin.read()):
    try: do(*line)
    except (OSError, shutil.Error): pass
"""


def make_tree(root: Path, chance: random.Random, names: Sequence[str] = NAMES) -> None:
    """Something to begin with, some folders deep."""
    for _ in range(chance.randint(0, 12)):
        path = root.joinpath(*chance.choices(names, k=chance.randint(1, 3)))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            match chance.randint(0, 3):
                case 0:
                    path.mkdir()
                case 1:
                    path.symlink_to(chance.choice(names))
                case _:
                    path.write_text("old" * chance.randint(0, 9))
                    path.chmod(chance.choice([0o644, 0o600, 0o755]))
        except OSError:
            continue


def steps(
    root: str, chance: random.Random, names: Sequence[str] = NAMES, kinds: Sequence[str] = STEPS
) -> list[tuple[str, str, str, int]]:
    def place() -> str:
        return "/".join([root, *chance.choices(names, k=chance.randint(1, 3))])

    return [
        (chance.choice(kinds), place(), place(), chance.randint(0, 99))
        for _ in range(chance.randint(1, 10))
    ]


def tree(root: Path) -> dict[str, tuple[object, ...]]:
    """All facts about the files below a folder, except times."""
    found: dict[str, tuple[object, ...]] = {}
    first: dict[tuple[int, int], str] = {}
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted([*folders, *files]):
            path = os.path.join(folder, name)
            info = os.lstat(path)
            said: object = None
            if stat.S_ISLNK(info.st_mode):
                said = os.readlink(path)
            elif stat.S_ISREG(info.st_mode):
                said = Path(path).read_bytes()
            below = os.path.relpath(path, root)
            same = first.setdefault((info.st_dev, info.st_ino), below)
            found[below] = (oct(info.st_mode), info.st_uid, said, same)
    return found


def carry_out(root: Path, lines: Sequence[object]) -> None:
    """The real run."""
    feed = ascii(list(lines))
    subprocess.run(
        [sys.executable, "-c", DRIVER], cwd=root, input=feed, text=True, check=True, timeout=60
    )


async def on_copies(
    zone: Path,
    folder: Path,
    lines: Sequence[object] = (),
    argv: Sequence[str] = ("python3", "-c", DRIVER),
    room: int | None = None,
) -> tuple[Copies, Finished]:
    """The same, or another command, on copies."""
    cage = next(found for found in available_mechanisms() if found.name == "bwrap")
    confinement = Confinement(
        zones=(Zone("zone", zone, ZoneMode.RW),), workspace=zone, network=True
    )
    copies = Copies(folder, Confined(cage, replace(confinement)), network=False, room=room)
    feed = ascii(list(lines)).encode()
    async with ChildProcesses() as processes:
        done = await processes.run(
            argv, cwd=zone, wrap=copies, env=clean_environment(), timeout=60, feed=feed
        )
    return copies, done
