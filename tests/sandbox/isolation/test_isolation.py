"""Isolation: the ways out of a confined process, each of them tried for real, and each of them closed.

Each by every mechanism; what Landlock does not hold is marked, and listed in test_escapes.py.
Covers forge_cli.sandbox.isolation.bubblewrap, forge_cli.sandbox.isolation.landlock, forge_cli.sandbox.isolation.enter,
forge_cli.sandbox.isolation.protected_scan.
"""

import errno
import os
import re
import resource
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pexpect
import pytest

from forge_cli.core.errors import Mark, ToolError, WorkerError
from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.sandbox.isolation import isolation as isolation_module
from forge_cli.sandbox.isolation.bubblewrap import Bubblewrap
from forge_cli.sandbox.isolation.isolation import (
    Confined,
    Mechanism,
    available_mechanisms,
    best_mechanism,
    describe_confinement,
    find_isolation,
    is_confining,
)
from forge_cli.sandbox.isolation.landlock import Landlock, landlock_version
from forge_cli.sandbox.processes.command import bash_argv, clean_environment
from forge_cli.sandbox.processes.process import ChildProcesses
from forge_cli.sandbox.zones.zones import IsolationLevel
from forge_cli.testing import Project
from tests.support.children import (
    ESCAPES,
    bury,
    children,
    descriptors,
    escape,
    gate,
    sleepers,
    stranger,
    tag,
    time_out_after_first_output,
)

from .world import SECRETS, World

pytestmark = [pytest.mark.anyio, pytest.mark.needs("linux")]

PYTHON = (Path(sys.prefix), Path(sys.base_prefix))


async def test_zone_is_written_and_the_rest_of_the_host_is_read(world: World) -> None:
    (world.outside / "file").write_text("readable\n")
    done = await world.run(f"echo new >file; cat {world.outside}/file; pwd")
    assert (done.stdout, done.exit_code) == (f"readable\n{world.project}\n", 0)
    assert (world.project / "file").read_text() == "new\n"


@pytest.mark.few(3)
@pytest.mark.parametrize("where", ["outside", "home", "project/../outside", "."])
async def test_writes_outside_zones_are_refused(world: World, where: str) -> None:
    target = world.root / where / "file"
    assert (await world.run(f"echo x >{target}")).exit_code == 1
    assert not target.exists()
    assert (await world.free(f"echo x >{target}")).exit_code == 0
    assert (
        await world.run(f"rm {target} || truncate -s 0 {target} || mv {target} {target}2")
    ).exit_code == 1
    assert target.read_text() == "x\n"
    assert (await world.run(f"chmod 777 {target}")).exit_code == (0 if world.weaker else 1)


async def test_link_out_of_the_zone_is_no_way_out(world: World) -> None:
    (world.outside / "file").write_text("old\n")
    done = await world.run(
        f"ln -s {world.outside} link; echo x >link/file; ln {world.outside}/file hard || echo no"
    )
    assert done.stdout == "no\n"
    assert (world.outside / "file").read_text() == "old\n"


@pytest.mark.few(4)
@pytest.mark.parametrize("name", SECRETS)
async def test_secrets_are_hidden(world: World, name: str) -> None:
    assert (await world.free(f"cat ~/{name}")).stdout == "the secret\n"
    done = await world.run(f"cat ~/{name}; ls ~/{name}; echo mine >~/{name}")
    assert "the secret" not in done.stdout + done.stderr
    assert (world.home / name).read_text() == "the secret\n"


async def test_hidden_file_is_empty_or_cannot_be_opened(world: World) -> None:
    config = world.home / ".config"
    (config / "git").mkdir()
    (config / "git/credentials").write_text("the secret\n")
    line = "cat git/credentials; echo $?; echo x >git/credentials || echo refused"
    done = await world.run(
        line, world.confinement(Zone("config", config, ZoneMode.RW), workspace=config), cwd=config
    )
    assert done.stdout == ("1\nrefused\n" if world.weaker else "0\nrefused\n")


CONNECT = """
import socket, sys
kind, address = sys.argv[1:]
with socket.socket(getattr(socket, kind)) as connection:
    connection.connect(("127.0.0.1", int(address)) if kind == "AF_INET" else address.replace("@", "\\0"))
print("connected")
"""


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", ["AF_INET", "abstract", "AF_UNIX"])
async def test_network_is_cut_off(world: World, tmp_path: Path, kind: str) -> None:
    script = tmp_path / "connect.py"
    script.write_text(CONNECT)
    with socket.socket(socket.AF_INET if kind == "AF_INET" else socket.AF_UNIX) as server:
        address = f"@forge-test-{os.getpid()}" if kind == "abstract" else str(tmp_path / "socket")
        server.bind(("127.0.0.1", 0) if kind == "AF_INET" else address.replace("@", "\0"))
        server.listen()
        address = str(server.getsockname()[1]) if kind == "AF_INET" else address
        line = f"{sys.executable} {script} {kind.replace('abstract', 'AF_UNIX')} {address}"
        options: dict[str, Any] = {"visible": (*PYTHON, script)}
        assert (await world.free(line)).stdout == "connected\n"
        assert (await world.run(line, **options)).stdout == ""
        online = await world.run(line, world.confinement(network=True), **options)
        assert online.stdout == ("connected\n" if kind == "AF_INET" else "")


