"""Refused access of a command, seen by the kernel: sockets, read-only paths and programs.

Covers forge_cli.sandbox.trial.watch, forge_cli.sandbox.isolation.watching.
"""

import os
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from forge_cli.core.processes import Finished
from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.sandbox.isolation.confinement import Confinement
from forge_cli.sandbox.isolation.isolation import Confined, available_mechanisms
from forge_cli.sandbox.isolation.watching import watch_filter
from forge_cli.sandbox.processes.command import bash_argv, clean_environment
from forge_cli.sandbox.processes.process import ChildProcesses
from forge_cli.sandbox.trial.copies import Copies, Reached

pytestmark = [pytest.mark.anyio, pytest.mark.needs("overlay")]


@pytest.fixture
def zone(tmp_path: Path) -> Iterator[Path]:
    """A folder with a file, and a listening socket."""
    folder = Path(os.path.realpath(tmp_path)) / "zone"
    folder.mkdir()
    (folder / "file").write_text("x\n")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(folder)  # the whole path may be too long for an address
        server.bind("app.sock")
        os.chdir(here)
        server.listen()
        yield folder


async def watched(
    zone: Path, line: str, *, mode: ZoneMode = ZoneMode.RW, **options: bool
) -> tuple[Finished, Reached]:
    cage = next(found for found in available_mechanisms() if found.name == "bwrap")
    confinement = Confinement(zones=(Zone("zone", zone, mode),), workspace=zone, network=True)
    copies = Copies(zone.parent / "trial", Confined(cage, confinement), network=False, **options)
    async with ChildProcesses() as processes:
        done = await processes.run(
            bash_argv(line), cwd=zone, wrap=copies, env=clean_environment(), timeout=60
        )
    reached = copies.reached()
    assert reached is not None, done
    return done, reached


def build(folder: Path, *argv: str, **env: str) -> None:
    subprocess.run(argv, cwd=folder, env={**os.environ, **env}, check=True, timeout=300)


PROBES = r"""
import array, ctypes, os, socket, subprocess, sys
def attempt(do):
    try:
        print("reached", do(), flush=True)
    except OSError as error:
        print(error.strerror, flush=True)
def of(kind=socket.SOCK_STREAM):
    return socket.socket(socket.AF_UNIX, kind)
attempt(lambda: of().connect("app.sock"))
attempt(lambda: of(socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK).connect("/run/user/7/bus"))
attempt(lambda: of().connect("\0abstract"))
attempt(lambda: of(socket.SOCK_DGRAM).sendto(b"x", "/run/dgram"))
attempt(lambda: of().bind("own.sock"))
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        attempt(lambda: of().connect("/run/daemon"))
    else:
        os.wait()
    os._exit(0)
os.wait()
kept = of()
if os.fork() == 0:
    attempt(lambda: os.dup2(kept.fileno(), 9) and kept.connect("/run/inherited"))
    os._exit(0)
os.wait()
"""


async def test_wanted_unix_sockets_are_seen_without_any_output(
    zone: Path,
) -> None:
    (zone / "probes.py").write_text(PROBES)
    done, reached = await watched(zone, "python3 probes.py 2>/dev/null | sort | uniq -c")
    assert dict(reached.sockets) == {
        str(zone / "app.sock"): "there",
        "/run/user/7/bus": "absent",
        "@abstract": "there",
        "/run/dgram": "absent",
        str(zone / "own.sock"): "own",
        "/run/daemon": "absent",
        "/run/inherited": "absent",
    }
    assert "reached" not in done.stdout
    assert sum(int(line.split()[0]) for line in done.stdout.splitlines()) == 7


@pytest.mark.parametrize(
    "code",
    [
        "socket.socket(socket.AF_UNIX)",
        "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
        "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendmsg([b'x'], [], 0, 'app.sock')",
        "[socket.socket(socket.AF_UNIX) for _ in range(3)][1].connect('/run/nscd/socket')",
    ],
)
async def test_socket_is_seen_of_which_nobody_knows_what_it_was_for(zone: Path, code: str) -> None:
    _, reached = await watched(zone, f'python3 -c "import socket; {code}" 2>/dev/null; true')
    assert list(map(tuple, reached.sockets)) == [("", "unknown")]


