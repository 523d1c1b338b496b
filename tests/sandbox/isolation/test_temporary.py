"""The ``/tmp`` that commands of one worker share: merged with files of trials, bounded, and removed afterwards.

Covers forge_cli.sandbox.isolation.temporary, forge_cli.sandbox.processes.child.
"""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.sandbox.isolation.confinement import Confinement
from forge_cli.sandbox.isolation.isolation import Confined, available_mechanisms
from forge_cli.sandbox.isolation.temporary import TemporaryFolder
from forge_cli.sandbox.processes.command import bash_argv, clean_environment
from forge_cli.sandbox.processes.process import ChildProcesses
from forge_cli.sandbox.trial.copies import Copies, drop_copies

pytestmark = [pytest.mark.anyio, pytest.mark.needs("linux")]


@pytest.fixture
def temporary() -> Iterator[TemporaryFolder]:
    found = TemporaryFolder(1 << 20)
    yield found
    found.close()
    assert not found.path.parent.exists()


def confined(temporary: TemporaryFolder, zone: Path, name: str = "bwrap") -> Confined:
    cage = next(found for found in available_mechanisms() if found.name == name)
    zones = (Zone("zone", zone, ZoneMode.RW),)
    confinement = Confinement(
        zones=zones, workspace=zone, network=name != "bwrap", temporary=temporary.path
    )
    return Confined(cage, confinement, temporary=temporary)


async def run(line: str, wrap: Confined | Copies, zone: Path) -> str:
    async with ChildProcesses() as processes:
        done = await processes.run(
            bash_argv(line), cwd=zone, wrap=wrap, env=clean_environment(), timeout=60
        )
    return done.stdout + done.stderr + (done.exceeded or "")


def tree(folder: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        info = path.lstat()
        content = (
            os.readlink(path)
            if path.is_symlink()
            else path.read_bytes()
            if path.is_file()
            else None
        )
        found[str(path.relative_to(folder))] = (stat.S_IFMT(info.st_mode), content)
    return found


@pytest.mark.needs("bwrap")
async def test_commands_share_it_and_nobody_else_does(
    temporary: TemporaryFolder, tmp_path: Path
) -> None:
    wrap = confined(temporary, tmp_path)
    name = f"forge-{os.getpid()}"
    await run(f"echo one > /tmp/{name}", wrap, tmp_path)
    assert await run(f"cat /tmp/{name}; stat -c %a /tmp", wrap, tmp_path) == "one\n1777\n"
    assert name not in os.listdir("/tmp")
    assert stat.S_IMODE(temporary.path.parent.stat().st_mode) == 0o700


@pytest.mark.needs("Landlock")
async def test_landlock_commands_share_tmpdir(temporary: TemporaryFolder, tmp_path: Path) -> None:
    wrap = confined(temporary, tmp_path, "Landlock")
    await run('echo one > "$TMPDIR/x"', wrap, tmp_path)
    assert await run('cat "$TMPDIR/x"', wrap, tmp_path) == "one\n"
    assert "denied" in await run(f"ls {temporary.path.parent}", wrap, tmp_path)


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize(
    "line",
    [
        "head -c 900000 /dev/zero > /tmp/{a..b}; for i in a b c; do head -c 900000 /dev/zero > /tmp/$i; done; sleep 30",
        "mkdir /tmp/d; chmod 700 /tmp/d; for i in 1 2 3; do head -c 900000 /dev/zero > /tmp/d/$i; done; sleep 30",
    ],
)
async def test_command_that_fills_it_is_stopped(
    temporary: TemporaryFolder, tmp_path: Path, line: str
) -> None:
    wrap = confined(temporary, tmp_path)
    said = await run(line, wrap, tmp_path)
    assert "it left more than 1m in /tmp (sandbox.limits.file_size), which was emptied" in said
    assert os.listdir(temporary.path) == []
    assert await run("echo x > /tmp/x && cat /tmp/x", wrap, tmp_path) == "x\n"


NAMES = st.sampled_from("abc")
PATHS = st.builds("/".join, st.lists(NAMES, min_size=1, max_size=3))
STEPS = st.one_of(
    st.builds("mkdir -p {}".format, PATHS),
    st.builds("rm -rf {}".format, PATHS),
    st.builds("echo {} > {}".format, NAMES, PATHS),
    st.builds("ln -sfn {} {}".format, st.sampled_from(["/etc", "..", "a", "b/c"]), PATHS),
    st.builds("mv {} {}".format, PATHS, PATHS),
    st.builds("cp -r {} {}".format, PATHS, PATHS),
)
SCRIPTS = st.lists(st.lists(STEPS, min_size=1, max_size=8).map(" ; ".join), min_size=1, max_size=3)


@pytest.mark.needs("overlay")
@settings(max_examples=8, deadline=None)
@given(SCRIPTS)
async def test_trials_end_like_plain_commands(scripts: list[str]) -> None:
    """But for moves of folders that an overlay does not do: each is one of files then."""
    temporary = TemporaryFolder(1 << 24)
    folder = tempfile.TemporaryDirectory(
        dir="/var/tmp"
    )  # below /tmp its mount point would be among the files
    around = Path(folder.name)
    zone, plain = around / "zone", around / "plain"
    zone.mkdir()
    plain.mkdir()
    try:
        wrap = confined(temporary, zone)
        for number, script in enumerate(scripts):
            line = f"({script}) 2>/dev/null </dev/null"
            copy = temporary.copy(str(number))
            copies = Copies(around / "trial", wrap, network=False, temporary=copy)
            await run(f"cd /tmp; {line}", copies, zone)
            drop_copies(around / "trial")
            before = tree(temporary.path)
            if number % 3 == 2:
                copy.drop()
                assert tree(temporary.path) == before
                continue
            copy.keep()
            await anyio.run_process(["bash", "-c", line], cwd=plain, check=False)
            assert tree(temporary.path) == tree(plain)
    finally:
        temporary.close()
        folder.cleanup()


@pytest.mark.needs("overlay")
async def test_kept_temporary_files_follow_no_links(
    temporary: TemporaryFolder, tmp_path: Path
) -> None:
    """Another command puts a link in the place of a folder while a trial writes to that."""
    wrap, outside = confined(temporary, tmp_path), temporary.path.parent / "outside"
    outside.mkdir()
    (outside / "victim").write_text("old")
    (temporary.path / "d").mkdir()
    (temporary.path / "d/victim").write_text("x")
    copy = temporary.copy("one")
    copies = Copies(temporary.path.parent / "trial", wrap, network=False, temporary=copy)
    await run(
        "echo new > /tmp/d/victim; echo new > /tmp/d/more; rm -f /tmp/d/none", copies, tmp_path
    )
    shutil.rmtree(temporary.path / "d")
    (temporary.path / "d").symlink_to(outside)
    copy.keep()
    assert tree(outside) == {"victim": (stat.S_IFREG, b"old")}
    assert (temporary.path / "d/more").read_text() == "new\n"


def test_folder_of_a_process_that_was_killed_is_removed_by_the_next_one(
    temporary: TemporaryFolder,
) -> None:
    code = "import os; from forge_cli.sandbox.isolation.temporary import TemporaryFolder as T; print(T(1).path);"
    left = subprocess.run(
        [sys.executable, "-c", f"{code} import sys; sys.stdout.flush(); os.kill(os.getpid(), 9)"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    ).stdout.strip()
    assert Path(left).is_dir()
    other = TemporaryFolder(1)
    assert not Path(left).parent.exists()
    assert temporary.path.is_dir()
    other.close()