PTRACE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for pid in map(int, sys.argv[1:]):
    refused = libc.ptrace(0x4206, pid, None, None)
    print(os.strerror(ctypes.get_errno()) if refused else "traced")
"""


async def test_foreign_processes_are_out_of_reach(world: World, tmp_path: Path) -> None:
    script = tmp_path / "ptrace.py"
    script.write_text(PTRACE)
    with stranger() as victim:
        pids = f"{os.getpid()} {victim.pid}"
        assert (await world.free(f"kill -0 {pids} && echo there")).stdout == "there\n"
        done = await world.run(
            f"kill -0 {pids} && echo there; cd /proc/{victim.pid} && cat environ && readlink cwd exe fd/0"
        )
        assert done.stdout == ""
        seen = await world.run(f"ls -d /proc/{victim.pid} /proc/{os.getpid()}")
        assert bool(seen.stdout) is world.weaker
        traced = await world.run(f"{sys.executable} {script} {pids}", visible=(*PYTHON, script))
        assert (
            traced.stdout
            == ("Operation not permitted\n" if world.weaker else "No such process\n") * 2
        )


@pytest.mark.few(8)
@pytest.mark.parametrize(
    "line",
    [
        "mount -o remount,rw /",
        "mount -o remount,bind,rw /",
        "mount --bind / /mnt",
        "mount -t tmpfs none /mnt",
        "mount -t proc none /proc",
        "umount ~/.ssh",
        "umount -l /tmp",
        "unshare --user true",
        "unshare --user --map-root-user true",
        "unshare --mount true",
        "unshare --pid --fork true",
        "unshare --net true",
        pytest.param("bwrap --ro-bind / / true", marks=pytest.mark.needs("bwrap")),
        "chroot / true",
        "nsenter --target 1 --mount true",
        "mknod device b 8 0",
        "mknod device c 1 3",
    ],
)
async def test_namespaces_mounts_and_devices_cannot_be_made(world: World, line: str) -> None:
    done = await world.run(line)
    assert done.exit_code not in (0, 127), done


async def test_confined_command_gains_no_privileges(world: World) -> None:
    """Only root, or a namespace, can empty the bounding set; without new privileges it gives nothing."""
    status = (await world.run("cat /proc/self/status")).stdout
    sets = dict(re.findall(r"^(Cap\w+):\s+(\w+)$", status, re.MULTILINE))
    assert len(sets) == 5
    if world.weaker and os.geteuid() != 0:
        del sets["CapBnd"]
    assert {*sets.values()} == {"0" * 16}
    assert re.findall(r"^NoNewPrivs:\s+(\d)$", status, re.MULTILINE) == ["1"]


async def test_kernel_is_not_told_anything(world: World) -> None:
    """As root, the files in /proc/sys are open to whoever has the right number; each gets only its own value back."""
    line = """
        cd /proc/sys
        for file in kernel/{core_pattern,hostname,printk} vm/swappiness net/ipv4/ip_forward
        do value=$(cat $file 2>/dev/null) && (echo "$value" >$file) 2>/dev/null && echo "wrote $file"; done
    """
    found = "find /proc /sys -maxdepth 3 -not -path '/proc/[0-9]*' -type f -writable 2>/dev/null"
    assert (await world.run(line)).stdout == ""
    assert world.weaker or (await world.run(found)).stdout == ""


async def test_zones_have_their_names_and_hold_what_they_hold(mounted: World) -> None:
    """By its virtual name a zone is what it is by its path: what is protected, hidden or read-only in it stays so."""
    project, secrets = mounted.project, mounted.project / "secrets"
    for folder in (".git/hooks", "own", "inner", "secrets"):
        (project / folder).mkdir(parents=True)
    for file in (".git/config", "own/worker.yaml", "inner/file", "secrets/key"):
        (project / file).write_text("kept")
    zones = (
        Zone("named", project, ZoneMode.RW),
        Zone("within", project / "inner"),
        Zone("beside", mounted.outside),
    )
    confinement = mounted.confinement(*zones, protected=[project / "own/worker.yaml"])
    confinement = replace(confinement, hidden=(*confinement.hidden, secrets))
    line = """
        echo x >/named/new && cat new && find /named -name new
        cat /named/secrets/key /within/../secrets/key
        echo x >/named/.git/config; echo x >/named/.git/hooks/post-merge; echo x >/named/own/worker.yaml
        mv /named/own /named/other; mv /named/.git /named/git; echo x >/named/inner/file; echo x >/within/file
        rm -r /named/inner; echo x >/beside/file; mkdir /another; rmdir /named; mv /named /moved
    """
    done = await mounted.run(line, confinement)
    assert done.stdout == "x\n/named/new\n"
    kept = {
        str(path.relative_to(project)): path.read_text()
        for path in project.rglob("*")
        if path.is_file()
    }
    files = (".git/config", "own/worker.yaml", "inner/file", "secrets/key")
    assert kept == {"new": "x\n", **dict.fromkeys(files, "kept")}
    assert os.listdir(mounted.outside) == []


async def test_zone_takes_no_name_that_means_something_on_the_host(
    mounted: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither one that is there, nor one in which programs are looked for."""
    monkeypatch.setenv("PATH", f"/bins/tools:{os.environ['PATH']}")
    zones = [
        Zone(name, mounted.project / name, ZoneMode.RW) for name in ("mnt", "lib32", "bins", "free")
    ]
    for zone in zones:
        zone.path.mkdir()
        (zone.path / "mark").touch()
    done = await mounted.run("ls -d /*/mark", mounted.confinement(*zones))  # every Linux has /mnt
    assert done.stdout == "/free/mark\n"