@pytest.mark.needs("curl")
async def test_programs_that_fail_quietly_are_seen(zone: Path) -> None:
    lines = ("curl -s --unix-socket ./app.sock http://x/", "curl -s --unix-socket /run/c x & wait")
    _, reached = await watched(zone, " || ".join(lines))
    assert dict(reached.sockets) == {str(zone / "app.sock"): "there", "/run/c": "absent"}


@pytest.mark.long
@pytest.mark.needs("go")
async def test_program_of_its_own_system_calls_is_seen(zone: Path) -> None:
    source = 'package main\nimport "net"\nfunc main() { net.Dial("unix", "/run/docker.sock") }\n'
    (zone / "main.go").write_text(source)
    env = {
        "CGO_ENABLED": "0",
        "GOCACHE": str(zone.parent / "cache"),
        "GOFLAGS": "",
        "GO111MODULE": "off",
    }
    build(zone, "go", "build", "-o", "main", "main.go", **env)
    _, reached = await watched(zone, "./main")
    assert [name for name, _ in reached.sockets] == ["/run/docker.sock"]


HARMLESS = """
import asyncio, getpass, multiprocessing, os, pwd, socket, subprocess, syslog, tempfile
def nscd(path):
    with socket.socket(socket.AF_UNIX) as found:
        print(found.connect_ex(path))
for path in ("/var/run/nscd/socket", "/run/nscd/socket", "/run/systemd/userdb/io.systemd.Multiplexer", "/dev/log"):
    nscd(path)
pwd.getpwall(), getpass.getuser(), socket.getaddrinfo("localhost", 80), syslog.syslog("x")
asyncio.run(asyncio.create_subprocess_exec("true"))
socket.socketpair(), socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).bind((0, 0))
with socket.create_server(("127.0.0.1", 0)) as server:
    socket.create_connection(server.getsockname())
print(multiprocessing.get_context("fork").Pool(2).map(abs, [-1]))
"""


async def test_sockets_of_the_c_library_are_not_reported(zone: Path) -> None:
    (zone / "harmless.py").write_text(HARMLESS)
    done, reached = await watched(
        zone, "python3 harmless.py; ls -l; id; git init -q; git status; whoami"
    )
    assert done.stdout.startswith("2\n2\n2\n2\n[1]\n"), done
    assert reached == Reached([], [], [], [], [])


RACE = r"""
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
static union { struct sockaddr_un local; struct sockaddr_in far; unsigned short family; } address;
static volatile int at_work = 1;
static void *swap(void *given) {
    while (at_work) { address.family = AF_INET; address.family = AF_UNIX; }
    return given;
}
int main(void) {
    pthread_t other;
    int reached = 0, listened = 0;
    address.local.sun_family = AF_UNIX;
    strcpy(address.local.sun_path, "app.sock");
    pthread_create(&other, 0, swap, 0);
    for (int turn = 0; turn < 3000; turn++) {
        int made = socket(AF_UNIX, turn % 2 ? SOCK_STREAM : SOCK_DGRAM, 0);
        reached += connect(made, (struct sockaddr *)&address, sizeof address.local) == 0;
        reached += sendto(made, "x", 1, MSG_NOSIGNAL, (struct sockaddr *)&address, sizeof address.local) >= 0;
        listened += listen(made, 1) == 0;
        close(made);
    }
    at_work = 0;
    printf("%d %d\n", reached, listened);
    return 0;
}
"""


@pytest.mark.needs("gcc")
async def test_address_that_changes_while_it_is_read_leads_nowhere(zone: Path) -> None:
    """What is handed out for a unix socket cannot be connected, whatever the kernel reads after us."""
    (zone / "race.c").write_text(RACE)
    build(zone, "gcc", "-O1", "-o", "race", "race.c", "-lpthread")
    done, reached = await watched(zone, "./race")
    assert done.stdout == "0 0\n", done
    assert dict(reached.sockets) == {str(zone / "app.sock"): "there"}


