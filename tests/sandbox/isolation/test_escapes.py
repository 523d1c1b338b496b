"""Escapes: everything that a confined command could try, in one table, by every mechanism.

What a mechanism does not hold is written down in NOT_HELD; docs/shell.md has the same list.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forge_cli.core.zones import Zone, ZoneMode
from tests.support.children import stranger

from .world import World

pytestmark = [pytest.mark.anyio, pytest.mark.needs("linux")]

_PYTHON = "python3 -c 'import os, sys; path = sys.argv[2]; exec(sys.argv[1])'"
FILES = {
    "create": "echo x >$OUT/new",
    "append": "echo x >>$OUT/file",
    "overwrite": "echo x >$OUT/file",
    "truncate": "truncate -s 0 $OUT/file",
    "truncate by name": "perl -e 'truncate($ARGV[0], 0) or exit 1' $OUT/file",
    "make a folder": "mkdir $OUT/folder",
    "remove a folder": "rmdir $OUT/empty",
    "make a pipe": "mkfifo $OUT/pipe",
    "make a link": "ln -s x $OUT/link",
    "hard link in": "ln $OUT/file hard",
    "hard link out": "touch mine && ln mine $OUT/mine",
    "through a link": "ln -sfn $OUT link && echo x >link/file",
    "through /proc/self/cwd": "echo x >/proc/self/cwd/../outside/file",
    "through /proc/self/root": "echo x >/proc/self/root$OUT/file",
    "copy out": "cp /etc/hostname $OUT/copy",
    "move out": "touch mine && mv mine $OUT/moved",
    "write to the home": "echo x >~/new",
    "write to forge's folder": "echo x >~/.forge/config.yaml",
    "write to a read-only zone": "echo x >ro/new",
    "remove in a read-only zone": "rm ro/file",
    "move a read-only zone": "mv ro away",
    "rename": "mv $OUT/file $OUT/renamed && mv $OUT/renamed $OUT/file",
    "remove": "touch $OUT/copy && rm $OUT/copy",
    "change the mode": "chmod 640 $OUT/file",
    "change the times": "touch -c -d 2001-01-01 $OUT/file",
    "change the owner": "chown $(id -u):$(id -g) $OUT/file",
    "change the owner of a link": "chown -h $(id -u) $OUT/pointer",
    "change the group by a descriptor": f"{_PYTHON} 'os.fchown(os.open(path, os.O_RDONLY), -1, os.getgid())' $OUT/file",
    "set an attribute": f'{_PYTHON} \'os.setxattr(path, "user.x", b"1")\' $OUT/file',
    "set an attribute by a descriptor": f'{_PYTHON} \'os.setxattr(os.open(path, 0), "user.y", b"1")\' $OUT/file',
    "remove an attribute": f"{_PYTHON} 'os.removexattr(path, \"user.old\")' $OUT/file",
    "write a protected name": "echo x >rw/.git/config",
    "write a hook": "echo x >rw/.git/hooks/pre-commit",
    "write an environment file": "echo x >rw/.env",
    "write settings of an assistant": "echo x >rw/.claude/settings.json",
    "write what assistants are told": "echo x >rw/AGENTS.md",
    "write a workflow": "echo x >rw/.github/workflows/test.yml",
    "move the folder around workflows": "mv rw/.github rw/away && mv rw/away rw/.github",
    "write the worker's file": "echo x >rw/own/worker.yaml",
    "move the folder around the worker's file": "mv rw/own rw/other && mv rw/other rw/own",
}
"""Each can be tried unconfined as well, which shows that it would work."""
SECRETS = {
    "read": "cat ~/.ssh/id",
    "read by dd": "dd if=$HOME/.ssh/id",
    "copy": "cp ~/.ssh/id here",
    "pack": "tar c ~/.ssh | grep -q secret",
    "read through a link": "ln -sfn ~/.ssh secrets && cat secrets/id",
    "read through /proc/self/root": "cat /proc/self/root$HOME/.ssh/id",
    "read through /proc/self/cwd": "cat /proc/self/cwd/../home/.ssh/id",
    "read from inside": "cd ~/.ssh && cat id",
    "read by redirection": 'read x <~/.netrc && test -n "$x"',
    "search": "grep -rq secret ~",
    "run": "bash -x ~/.ssh/id 2>&1 | grep -q secret",
    "list": "ls -A ~/.ssh | grep -q id",
    "list the home": "ls -A ~ | grep -q ssh",
    "read forge's folder": "cat ~/.forge/config.yaml",
    "read the other home": "cat $OTHER/.ssh/id",
    "list the other home": "ls -A $OTHER | grep -q ssh",
    "read others' temporary files": "cat $SHARED",
    "see that it exists": "test -e ~/.ssh/id",
}
PROCESSES = {
    "environment": "cat /proc/$PID/environ",
    "memory": "head -c 1 /proc/$PID/mem",
    "descriptors": "readlink /proc/$PID/fd/0",
    "its folder": "ls /proc/$PID/cwd",
    "its root": "ls /proc/$PID/root",
    "signal": "kill -0 $PID",
    "stop": "kill -CONT $PID",
    "limits": "prlimit --pid $PID --core=0",
    "command line": "grep -q sleep /proc/$PID/cmdline",
}
KERNEL = {
    "remount": "mount -o remount,rw /",
    "bind mount": "mount --bind / /mnt",
    "tmpfs": "mount -t tmpfs none /mnt",
    "unmount": "umount -l /tmp",
    "user namespace": "unshare --user true",
    "root in a namespace": "unshare --user --map-root-user true",
    "mount namespace": "unshare --mount true",
    "network namespace": "unshare --net true",
    "namespaces of others": "nsenter --target $PID --net true",
    "a sandbox of its own": "bwrap --ro-bind / / true",
    "chroot": "chroot / true",
    "block device": "mknod device b 8 0",
    "character device": "mknod device c 1 3",
    "disk": "head -c 1 /dev/[sv]d[a-z]",
    "kernel log": "head -c 1 /dev/kmsg",
    "kernel settings": "cat /proc/sys/kernel/core_pattern >/proc/sys/kernel/core_pattern",
    "system request": ": >>/proc/sysrq-trigger",
    "another user": "setpriv --reuid 1 --clear-groups true",
    "host name": 'hostname "$(uname -n)"',
    "sockets of daemons": "ls /run/*",
}
_CONNECT = "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) && connect(S, pack_sockaddr_un($ARGV[0])) or exit 1'"
NETWORK = {
    "reach a server of this machine": "exec 3<>/dev/tcp/127.0.0.1/$PORT",
    "reach a socket of a daemon": f"{_CONNECT} $SOCKET",
    "reach an abstract socket": f"{_CONNECT.replace('$ARGV[0]', 'chr(0) . $ARGV[0]')} $ABSTRACT",
}
TABLE = {
    "files": FILES,
    "secrets": SECRETS,
    "processes": PROCESSES,
    "kernel": KERNEL,
    "network": NETWORK,
}
NOT_HELD = {
    "bwrap": set[tuple[str, str]](),
    "Landlock": {
        ("files", "change the mode"),
        ("files", "change the times"),
        ("files", "write a protected name"),
        ("files", "write a hook"),
        ("files", "write an environment file"),
        ("files", "write settings of an assistant"),
        ("files", "write what assistants are told"),
        ("files", "write a workflow"),
        ("files", "move the folder around workflows"),
        ("files", "write the worker's file"),
        ("files", "move the folder around the worker's file"),
        ("secrets", "see that it exists"),
        ("processes", "command line"),
    },
}


@pytest.fixture
def furnished(world: World) -> World:
    for name in (
        "outside/empty",
        "project/ro",
        "project/rw/.git/hooks",
        "project/rw/own",
        "other/.ssh",
    ):
        (world.root / name).mkdir(parents=True)
    for name in (
        "outside/file",
        "project/ro/file",
        "project/rw/.git/config",
        "project/rw/.env",
        "project/rw/own/worker.yaml",
        "project/rw/.claude/settings.json",
        "project/rw/AGENTS.md",
        "project/rw/.github/workflows/test.yml",
        "other/.ssh/id",
    ):
        (world.root / name).parent.mkdir(parents=True, exist_ok=True)
        (world.root / name).write_text("old\n")
    (world.outside / "pointer").symlink_to("file")
    os.setxattr(world.outside / "file", "user.old", b"1")
    return world


def script(world: World, table: dict[str, str], **names: object) -> str:
    """A line that says the number of each try that works."""
    given = "".join(
        f"{name}='{value}'\n" for name, value in {"OUT": world.outside, **names}.items()
    )
    tries = (
        f"({line}) >/dev/null 2>&1 </dev/null && echo {number}\n"
        for number, line in enumerate(table.values())
    )
    return f"{given}{''.join(tries)}true"


@contextmanager
def servers(folder: Path) -> Iterator[dict[str, object]]:
    """Servers of each kind, by the names that the attempts use."""
    abstract = f"forge-test-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as daemon,
        socket.socket(socket.AF_UNIX) as unnamed,
    ):
        daemon.bind(str(folder / "socket"))
        unnamed.bind(f"\0{abstract}")
        for server in (daemon, unnamed):
            server.listen()
        yield {"PORT": tcp.getsockname()[1], "SOCKET": folder / "socket", "ABSTRACT": abstract}


@pytest.mark.few(5)
@pytest.mark.parametrize("kind", TABLE)
async def test_escapes_are_closed_or_named(furnished: World, tmp_path: Path, kind: str) -> None:
    world, table = furnished, TABLE[kind]
    shared, other = tmp_path / "shared", world.root / "other"
    shared.write_text("the secret\n")
    zones = (Zone("project", world.project, ZoneMode.RW), Zone("ro", world.project / "ro"))
    own = world.project / "rw/own/worker.yaml"
    confinement = world.confinement(*zones, protected=[own], user_homes=[world.home, other])
    with stranger() as victim, servers(world.outside) as listening:
        line = script(world, table, PID=victim.pid, SHARED=shared, OTHER=other, **listening)
        done = await world.run(line, confinement)
        held = [name for number, name in enumerate(table) if str(number) not in done.stdout.split()]
        free = await world.free(line) if kind in ("files", "secrets", "network") else None
    assert {(kind, name) for name in table if name not in held} == {
        (of, name) for of, name in NOT_HELD[world.cage.name] if of == kind
    }
    assert done.exit_code == 0
    if free:
        assert free.stdout.split() == [str(number) for number in range(len(table))], (
            "each would work unconfined"
        )


def documented() -> Iterator[str]:
    """Yield each line of docs/shell.md about an attempt, with single spaces."""
    for kind, table in TABLE.items():
        open_to = [name for name in table if (kind, name) in NOT_HELD["Landlock"]]
        yield f"- **{kind}**: {', '.join(name for name in table if name not in open_to)} "
        yield from (f"| {kind} | {name} |" for name in open_to)


def test_documentation_lists_what_was_tried() -> None:
    assert NOT_HELD["bwrap"] == set()
    page = " ".join((Path(__file__).parents[3] / "docs/shell.md").read_text().split())
    assert [line for line in documented() if line not in page] == []
