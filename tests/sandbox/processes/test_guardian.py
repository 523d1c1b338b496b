"""The guardian: it ends all processes of a killed forge, and no others."""

import os
import select
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from forge_cli.sandbox.processes.command import clean_environment
from forge_cli.sandbox.processes.process import ChildProcesses
from tests.support.children import children, sleepers, stranger, tag

START = """
import os, sys
import anyio
from forge_cli.sandbox.processes.command import bash_argv, clean_environment
from forge_cli.sandbox.processes.process import ChildProcesses

async def main():
    async with ChildProcesses() as processes:
        await processes.run(bash_argv(sys.argv[1]), cwd=".", env=clean_environment(), timeout=None)

anyio.run(main)
"""

pytestmark = pytest.mark.needs("linux", "bash")


def wait_for_end(pid: int) -> None:
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([watch], [], [], 20)[0], f"{pid} is still there"
    finally:
        os.close(watch)


def reap_adopted(known: int) -> None:
    """Reap orphans if an earlier test made this process adopt them, including the guardian."""
    while strays := set(children()) - {known}:
        for pid in strays:
            wait_for_end(pid)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "line",
    [
        "sleep {0} & echo; wait",
        "setsid sleep {0} & echo; wait",
        "env -i setsid sleep {0} & echo; wait",
        "trap '' HUP TERM INT; (sleep {0}; sleep {0}) & echo; wait",
    ],
)
def test_process_trees_end_when_forge_is_killed(tmp_path: Path, line: str) -> None:
    name, gate = tag(), tmp_path / "gate"
    os.mkfifo(gate)
    with stranger("sleep", tag()) as other:
        command = [
            sys.executable,
            "-c",
            START,
            line.format(name).replace("echo;", f"echo >{gate};"),
        ]
        parent = subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.DEVNULL)
        try:
            reading = os.open(gate, os.O_RDONLY | os.O_NONBLOCK)
            assert select.select([reading], [], [], 20)[0]
            os.close(reading)
            left = sleepers(name)
            assert left
            parent.kill()
            parent.wait(20)
            for pid in left:
                wait_for_end(pid)
            reap_adopted(other.pid)
            assert other.poll() is None
        finally:
            parent.kill()
            parent.wait()


@pytest.mark.anyio
async def test_proxy_ends_with_its_command(tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with ChildProcesses() as processes:
            env = clean_environment()
            await processes.run(["true"], cwd=tmp_path, env=env, timeout=None)
            await processes.run(["true"], cwd=tmp_path, env=env, timeout=None)
            assert len(children()) == 1
    assert children() == []
