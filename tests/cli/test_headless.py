"""Every command without a person at standard input: each one ends.

What waits on purpose is documented: ``forge run WORKER -``, ``forge approve WORKER --batch -`` and ``forge batch WORKER
-``; ``forge chat`` and ``forge serve`` read to the end of their input.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from forge_cli.cli import overview
from forge_cli.cli.commands import LazyCommand, command_tree

ENOUGH = 40
"""Seconds for a command on a machine with other things to do; a silent pipe beside a task takes three of them."""

VALUES = {
    "worker": "worker.yaml",
    "task": "go",
    "tool": "peek",
    "session": "last",
    "session_id": "last",
    "answer": "yes",
}
"""What stands for an argument of that name; anything else is some name."""

OPTIONS = {
    "run": [
        ["worker.yaml"],
        ["worker.yaml", "go"],
        ["worker.yaml", "go", "-p"],
        ["worker.yaml", "-c"],
    ],
    "tools call": [
        ["peek", "--worker", "worker.yaml", "-i"],
        ["echo", "--worker", "worker.yaml", "text=a"],
    ],
    "tools new": [["made", "--lang", "sh"]],
    "approve": [["worker.yaml", "peek"], ["worker.yaml", "--batch", os.devnull], ["worker.yaml"]],
    "replay": [["last"]],
    "test": [["."]],
}
STDIN = ["closed", "null", "silent", "silent in CI"]
SERVED = [("serve", kind, *worker) for kind in ("acp", "mcp") for worker in ((), ("worker.yaml",))]
READERS = {("chat",), ("chat", "worker.yaml"), *SERVED}
"""What reads to the end of its input, which is not in sight where that is silent."""
SERVERS = {("web",), ("web", "worker.yaml")}
"""What reads nothing, and serves until a signal ends it."""


def leaves(command: Any, *path: str) -> Iterator[tuple[str, ...]]:
    if isinstance(command, LazyCommand):
        yield path
        yield from ((*path, name) for name in command.inner)
        return
    for name, inner in command.commands.items():
        yield from leaves(inner, *path, name)


def variants(path: tuple[str, ...]) -> list[list[str]]:
    """The command alone, with a value for every argument, and with other useful arguments."""
    tree: Any = command_tree()
    for name in path:
        tree = (tree.inner if isinstance(tree, LazyCommand) else tree.commands)[name]
    real = tree.load()
    arguments = [each for each in real.params if each.param_type_name == "argument"]
    filled = [VALUES.get(each.name or "", "peek") for each in arguments]
    tried = [[], filled, *OPTIONS.get(" ".join(path), [])]
    return [args for number, args in enumerate(tried) if args not in tried[:number]]


COMMANDS = [
    path
    for path in leaves(command_tree())
    if path[0] in {name.split()[0] for name in overview.COMMANDS}
]
TABLE = [
    args for path in COMMANDS for more in variants(path) if (args := (*path, *more)) not in SERVERS
]
DRAW = [
    (args, "null" if args in READERS else STDIN[1 + number % 3])
    for number, args in enumerate(TABLE)
]
DRAW += [
    (args, "closed")
    for args in (("chat", "worker.yaml"), ("serve", "mcp"), ("run", "worker.yaml", "go"))
]
"""One input for each command, and the one that takes a process that is not forked for three of them."""


def ends(project, args: tuple[str, ...], stdin: str) -> None:
    command = [project.find().python, "-m", "forge_cli", *args]
    if (
        stdin == "closed"
    ):  # the process that stands in for forge would open something of its own in that place
        command = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, *command[1:]]
    env = {
        **os.environ,
        "FORGE_HOME": str(project.home),
        **({"CI": "1"} if stdin == "silent in CI" else {}),
    }
    reading, writing = os.pipe()
    try:
        done = subprocess.run(
            command,
            cwd=project.folder,
            env=env,
            stdin=reading if stdin.startswith("silent") else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ENOUGH,
            check=False,
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert 0 <= done.returncode <= 10, done
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr
    assert done.returncode == 0 or done.stderr


def test_every_command_is_tested_without_a_terminal() -> None:
    assert {" ".join(path) for path in COMMANDS} == set(overview.COMMANDS)


@pytest.mark.few(16)
@pytest.mark.parametrize(
    ("args", "stdin"),
    DRAW,
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_command_without_a_terminal_ends(tester, args: tuple[str, ...], stdin: str) -> None:
    ends(tester, args, stdin)


@pytest.mark.long
@pytest.mark.parametrize(
    ("args", "stdin"),
    [
        (args, stdin)
        for args, stdin in product(TABLE, STDIN)
        if (args, stdin) not in DRAW and not (args in READERS and stdin.startswith("silent"))
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_command_with_any_input_ends(tester, args: tuple[str, ...], stdin: str) -> None:
    ends(tester, args, stdin)
