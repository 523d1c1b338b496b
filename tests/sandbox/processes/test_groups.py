"""Control groups: the same limits and messages as without them."""

import os
import sys
from pathlib import Path

import pytest

from forge_cli.core.processes import Finished
from forge_cli.sandbox.processes import limits as groups
from forge_cli.sandbox.processes.command import bash_argv, clean_environment
from forge_cli.sandbox.processes.limits import (
    NO_LIMITS,
    ControlGroup,
    ProcessLimits,
    groups_around,
    new_group,
    remove_empty_groups,
)
from forge_cli.sandbox.processes.process import ChildProcesses

pytestmark = [pytest.mark.anyio, pytest.mark.needs("linux")]

LIMITS = ProcessLimits(processes=4, memory=64 << 20)
MANY, MUCH = (
    "it had more than 4 processes (sandbox.limits.processes)",
    "it used more than 64m of memory (sandbox.limits.memory)",
)


@pytest.mark.parametrize(
    ("files", "contained", "exceeded"),
    [
        (
            {
                "cgroup.procs": "1\n2\n3\n4\n",
                "pids.events": "max 0\n",
                "memory.events": "oom 0\noom_kill 0\n",
            },
            False,
            None,
        ),
        ({"cgroup.procs": "1\n2\n3\n4\n5\n"}, False, MANY),
        ({"cgroup.procs": "1\n2\n3\n4\n5\n6\n"}, True, None),
        ({"cgroup.procs": "", "pids.events": "max 3\n"}, False, MANY),
        (
            {"cgroup.procs": "", "memory.events": "oom 1\noom_kill 2\noom_group_kill 1\n"},
            False,
            MUCH,
        ),
    ],
)
def test_limits_of_the_kernel_have_the_same_messages(
    tmp_path: Path, files: dict[str, str], contained: bool, exceeded: str | None
) -> None:
    """With the files that the kernel shows in a group, written down."""
    group = ControlGroup(tmp_path, LIMITS, contained=contained)
    assert (tmp_path / "memory.max").read_text() == str(64 << 20)
    assert int((tmp_path / "pids.max").read_text()) >= 4
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert group.exceeded() == exceeded


def test_leftovers_are_removed_except_those_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "groups_around", lambda: tmp_path)
    for name in ("forge-1-old/in-use", "forge-2-left", "of-somebody-else"):
        (tmp_path / name).mkdir(parents=True)
    remove_empty_groups()
    assert sorted(os.listdir(tmp_path)) == ["forge-1-old", "of-somebody-else"]


def test_group_needs_limits_and_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "groups_around", lambda: tmp_path)
    assert new_group(NO_LIMITS, contained=False) is None
    monkeypatch.setattr(groups, "groups_around", lambda: tmp_path / "missing")
    assert new_group(LIMITS, contained=False) is None
    monkeypatch.setattr(groups, "groups_around", lambda: None)
    assert new_group(LIMITS, contained=False) is None


async def run(place: Path, line: str) -> Finished:
    async with ChildProcesses() as processes:
        return await processes.run(
            bash_argv(line), cwd=place, env=clean_environment(), timeout=60, limits=LIMITS
        )


@pytest.mark.needs("cgroups")
async def test_kernel_stops_what_is_too_much_and_no_group_is_left(tmp_path: Path) -> None:
    around = groups_around()
    assert around
    many = await run(tmp_path, "for n in {1..40}; do sleep 30 & done; wait")
    much = await run(
        tmp_path, f"{sys.executable} -c 'x = []\nwhile True: x.append(bytearray(4 << 20))'"
    )
    assert [(done.exceeded, done.signal) for done in (many, much)] == [(MANY, 9), (MUCH, 9)]
    assert (await run(tmp_path, "cat /proc/self/cgroup")).stdout.count("/forge-") == 1
    assert not list(around.glob("forge-*"))