async def test_devices_and_shared_memory_are_its_own(mounted: World) -> None:
    name = f"forge-test-{os.getpid()}"
    done = await mounted.run(
        f"echo x >/dev/shm/{name}; echo x >/tmp/{name}; cat /tmp/{name}; ls /dev; ls -A /run | wc -l"
    )
    assert done.stdout.startswith("x\n")
    assert done.stdout.endswith("\n0\n")
    assert not {"sda", "vda", "kmsg", "mem", "fuse", "kvm"} & set(done.stdout.split())
    assert not {name} & {*os.listdir("/dev/shm"), *os.listdir("/tmp")}


async def test_shared_memory_is_refused_without_namespaces(world: World) -> None:
    """Devices, shared memory, /tmp and /run; a folder for temporary files there is all the same."""
    if not world.weaker:
        pytest.skip("it has its own")
    name = f"forge-test-{os.getpid()}"
    refused = (
        "ls /dev",
        "ls /run",
        "ls /tmp",
        f"echo x >/dev/shm/{name}",
        f"echo x >/tmp/{name}",
        "cat /dev/kmsg",
    )
    done = await world.run("".join(f"({line}) 2>/dev/null && echo '{line}'\n" for line in refused))
    assert done.stdout == ""
    done = await world.run(
        "echo x >$TMPDIR/f; cat $(mktemp -d)/../f; echo y >/dev/null; echo $TMPDIR; head -c 1 /dev/zero"
    )
    folder = done.stdout.splitlines()[1]
    assert (done.stdout, done.stderr) == (f"x\n{folder}\n\0", "")
    assert os.path.basename(folder) not in os.listdir(tempfile.gettempdir())


async def test_descriptors_are_not_inherited(world: World) -> None:
    secret = os.open(world.home / ".ssh/id", os.O_RDONLY)
    folder = os.open(world.outside, os.O_RDONLY)
    for descriptor in (secret, folder):
        os.set_inheritable(descriptor, True)
    done = await world.run("for fd in {0..99}; do [ -e /proc/$$/fd/$fd ] && echo $fd; done")
    os.close(secret)
    os.close(folder)
    assert set(done.stdout.split()) <= {"0", "1", "2", "255"}


