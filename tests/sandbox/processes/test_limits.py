"""Limits: a fork bomb, a memory hog and an endless file end as results, and nothing is left of them.

Covers forge_cli.sandbox.zones.config.
"""

import resource
import sys
from pathlib import Path
from typing import Any

import pytest

from forge_cli.core.errors import WorkerError
from forge_cli.core.processes import Finished
from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.sandbox.isolation.confinement import Confinement
from forge_cli.sandbox.isolation.isolation import Confined, available_mechanisms
from forge_cli.sandbox.processes.command import UNCONFINED, bash_argv, clean_environment
from forge_cli.sandbox.processes.limits import DEFAULT_LIMITS, NO_LIMITS, ProcessLimits, spell_size
from forge_cli.sandbox.processes.process import ChildProcesses
from forge_cli.sandbox.zones.config import SandboxConfig
from forge_cli.schema.config import parse_config
from tests.support.children import children, sleepers, tag

pytestmark = [pytest.mark.anyio, pytest.mark.needs("linux")]

CONFINED = pytest.mark.parametrize(
    "confined",
    [None, *(pytest.param(name, marks=pytest.mark.needs(name)) for name in ("bwrap", "Landlock"))],
)
HOG = f"{sys.executable} -c 'x = []\nwhile True: x.append(bytearray(4 << 20))'"


async def run(
    place: Path,
    line: str,
    limits: ProcessLimits,
    *,
    confined: str | None = None,
    room: int | None = None,
) -> Finished:
    wrap: Any = UNCONFINED
    if confined:
        zones = (Zone("here", place, ZoneMode.RW),)
        confinement = Confinement(zones=zones, workspace=place, room=room)
        found = next(found for found in available_mechanisms() if found.name == confined)
        wrap = Confined(found, confinement, readable=(Path(sys.prefix), Path(sys.base_prefix)))
    async with ChildProcesses() as processes:
        env = clean_environment()
        done = await processes.run(
            bash_argv(line), cwd=place, env=env, timeout=60, wrap=wrap, limits=limits
        )
    assert children() == []
    return done


@CONFINED
async def test_command_that_starts_too_many_processes_is_stopped(
    place: Path, confined: str | None
) -> None:
    """No more of them than a test machine can bear: the limit would be passed by any number."""
    sleeping = tag()
    line = f"for n in {{1..40}}; do sleep {sleeping} & done; wait"
    done = await run(place, line, ProcessLimits(processes=20), confined=confined)
    assert done.exceeded == "it had more than 20 processes (sandbox.limits.processes)"
    assert (done.exit_code, done.signal, done.timed_out, sleepers(sleeping)) == (None, 9, False, [])


@CONFINED
async def test_command_that_takes_too_much_memory_is_stopped(
    place: Path, confined: str | None
) -> None:
    done = await run(
        place, f"ulimit -v {1 << 20}; {HOG}", ProcessLimits(memory=64 << 20), confined=confined
    )
    assert done.exceeded == "it used more than 64m of memory (sandbox.limits.memory)", done
    assert (done.signal, done.timed_out) == (9, False)


async def test_memory_that_processes_share_counts_once(place: Path) -> None:
    script = f'{sys.executable} -c \'\nimport os, time\nx = bytearray(b"x") * (20 << 20)\n'
    script += "for _ in range(5):\n    if not os.fork(): time.sleep(0.4); os._exit(0)\nfor _ in range(5): os.wait()'"
    done = await run(place, script, ProcessLimits(memory=80 << 20))
    assert (done.exceeded, done.exit_code, done.stderr) == (None, 0, "")


@CONFINED
async def test_file_that_grows_too_large_fails(place: Path, confined: str | None) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    limits = ProcessLimits(file_size=1 << 20)
    lift = "ulimit -f unlimited;" if confined else ""
    done = await run(
        place, f"{lift} head -c 3000000 /dev/zero >file; exit 1", limits, confined=confined
    )
    assert ((place / "file").stat().st_size, done.exit_code) == (1 << 20, 1)
    assert resource.getrlimit(resource.RLIMIT_FSIZE) == before
    alone = await run(
        place,
        "exec head -c 3000000 /dev/zero >file",
        ProcessLimits(file_size=1 << 20),
        confined=confined,
    )
    assert alone.hint(alone.stderr) == "a file in it grew past the limit (sandbox.limits.file_size)"


@pytest.mark.needs("bwrap")
async def test_private_folders_hold_only_so_much(place: Path) -> None:
    line = "for folder in /tmp /dev/shm; do head -c 3000000 /dev/zero >$folder/x; stat -c %s $folder/x; done; rm /tmp/x"
    done = await run(place, line, NO_LIMITS, confined="bwrap", room=1 << 20)
    assert done.stdout == f"{1 << 20}\n{1 << 20}\n"


async def test_command_within_its_limits_is_not_stopped(place: Path) -> None:
    done = await run(place, "sleep 0.3; echo done", DEFAULT_LIMITS)
    assert (done.stdout, done.exit_code, done.exceeded) == ("done\n", 0, None)


def wanted(text: dict[str, Any]) -> ProcessLimits:
    return parse_config(SandboxConfig, text).wanted().limits


def test_limits_are_read_as_people_write_them() -> None:
    assert wanted({}) == DEFAULT_LIMITS == ProcessLimits(512, 4 << 30, 2 << 30)
    given = {"processes": 64, "memory": "512M", "file_size": 1 << 20}
    assert wanted({"limits": given}) == ProcessLimits(64, 512 << 20, 1 << 20)
    assert wanted({"limits": {"memory": "1t"}}) == ProcessLimits(512, 1 << 40, 2 << 30)
    assert wanted({"isolation": "off", "limits": {"processes": 64}}) == ProcessLimits(processes=64)


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"memory": "much"}, "'much' is not a size"),
        ({"memory": "1k"}, "greater than or equal"),
        ({"processes": 0}, "greater than or equal"),
        ({"cpu": 1}, "cpu"),
    ],
)
def test_nonsense_is_refused(limits: dict[str, Any], reason: str) -> None:
    with pytest.raises(WorkerError, match=reason):
        wanted({"limits": limits})


def test_stricter_of_two_limits() -> None:
    assert ProcessLimits(10, None, 5) & ProcessLimits(None, 3, 7) == ProcessLimits(10, 3, 5)
    assert [spell_size(size) for size in (4 << 30, 1536 << 20, 1000, 0)] == [
        "4g",
        "1536m",
        "1000",
        "0",
    ]