OTHER_CALLS = r"""
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
    long found;
    __asm__ volatile("int $0x80" : "=a"(found) : "a"(359L), "b"(1L), "c"(1L), "d"(0L));
    printf("%ld %ld\n", found, syscall(SYS_socket | 0x40000000, 1, 1, 0));
    return 0;
}
"""


@pytest.mark.needs("gcc")
@pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="other processors have one way to call the kernel"
)
async def test_calls_of_other_kinds_of_programs_make_no_socket(zone: Path) -> None:
    (zone / "calls.c").write_text(OTHER_CALLS)
    build(zone, "gcc", "-o", "calls", "calls.c")
    done, _ = await watched(zone, "./calls")
    assert done.stdout == "-38 -1\n", done


WRITES = {
    "echo x > new": ["new"],
    "echo x >> file": ["file"],
    "rm -f file; rm -f missing; rmdir missing": ["file"],
    "mv file other": ["file"],
    "mkdir -p . made/deep": ["made"],
    "ln -s file link; ln file hard": ["link", "hard"],
    "touch file; chmod 600 file; chown 0:0 file": ["file"],
    "truncate -s 0 file": ["file"],
    "test -w file": ["file"],
    "mkfifo pipe": ["pipe"],
    "cd /; echo x > $OLDPWD/deep": ["deep"],
    """python3 -c 'import os; os.open("new", os.O_RDONLY | os.O_CREAT)'""": ["new"],
    """python3 -c 'import os; os.chmod(os.open("file", 0), 0o600)'""": ["file"],
    """python3 -c 'import os; os.setxattr("file", "user.x", b"x")'""": ["file"],
    """python3 -c 'import os; os.utime("file", (1, 1))'""": ["file"],
    """python3 -c 'import os; os.open("file", os.O_RDWR, dir_fd=os.open(".", 0))'""": ["file"],
    "cat file; ls -la; grep -r x . >/dev/null; find . -newer file; sort file | head -1; test -r file; echo x >&2": [],
    "echo x > /tmp/made; rm /tmp/made; echo x > /dev/null; : > /dev/stdout; mkdir -p /tmp": [],
    """python3 -c 'import os; os.mkdir("__pycache__")'""": [],
    """python3 -c 'import os; os.open("file", os.O_RDONLY | os.O_CREAT)'""": [],
}


async def test_refused_writes_are_seen_and_nothing_else(zone: Path) -> None:
    found = {}
    for line in WRITES:
        _, reached = await watched(zone, f"({line}) 2>/dev/null", mode=ZoneMode.RO, writes=True)
        found[line] = [path.removeprefix(f"{zone}/") for path in reached.writes]
    assert found == WRITES


def test_writes_to_hidden_places_make_no_difference() -> None:
    zones = (Zone("zone", Path("/home/me/zone")),)
    confinement = Confinement(
        zones=zones, workspace=zones[0].path, homes=(Path("/home/me"),), hidden=(Path("/srv"),)
    )
    told = ["/home/me/zone/new", "/usr/new", "/home/mean/new"]
    reached = Reached([], [], ["/home/me/.npm/_logs/1", "/srv/x", *told], [])
    assert reached.refused_writes(confinement) == told


async def test_long_lists_of_writes_say_that_there_were_more(zone: Path) -> None:
    line = "for number in {1..300}; do : > /usr/$number; done 2>/dev/null; : > new"
    _, reached = await watched(zone, line, mode=ZoneMode.RO, writes=True)
    assert (
        reached.refused_writes(Confinement(zones=(), workspace=zone))[-1] == "more than 200 files"
    )


async def test_programs_that_were_started_are_listed(zone: Path) -> None:
    (zone / "run.sh").write_text("#!/bin/sh\n/bin/true\nnothing-of-that-name\nsleep 0 & wait\n")
    (zone / "run.sh").chmod(0o755)
    _, reached = await watched(zone, "./run.sh 2>/dev/null", programs=True)
    names = [os.path.basename(path) for path in reached.programs]
    assert names == ["bash", "run.sh", "true", "sleep"]
    assert str(zone / "run.sh") in reached.programs