async def test_keys_are_in_no_environment(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret")
    monkeypatch.setenv("TMPDIR", str(world.outside))
    done = await world.run("env; cat /proc/*/environ; echo; mktemp")
    assert "sk-ant-secret" not in done.stdout
    assert world.weaker or done.stdout.rpartition("\n/tmp/")[1]


INJECT = """
import fcntl, os, termios
for name in ("/dev/tty", "/dev/console", "/dev/pts/0", *(f"/proc/self/fd/{n}" for n in range(3))):
    try:
        descriptor = os.open(name, os.O_RDWR | os.O_NOCTTY)
        fcntl.ioctl(descriptor, termios.TIOCSTI, b"x")
        print("injected into", name)
    except OSError:
        pass
try:
    print("terminal", os.open("/dev/tty", os.O_RDWR))
except OSError as error:
    print("no terminal:", error.strerror)
"""

UNDER_A_TERMINAL = """
import os, sys
from functools import partial
from pathlib import Path
import anyio
from forge_cli.sandbox.isolation.confinement import Confinement
from forge_cli.sandbox.isolation.isolation import Confined, available_mechanisms
from forge_cli.sandbox.processes.command import clean_environment
from forge_cli.sandbox.processes.process import ChildProcesses
from forge_cli.core.zones import Zone, ZoneMode

async def main():
    here = Path(sys.argv[1])
    confinement = Confinement(zones=(Zone("here", here, ZoneMode.RW),), workspace=here)
    shown = [Path(sys.prefix), Path(sys.base_prefix)]
    cage = next(found for found in available_mechanisms() if found.name == sys.argv[2])
    wrap = Confined(cage, confinement, readable=tuple(shown))
    async with ChildProcesses() as processes:
        words = [sys.executable, str(here / "inject.py")]
        done = await processes.run(words, cwd=here, env=clean_environment(), timeout=60, wrap=wrap)
    print("terminal:", os.isatty(0), "|", done.stdout.strip(), "|", done.stderr.strip(), "|")

anyio.run(main)
"""


@pytest.mark.few(1)
def test_terminal_gets_no_input_from_commands(world: World) -> None:
    (world.project / "inject.py").write_text(INJECT)
    command = pexpect.spawn(
        sys.executable,
        ["-c", UNDER_A_TERMINAL, str(world.project), world.cage.name],
        timeout=60,
        encoding="utf-8",
    )
    command.expect(r"terminal: (\w+) \| (.*) \| (.*) \|")
    assert command.match.groups() == ("True", "no terminal: No such device or address", "")
    command.expect(pexpect.EOF)
    command.close()


async def test_protected_names_are_read_only(mounted: World) -> None:
    world = mounted
    for name in (
        ".git/hooks/x",
        "sub/.git/config",
        ".env",
        "sub/.env.local",
        "deep/er/.mcp.json",
        ".bashrc",
    ):
        (world.project / name).parent.mkdir(parents=True, exist_ok=True)
        (world.project / name).write_text("old\n")
    worker = world.project / "workers" / "worker.yaml"
    worker.parent.mkdir()
    worker.write_text("old\n")
    files = "$(find . -type f)"
    line = f"cat {files}; for f in {files}; do echo new >$f; rm -f $f; mv $f $f.moved; done; echo x >sub/ok; mv .git git"
    done = await world.run(line, world.confinement(protected=[worker]))
    assert done.stdout == "old\n" * 7
    assert (world.project / "sub/ok").read_text() == "x\n"
    found = {
        str(path.relative_to(world.project)) for path in world.project.rglob("*") if path.is_file()
    }
    assert found == {
        *(
            ".git/hooks/x",
            "sub/.git/config",
            ".env",
            "sub/.env.local",
            "deep/er/.mcp.json",
            ".bashrc",
        ),
        *("workers/worker.yaml", "sub/ok"),
    }


async def test_failure_that_may_come_of_the_cage_has_a_hint(world: World) -> None:
    refused = await world.run(f"echo x >{world.outside}/file")
    other = await world.run("echo no >&2; exit 1")
    harmless = await world.run(f"echo x >{world.outside}/file; true")
    free = await world.free("echo 'Read-only file system, Permission denied' >&2; exit 1")
    start = (
        "it is confined: it writes to writable zones and $TMPDIR"
        if world.weaker
        else "it is confined: it can write"
    )
    assert str(refused.hint(refused.stderr)).startswith(start)
    assert refused.hint(refused.stderr.lower()) == refused.hint(
        refused.stderr
    )  # as programs in Go write it
    assert [done.hint(done.stderr) for done in (other, harmless, free)] == [None] * 3


async def test_failure_that_may_come_of_the_hidden_home_has_a_hint(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(world.home))
    hidden, other = await world.run("cat ~/notes.txt"), await world.run("cat notes.txt")
    hints = [done.hint(done.stderr) for done in (hidden, other)]
    assert hints == [
        "it is confined: of the home it sees zones, toolchains on PATH and what sandbox.read names",
        None,
    ]


async def test_protected_path_cannot_be_moved_and_replaced(mounted: World) -> None:
    world = mounted
    inner, worker = world.project / "a/b/inner", world.project / "workers/mine/worker.yaml"
    for path in (inner / "file", worker):
        path.parent.mkdir(parents=True)
        path.write_text("old\n")
    zones = (Zone("project", world.project, ZoneMode.RW), Zone("inner", inner))
    line = "mv a/b a/c; mv a z; mv workers other; mv workers/mine workers/other; rm -rf a workers; find . -type f | sort"
    done = await world.run(line, world.confinement(*zones, protected=[worker]))
    assert done.stdout == "./a/b/inner/file\n./workers/mine/worker.yaml\n"


@pytest.mark.parametrize("target", ["../home/.ssh", "/HOME/.ssh", "../outside"])
async def test_link_in_place_of_a_protected_name_shows_nothing(world: World, target: str) -> None:
    (world.outside / "file").write_text("old\n")
    (world.project / ".git").symlink_to(target.replace("/HOME", str(world.home)))
    done = await world.run("cat .git/id; echo x >.git/file; true")
    assert (done.stdout, done.exit_code) == ("", 0)
    assert (world.outside / "file").read_text() == "old\n"


async def test_zone_that_became_a_link_starts_nothing(world: World) -> None:
    inner = world.project / "inner"
    inner.mkdir()
    confinement = world.confinement(
        Zone("project", world.project, ZoneMode.RW), Zone("inner", inner)
    )
    inner.rename(world.project / "moved")
    inner.symlink_to(world.home / ".ssh")
    before = descriptors()
    with pytest.raises(ToolError, match="nothing was started: '.*/inner' became a link"):
        await world.run("cat inner/id", confinement)
    inner.unlink()
    with pytest.raises(
        ToolError, match="nothing was started: '.*/inner' cannot be confined: No such file"
    ):
        await world.run("true", confinement)
    assert descriptors() == before


FLIP = """
import os, sys
os.mkdir("link")
os.symlink("../../home/.ssh", "link/.git")
open(sys.argv[1], "w").write("x")
while True:
    os.rename("sub", "folder")
    os.rename("link", "sub")
    os.rename("sub", "link")
    os.rename("folder", "sub")
"""


@pytest.mark.few(1)
async def test_place_that_turns_into_a_link_while_it_is_mounted_shows_nothing(
    world: World,
) -> None:
    """Somebody who is already inside changes a protected folder into a link and back, as fast as possible."""
    (world.project / "sub/.git").mkdir(parents=True)
    wrap = Confined(world.cage, world.confinement(), readable=PYTHON)
    options: dict[str, Any] = {
        "cwd": world.project,
        "env": {"HOME": str(world.home), **clean_environment()},
    }
    look = bash_argv("cat ~/.ssh/id */.git/id")
    async with ChildProcesses() as processes:
        with gate(world.project) as flipping:
            processes.start([sys.executable, "-c", FLIP, str(flipping.path)], wrap=wrap, **options)
            await flipping.opened()
        for _ in range(30):
            with suppress(ToolError):
                done = await processes.run(look, wrap=wrap, timeout=60, **options)
                assert "the secret" not in done.stdout


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "name",
    ["with space", "new\nline", "-dash", "ümlaut", "quo'te\"s", "back\\slash", "$HOME;x", "#"],
)
async def test_zone_accepts_any_folder_name(world: World, name: str) -> None:
    folder = world.project / name
    (folder / ".git").mkdir(parents=True)
    (world.home / ".ssh" / name).mkdir()
    confinement = world.confinement(Zone("odd", folder, ZoneMode.RW), workspace=folder)
    done = await world.run(
        "echo x >file; echo x >.git/file || echo held; pwd; ls ../..", confinement, cwd=folder
    )
    assert done.stdout == (
        f"{folder}\n" if world.weaker else f"held\n{folder}\nhome\noutside\nproject\n"
    )
    assert (folder / "file").read_text() == "x\n"


