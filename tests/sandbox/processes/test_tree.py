"""The tree of a process: who belongs to it, wherever they went, and who does not."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from forge_cli.sandbox.processes.tree import (
    MARKER,
    ProcessTree,
    adopt_orphans,
    mark_children,
    new_mark,
)
from tests.support.children import ESCAPES, Gate, bury, children, escape, gate, sleepers, tag

pytestmark = [pytest.mark.anyio, pytest.mark.needs("linux")]


@pytest.fixture
def out(tmp_path: Path) -> Iterator[Gate]:
    with gate(tmp_path) as opened:
        yield opened


def start(line: str, *, environment: bool = True) -> tuple[subprocess.Popen[bytes], ProcessTree]:
    adopt_orphans()
    mark = new_mark()
    known = {MARKER: str(mark)} if environment else {}
    with mark_children(mark):
        first = subprocess.Popen(
            ["bash", "-c", line], env={"PATH": os.environ["PATH"], **known}, start_new_session=True
        )
    return first, ProcessTree(first.pid, mark)


async def end(first: subprocess.Popen[bytes], tree: ProcessTree) -> None:
    async with anyio.create_task_group() as both:
        both.start_soon(tree.end)
        both.start_soon(anyio.to_thread.run_sync, first.wait)


async def asleep(sleeping: str) -> int:
    """The process that sleeps, once the shell before it has become it."""
    with anyio.fail_after(60):
        while not (found := sleepers(sleeping)):  # noqa: ASYNC110 (the kernel tells nobody)
            await anyio.sleep(0.01)
    (sleeper,) = found
    return sleeper


@pytest.mark.parametrize("way", ESCAPES)
async def test_orphans_are_found_by_their_mark(out: Gate, way: str) -> None:
    sleeping = tag()
    first, tree = start(escape(way, out, sleeping))
    await out.opened()
    first.wait()
    sleeper = await asleep(sleeping)
    assert sleeper in [member.pid for member in tree.members()]
    assert tree.remains()
    begin = time.monotonic()
    await tree.end()
    assert time.monotonic() - begin < 30
    assert (sleepers(sleeping), tree.members(), tree.remains(), children()) == ([], [], False, [])


async def test_environment_is_enough_where_limits_are_reset(out: Gate) -> None:
    sleeping = tag()
    first, tree = start(f"ulimit -SR unlimited\n{escape('double setsid', out, sleeping)}")
    await out.opened()
    first.wait()
    assert tree.remains()
    await tree.end()
    assert sleepers(sleeping) == []
    bury()


async def test_process_seen_once_is_not_lost(out: Gate) -> None:
    sleeping = tag()
    inner = f"env -i setsid bash -c 'ulimit -SR unlimited; echo out >{out.path}; exec sleep {sleeping}' & wait"
    first, tree = start(inner)
    await out.opened()
    (sleeper,) = set(sleepers(sleeping)) - {first.pid}
    assert {member.pid for member in tree.members()} == {first.pid, sleeper}
    first.kill()
    first.wait()
    assert [member.pid for member in tree.members()] == [sleeper]
    await tree.end()
    assert (sleepers(sleeping), children()) == ([], [])


async def test_tree_that_has_ended_has_nobody(out: Gate) -> None:
    first, tree = start("exit 0")
    first.wait()
    assert (tree.members(), tree.remains()) == ([], False)
    await tree.end()


async def test_processes_are_terminated_once_before_being_killed(out: Gate, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    script = f"trap 'echo x >>{asked}' TERM; echo out >{out.path}; while :; do sleep 0.01; done"
    first, tree = start(f'setsid bash -c "{script}" & wait')
    await out.opened()
    await end(first, tree)
    assert asked.read_text() == "x\n"
    assert (first.returncode, children()) == (-signal.SIGTERM, [])


def test_own_limits_stay_what_they_were() -> None:
    before = resource.getrlimit(resource.RLIMIT_RTTIME)
    with mark_children(new_mark()):
        assert resource.getrlimit(resource.RLIMIT_RTTIME) != before
    assert resource.getrlimit(resource.RLIMIT_RTTIME) == before


def test_limit_that_cannot_be_raised_is_left_alone() -> None:
    script = (
        "import resource, subprocess\n"
        "from forge_cli.sandbox.processes.tree import mark_children, new_mark\n"
        "resource.setrlimit(resource.RLIMIT_RTTIME, (1000, 2000))\n"
        "with mark_children(new_mark()):\n"
        "    subprocess.run(['bash', '-c', 'ulimit -SR'], check=True)\n"
        "print(resource.getrlimit(resource.RLIMIT_RTTIME))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith("(1000, 2000)\n")