async def test_sockets_are_refused_if_they_cannot_be_watched(
    zone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container with its own listener: the kernel allows one."""
    monkeypatch.setattr("forge_cli.sandbox.trial.copies.watch_filter", lambda **_: None)
    cage = next(found for found in available_mechanisms() if found.name == "bwrap")
    confinement = Confinement(
        zones=(Zone("zone", zone, ZoneMode.RW),), workspace=zone, network=True
    )
    copies = Copies(zone.parent / "trial", Confined(cage, confinement), network=False)
    line = "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"app.sock\")'"
    async with ChildProcesses() as processes:
        done = await processes.run(
            bash_argv(line), cwd=zone, wrap=copies, env=clean_environment(), timeout=60
        )
    assert "Operation not permitted" in done.stderr
    assert copies.reached() is None
    assert copies.report() is not None


ALLOWED, SHOWN = 0x7FFF0000, 0x7FC00000


def answer(program: bytes, number: int, *arguments: int, audit: int) -> int:
    """The decision of the kernel on a system call, computed from the program."""
    given = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=IIQ6Q", number, audit, 0, *given)
    steps = list(struct.iter_unpack("=HBBI", program))
    at = loaded = 0
    while True:
        code, then, otherwise, value = steps[at]
        at += 1
        match code:
            case 0x20:
                (loaded,) = struct.unpack_from("=I", data, value)
            case 0x15:
                at += then if loaded == value else otherwise
            case 0x35:
                at += then if loaded >= value else otherwise
            case 0x45:
                at += then if loaded & value else otherwise
            case 0x06:
                return int(value)


X86, ARM = 0xC000003E, 0xC00000B7
CALLS = [
    ("x86_64", X86, (41, 1), SHOWN, SHOWN),  # socket
    ("x86_64", X86, (41, 2), ALLOWED, ALLOWED),
    ("x86_64", X86, (53, 1, 1), ALLOWED, ALLOWED),  # socketpair
    ("x86_64", X86, (53, 1, 0o2000002), SHOWN, SHOWN),
    ("x86_64", X86, (42, 3), SHOWN, SHOWN),  # connect
    ("x86_64", X86, (44, 3, 0, 0, 0, 0), ALLOWED, ALLOWED),  # sendto
    ("x86_64", X86, (44, 3, 0, 0, 0, 1 << 40), SHOWN, SHOWN),
    ("x86_64", X86, (44, 3, 0, 0, 0, 1), SHOWN, SHOWN),
    ("x86_64", X86, (257, 0, 0, 0), ALLOWED, ALLOWED),  # openat
    ("x86_64", X86, (257, 0, 0, 0o100), ALLOWED, SHOWN),
    ("x86_64", X86, (2, 0, 2), ALLOWED, SHOWN),  # open
    ("x86_64", X86, (59,), ALLOWED, SHOWN),  # execve
    ("x86_64", X86, (21, 0, 4), ALLOWED, ALLOWED),  # access
    ("x86_64", X86, (21, 0, 2), ALLOWED, SHOWN),
    ("x86_64", X86, (0,), ALLOWED, ALLOWED),  # read
    (
        "x86_64",
        ARM,
        (41, 1),
        ALLOWED,
        ALLOWED,
    ),  # another kind of program, which the other filter refuses
    ("x86_64", X86, (0x40000029, 1), ALLOWED, ALLOWED),
    ("aarch64", ARM, (198, 1), SHOWN, SHOWN),
    ("aarch64", ARM, (56, 0, 0, 1), ALLOWED, SHOWN),
    ("aarch64", ARM, (35, 0, 0, 0), ALLOWED, SHOWN),
    ("aarch64", ARM, (63,), ALLOWED, ALLOWED),
]


@pytest.mark.parametrize(("machine", "audit", "call", "sockets", "writes"), CALLS)
def test_filter_shows_the_watched_calls(
    machine: str, audit: int, call: tuple[int, ...], sockets: int, writes: int
) -> None:
    found, more = watch_filter(machine=machine), watch_filter(writes=True, machine=machine)
    assert found
    assert more
    number, *arguments = call
    assert answer(found.program, number, *arguments, audit=audit) == sockets
    assert answer(more.program, number, *arguments, audit=audit) == writes


def test_machine_whose_numbers_are_not_known_shows_nothing() -> None:
    assert watch_filter(machine="pdp11") is None