async def test_zones_in_temporary_and_hidden_places_are_there(world: World, tmp_path: Path) -> None:
    inside = world.home / ".ssh" / "zone"
    for place in (inside, tmp_path / "zone"):
        place.mkdir()
    (tmp_path / "secret").write_text("secret")
    zones = (Zone("one", inside, ZoneMode.RW), Zone("two", tmp_path / "zone", ZoneMode.RW))
    confinement = world.confinement(*zones, workspace=inside)
    done = await world.run(
        f"echo x >{inside}/f; echo x >{tmp_path}/zone/f; ls -A ~/.ssh; ls -A {tmp_path}",
        confinement,
        cwd=inside,
    )
    assert done.stdout == ("" if world.weaker else "zone\nzone\n")
    assert [(place / "f").read_text() for place in (inside, tmp_path / "zone")] == ["x\n", "x\n"]


async def test_workspace_without_a_zone_is_read_even_in_a_hidden_place(world: World) -> None:
    workspace = world.home / ".aws"
    confinement = world.confinement(Zone("project", world.project), workspace=workspace)
    done = await world.run(
        "cat credentials; echo x >file || echo refused", confinement, cwd=workspace
    )
    assert done.stdout == "the secret\nrefused\n"


async def test_workspace_may_be_reached_by_a_link(world: World) -> None:
    link = world.root / "link"
    link.symlink_to(world.project)
    done = await world.run("echo x >file; pwd -P", world.confinement(workspace=link), cwd=link)
    assert done.stdout == f"{world.project}\n"
    assert (world.project / "file").exists()


