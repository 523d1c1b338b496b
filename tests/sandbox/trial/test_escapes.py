"""Ways out of confinement, tried by a command on copies: the same limits apply.

Covers forge_cli.sandbox.trial.enter, forge_cli.sandbox.trial.copies.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from forge_cli.core.processes import Finished
from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.sandbox.isolation.confinement import Confinement
from forge_cli.sandbox.isolation.isolation import Confined, available_mechanisms
from forge_cli.sandbox.processes.command import bash_argv, clean_environment
from forge_cli.sandbox.processes.process import ChildProcesses
from forge_cli.sandbox.trial.copies import Copies, Report
from tests.sandbox.isolation.test_escapes import TABLE, furnished, script, servers  # noqa: F401
from tests.sandbox.isolation.world import World, new_world
from tests.support.children import stranger

pytestmark = [pytest.mark.anyio, pytest.mark.needs("overlay")]


@dataclass(frozen=True)
class CopiedWorld(World):
    """A world in which commands work on copies, without a network."""

    async def run(
        self,
        line: str,
        confinement: Confinement | None = None,
        *,
        cwd: Path | None = None,
        **options: Any,
    ) -> Finished:
        wrap = Confined(self.cage, replace(confinement or self.confinement(), network=True))
        copies = Copies(self.home / ".forge/trial", wrap, network=False, room=1 << 30)
        env = {**clean_environment(), "HOME": str(self.home)}
        async with ChildProcesses() as processes:
            return await processes.run(
                bash_argv(line), cwd=self.project, wrap=copies, env=env, timeout=60
            )


@pytest.fixture
def world() -> Iterator[World]:
    cage = next(found for found in available_mechanisms() if found.name == "bwrap")
    with new_world(cage) as found:
        yield CopiedWorld(found.root, cage)


@pytest.mark.parametrize("kind", TABLE)
async def test_escapes_are_closed(furnished: World, tmp_path: Path, kind: str) -> None:  # noqa: F811
    world, table = furnished, TABLE[kind]
    shared, other = tmp_path / "shared", world.root / "other"
    shared.write_text("the secret\n")
    zones = (Zone("project", world.project, ZoneMode.RW), Zone("ro", world.project / "ro"))
    own = world.project / "rw/own/worker.yaml"
    confinement = world.confinement(*zones, protected=[own], user_homes=[world.home, other])
    before = sorted(world.project.rglob("*"))
    with stranger() as victim, servers(world.outside) as listening:
        line = script(world, table, PID=victim.pid, SHARED=shared, OTHER=other, **listening)
        done = await world.run(line, confinement)
    assert [name for number, name in enumerate(table) if str(number) in done.stdout.split()] == []
    assert done.exit_code == 0
    assert sorted(world.project.rglob("*")) == before


async def test_process_that_outlives_the_command_is_gone_before_anybody_looks(
    world: World,
) -> None:
    done = await world.run(
        "(sleep 0.2; echo late > late) & setsid sh -c 'sleep 0.1; echo late > later' & exit 3"
    )
    upper = next((world.home / ".forge/trial").glob("*/upper"))
    assert (done.exit_code, list(upper.iterdir()), list(world.project.iterdir())) == (3, [], [])


async def test_descriptors_do_not_lead_out_of_the_confinement(world: World) -> None:
    done = await world.run("ls -l /proc/self/fd; ls -l /proc/$$/fd")
    assert "/home" not in done.stdout
    assert "memfd" not in done.stdout
    links = {
        line.split(" -> ")[1].split(":")[0] for line in done.stdout.splitlines() if " -> " in line
    }
    assert links <= {"pipe", "/dev/null", "/proc/2/fd", "/proc/3/fd"} | {
        f"/proc/{pid}/fd" for pid in range(9)
    }


async def test_too_much_is_stopped(world: World) -> None:
    wrap = Confined(world.cage, replace(world.confinement(), network=True))
    copies = Copies(world.home / ".forge/trial", wrap, network=False, room=20_000_000)
    async with ChildProcesses() as processes:
        line = "head -c 60000000 /dev/zero > big; sleep 60"
        done = await processes.run(
            bash_argv(line), cwd=world.project, wrap=copies, env=clean_environment(), timeout=60
        )
    assert (copies.report(), done.timed_out) == (
        Report(network=False, exceeded=True, reached=[]),
        False,
    )