async def test_hidden_places_are_hidden_inside_a_zone_and_behind_links(world: World) -> None:
    shutil.rmtree(world.home / ".ssh")
    (world.project / "dotfiles").mkdir()
    (world.project / "dotfiles/id").write_text("the secret\n")
    (world.home / ".ssh").symlink_to(world.project / "dotfiles")
    done = await world.run("cat dotfiles/id ~/.ssh/id; mv dotfiles x; ls -A dotfiles x")
    assert done.stdout == ("" if world.weaker else "dotfiles:\n")
    assert (world.project / "dotfiles/id").read_text() == "the secret\n"
    config = world.confinement(
        Zone("config", world.home / ".config", ZoneMode.RW), workspace=world.home / ".config"
    )
    done = await world.run(
        "echo x >file; cat gcloud/key; mv gcloud other; cat other/key",
        config,
        cwd=world.home / ".config",
    )
    assert done.stdout == ""
    assert (world.home / ".config/file").exists() is not world.weaker


async def test_forge_home_is_not_writable_for_commands(world: World) -> None:
    own = world.root / "elsewhere"
    for folder in (own / "tools/mine", world.project / ".forge/zone"):
        folder.mkdir(parents=True)
    (own / "config.yaml").write_text("the secret\n")
    zones = [
        Zone("tools", own / "tools", ZoneMode.RW),
        Zone("odd", world.project / ".forge/zone", ZoneMode.RW),
    ]
    confinement = world.confinement(*zones, forge_home=own)
    places = f"{own}/tools/mine {world.project}/.forge/zone"
    done = await world.run(
        f"for p in {places}; do ls -d $p; echo x >$p/f || echo refused; done; cat {own}/*.yaml",
        confinement,
    )
    assert done.stdout == f"{own}/tools/mine\nrefused\n{world.project}/.forge/zone\nrefused\n"


async def test_tool_in_the_hidden_folder_is_made_visible(world: World) -> None:
    tool = world.home / ".forge/tools/greet"
    tool.mkdir(parents=True)
    (tool / "greet.sh").write_text("echo hello\n")
    line = f"bash {tool}/greet.sh; ls -A ~/.forge ~/.forge/tools; echo x >{tool}/greet.sh"
    done = await world.run(line, visible=[tool])
    listed = (
        ""
        if world.weaker
        else f"{world.home}/.forge:\ntools\n\n{world.home}/.forge/tools:\ngreet\n"
    )
    assert done.stdout == f"hello\n{listed}"
    assert done.exit_code == 1


async def test_inner_zones_decide_for_themselves(world: World) -> None:
    """By allowing alone, nothing can be made right beside what is less than writable."""
    for name in ("x", "ro/rw/x", "ro/rw/ro"):
        (world.project / name).mkdir(parents=True)
    zones = [
        Zone("a", world.project, ZoneMode.RW),
        Zone("b", world.project / "ro"),
        Zone("c", world.project / "ro/rw", ZoneMode.RW),
        Zone("d", world.project / "ro/rw/ro"),
    ]
    places = ". x ro ro/rw ro/rw/x ro/rw/ro"
    done = await world.run(
        f"for p in {places}; do echo x >$p/f && echo $p; done", world.confinement(*zones)
    )
    assert done.stdout == ("x\nro/rw/x\n" if world.weaker else ".\nx\nro/rw\nro/rw/x\n")


async def test_exit_status_of_a_confined_command_is_reported(world: World) -> None:
    endings = [
        (done.exit_code, done.signal)
        for done in [await world.run(f"{line}") for line in ("exit 7", "kill -9 $$")]
    ]
    assert endings == [(7, None), (None, 9)]
    wrap = Confined(world.cage, world.confinement())
    lines = (
        "trap 'echo asked; exit 5' TERM; echo go; while :; do sleep 0.01; done",
        "trap '' TERM; echo go; while :; do sleep 1; done",
    )
    async with ChildProcesses() as processes:
        asked, stubborn = [
            await time_out_after_first_output(
                processes.start(
                    bash_argv(line), cwd=world.project, env=clean_environment(), wrap=wrap
                )
            )
            for line in lines
        ]
    assert (asked.stdout, asked.exit_code, asked.timed_out) == ("go\nasked\n", 5, True)
    assert (stubborn.stdout, stubborn.signal, stubborn.timed_out) == ("go\n", 9, True)


@pytest.mark.few(4)
@pytest.mark.parametrize("way", ESCAPES)
async def test_confined_command_leaves_no_process(world: World, way: str) -> None:
    sleeping = tag()
    wrap = Confined(world.cage, world.confinement())
    async with ChildProcesses() as processes:
        with gate(world.project) as out, gate(world.project) as go:
            line = f"{escape(way, out, sleeping)}read x <>{go.path}"
            child = processes.start(
                bash_argv(line), cwd=world.project, env=clean_environment(), wrap=wrap
            )
            await out.opened()
            inside = [os.pidfd_open(pid) for pid in sleepers(sleeping)]
            assert inside
            writer = os.open(go.path, os.O_WRONLY)
            os.write(writer, b"x\n")
            os.close(writer)
            with anyio.fail_after(60):
                await child.ended.wait()
                for pidfd in inside:
                    await anyio.wait_readable(pidfd)
                    os.close(pidfd)
        assert child.finished().exit_code == 0
    assert (sleepers(sleeping), children()) == ([], [])


@pytest.mark.few(4)
@pytest.mark.parametrize("way", ESCAPES)
async def test_stop_reaches_everybody_inside(world: World, way: str) -> None:
    sleeping = tag()
    wrap = Confined(world.cage, world.confinement())
    async with ChildProcesses() as processes:
        with gate(world.project) as out:
            line = f"{escape(way, out, sleeping)}sleep {sleeping}"
            child = processes.start(
                bash_argv(line), cwd=world.project, env=clean_environment(), wrap=wrap
            )
            await out.opened()
        begin = time.monotonic()
        await child.stop()
        assert (time.monotonic() - begin < 30, sleepers(sleeping)) == (True, [])
    assert children() == []


KILLED = """
import sys
from functools import partial
from pathlib import Path
import anyio
from forge_cli.sandbox.isolation.confinement import Confinement
from forge_cli.sandbox.isolation.isolation import Confined, available_mechanisms
from forge_cli.sandbox.processes.command import bash_argv, clean_environment
from forge_cli.sandbox.processes.process import ChildProcesses
from forge_cli.core.zones import Zone, ZoneMode

async def main():
    here = Path(sys.argv[1])
    cage = next(found for found in available_mechanisms() if found.name == sys.argv[3])
    wrap = Confined(cage, Confinement(zones=(Zone("here", here, ZoneMode.RW),), workspace=here))
    async with ChildProcesses() as processes:
        await processes.run(bash_argv(sys.argv[2]), cwd=here, env=clean_environment(), timeout=None, wrap=wrap)

anyio.run(main)
"""


@pytest.mark.few(1)
async def test_processes_do_not_outlive_forge(world: World) -> None:
    """Without namespaces that is the command itself, but not what it has left in the background."""
    sleeping = tag()
    with gate(world.project) as out:
        way = f"echo out >{out.path}\n" if world.weaker else escape("env -i", out, sleeping)
        line = f"{way}exec sleep {sleeping}"
        with stranger(
            sys.executable, "-c", KILLED, str(world.project), line, world.cage.name
        ) as forge:
            await out.opened()
            inside = [os.pidfd_open(pid) for pid in sleepers(sleeping) if pid != forge.pid]
    assert inside
    with anyio.fail_after(60):
        for pidfd in inside:
            await anyio.wait_readable(pidfd)
            os.close(pidfd)
    assert sleepers(sleeping) == []
    bury()


async def test_stop_while_the_cage_is_built_does_not_wait(world: World) -> None:
    wrap = Confined(world.cage, world.confinement())
    before = descriptors()
    async with ChildProcesses() as processes:
        for _ in range(5):
            child = processes.start(
                bash_argv("sleep 300"), cwd=world.project, env=clean_environment(), wrap=wrap
            )
            begin = time.monotonic()
            await child.stop()
            assert time.monotonic() - begin < 30
    assert (children(), descriptors()) == ([], before)


@pytest.mark.parametrize(
    "script",
    [
        "exit 1",
        "exit 0",
        'while [ "$1" != -- ]; do shift; done; shift; exec "$@"',
        'while [ "$1" != -- ]; do shift; done; shift; "$@" >/dev/null',
        "kill -9 $$",
    ],
)
def test_mechanism_that_does_not_confine_is_none(tmp_path: Path, script: str) -> None:
    fraud = tmp_path / "bwrap"
    fraud.write_text(f"#!/bin/bash\n{script}\n")
    fraud.chmod(0o755)
    assert not is_confining(Bubblewrap(str(fraud)))


def test_try_that_fails_for_want_of_something_is_an_error(tmp_path: Path) -> None:
    fraud = tmp_path / "bwrap"
    for number in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN):
        fraud.write_text(
            f"#!/bin/bash\necho 'bwrap: something: {os.strerror(number)}' >&2\nexit 1\n"
        )
        fraud.chmod(0o755)
        with pytest.raises(
            WorkerError, match=f"whether bwrap confines commands: {os.strerror(number)}"
        ):
            is_confining(Bubblewrap(str(fraud)))


def test_try_with_too_few_descriptors_never_says_no(cage: Mechanism) -> None:
    """With every number of descriptors that are left, it works or is an error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    first = os.open("/dev/null", os.O_RDONLY)
    os.close(first)
    answers = []
    try:
        for left in range(14):
            resource.setrlimit(resource.RLIMIT_NOFILE, (first + left, hard))
            try:
                answers.append("yes" if is_confining(cage) else "no")
            except WorkerError as error:
                answers.append("error" if "Too many open files" in str(error) else str(error))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert set(answers) <= {"yes", "error"}
    assert answers[0] == "error"


@pytest.mark.needs("Landlock")
@pytest.mark.parametrize("version", range(1, 7))
def test_older_kernels_confine_too(version: int) -> None:
    """With the rights that each version knows; before the sixth other processes can be signalled, which is said."""
    found = Landlock(min(version, landlock_version()))
    assert is_confining(found)
    assert ("signalled" in found.weakness) is (version < 6)


@pytest.mark.needs("bwrap")
def test_mechanism_that_shows_what_is_hidden_is_none(tmp_path: Path) -> None:
    fraud = tmp_path / "bwrap"
    real = shutil.which("bwrap")
    fraud.write_text(
        f"""#!/bin/bash
for word; do
    shift
    case $word in --tmpfs | --remount-ro) word=--dir;; esac
    set -- "$@" "$word"
done
exec {real} "$@"
"""
    )
    fraud.chmod(0o755)
    assert not is_confining(Bubblewrap(str(fraud)))


@pytest.fixture
def fresh() -> Iterator[None]:
    """Let the mechanism be looked for again, during the test and after it."""
    best_mechanism.cache_clear()
    yield
    best_mechanism.cache_clear()


@pytest.mark.usefixtures("fresh")
def test_machine_without_a_mechanism(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("forge_cli.sandbox.isolation.landlock.landlock_version", lambda: 0)
    assert describe_confinement(best_mechanism()) == "commands: not confined"
    assert best_mechanism() is None
    assert find_isolation(IsolationLevel.AUTO) is None
    assert find_isolation(IsolationLevel.OFF) is None
    with pytest.raises(
        WorkerError,
        match=r"w.yaml:3:5: isolation is required, and this machine has no .*\n.*bubblewrap",
    ):
        find_isolation(IsolationLevel.REQUIRED, where=Mark("w.yaml", 3, 5))


@pytest.mark.usefixtures("fresh")
@pytest.mark.needs("Landlock")
def test_machine_with_the_weaker_mechanism_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where ``bwrap`` is there, but may make no namespaces."""
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "bwrap").write_text(
        "#!/bin/sh\necho 'No permissions to create new namespace' >&2; exit 1\n"
    )
    (tmp_path / "bwrap").chmod(0o755)
    found = find_isolation(IsolationLevel.AUTO)
    assert (
        found and found.name,
        describe_confinement(found).startswith("commands: confined, weaker (Landlock: "),
    ) == (
        "Landlock",
        True,
    )
    with pytest.raises(
        WorkerError,
        match=r"w.yaml:3:5: isolation is required, and .* Landlock, which is weaker: .*\n.*bubblewrap",
    ):
        find_isolation(IsolationLevel.REQUIRED, where=Mark("w.yaml", 3, 5))


@pytest.mark.usefixtures("fresh")
@pytest.mark.needs("bwrap")
def test_mechanism_is_tried_once_and_only_when_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    cage = next(available_mechanisms())
    tried = []
    monkeypatch.setattr(isolation_module, "is_confining", lambda found: not tried.append(found))
    assert find_isolation(IsolationLevel.OFF) is None
    assert tried == []
    assert find_isolation(IsolationLevel.AUTO) == find_isolation(IsolationLevel.REQUIRED) == cage
    assert len(tried) == 1


def test_network_is_open_by_default_unless_isolation_is_required() -> None:
    assert [level.network for level in IsolationLevel] == [True, False, True]


def test_probe_leaves_nothing_behind(
    cage: Mechanism, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert is_confining(cage)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    assert not is_confining(cage)


def test_bwrap_is_never_taken_from_a_folder_that_depends_on_the_working_directory(
    project: Project,
) -> None:
    for folder in (".", "bin"):
        planted = project.write(f"{folder}/bwrap", "#!/bin/sh\ntouch planted\n")
        planted.chmod(0o755)
    done = project.forge("doctor", env={"PATH": f".:bin::{os.environ['PATH']}"})
    assert "isolation" in done.stdout
    assert not (project.folder / "planted").exists()
