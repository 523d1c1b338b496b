"""Seccomp: sockets of daemons, vsock and the keyring are out of reach of a confined process, all else works."""

import os
import socket
import struct
import sys
from pathlib import Path

import pytest

from forge_cli.core.processes import Finished
from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.sandbox.isolation.confinement import Confinement
from forge_cli.sandbox.isolation.isolation import Confined, Mechanism
from forge_cli.sandbox.isolation.seccomp import seccomp_filter
from forge_cli.sandbox.processes.command import clean_environment
from forge_cli.sandbox.processes.process import ChildProcesses

pytestmark = [pytest.mark.anyio, pytest.mark.needs("linux")]

NUMBERS = {
    "x86_64": {
        "audit": 0xC000003E,
        "socket": 41,
        "socketpair": 53,
        "keyctl": 250,
        "add_key": 248,
        "read": 0,
    },
    "aarch64": {
        "audit": 0xC00000B7,
        "socket": 198,
        "socketpair": 199,
        "keyctl": 219,
        "add_key": 217,
        "read": 63,
    },
}
WITHOUT_NAMESPACES = {
    "x86_64": {
        "clone": 56,
        "unshare": 272,
        "setns": 308,
        "shmget": 29,
        "truncate": 76,
        "prlimit": 302,
        "audit": 0xC000003E,
    },
    "aarch64": {
        "clone": 220,
        "unshare": 97,
        "setns": 268,
        "shmget": 194,
        "truncate": 45,
        "prlimit": 261,
        "audit": 0xC00000B7,
    },
}
ALLOWED, REFUSED, NO_SUCH_CALL, NO_SUCH_FAMILY = 0x7FFF0000, 0x00050001, 0x00050026, 0x00050061
NO_NETWORK = 0x00050065
FLAGS = (0x01200011, 0x10000000, 0x40000000)
"""Of a plain fork, of a new user namespace, and of a new network."""


def answer(program: bytes, number: int, argument: int = 0, *, audit: int) -> int:
    """The decision of the kernel on a system call, computed from the program."""
    data = struct.pack("=IIQ6Q", number, audit, 0, argument, *[0] * 5)
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


@pytest.mark.parametrize("machine", NUMBERS)
def test_filter_answers_each_call(machine: str) -> None:
    numbers = dict(NUMBERS[machine])
    audit = numbers.pop("audit")
    program = seccomp_filter(machine=machine)
    assert program
    families = {
        1: REFUSED,
        2: ALLOWED,
        10: ALLOWED,
        16: ALLOWED,
        17: NO_SUCH_FAMILY,
        40: NO_SUCH_FAMILY,
    }
    found = {family: answer(program, numbers["socket"], family, audit=audit) for family in families}
    assert found == families
    assert answer(program, numbers["socket"], 0xFFFFFFFF00000001, audit=audit) == REFUSED
    calls = {
        name: answer(program, numbers[name], 1, audit=audit)
        for name in ("socketpair", "keyctl", "add_key", "read")
    }
    assert calls == {"socketpair": ALLOWED, "keyctl": REFUSED, "add_key": REFUSED, "read": ALLOWED}
    assert [answer(program, number, audit=audit) for number in (425, 426, 427)] == [
        NO_SUCH_CALL
    ] * 3
    assert answer(program, numbers["read"], audit=0x40000003) == NO_SUCH_CALL
    assert answer(program, numbers["read"] | 0x40000000, audit=audit) == NO_SUCH_CALL
    open_filter = seccomp_filter(unix_sockets=True, machine=machine)
    assert open_filter
    assert [answer(open_filter, numbers["socket"], family, audit=audit) for family in (1, 40)] == [
        ALLOWED,
        NO_SUCH_FAMILY,
    ]


@pytest.mark.parametrize("machine", WITHOUT_NAMESPACES)
def test_filter_answers_each_call_without_namespaces(machine: str) -> None:
    numbers = dict(WITHOUT_NAMESPACES[machine])
    audit, clone3, socket_call = numbers.pop("audit"), 435, NUMBERS[machine]["socket"]
    usual = seccomp_filter(machine=machine)
    strict = seccomp_filter(internet=False, namespaces=False, truncate=False, machine=machine)
    assert usual
    assert strict

    def answers(program: bytes) -> list[int]:
        makes = [
            answer(program, numbers[name], flag, audit=audit)
            for name in ("clone", "unshare")
            for flag in FLAGS
        ]
        makes += [answer(program, numbers["prlimit"], pid, audit=audit) for pid in (0, 4711)]
        others = [
            answer(program, numbers[name], audit=audit) for name in ("setns", "shmget", "truncate")
        ]
        return [
            *makes,
            *others,
            answer(program, clone3, audit=audit),
            answer(program, socket_call, 2, audit=audit),
        ]

    assert answers(usual) == [ALLOWED] * 13
    making = [ALLOWED, REFUSED, REFUSED]
    assert answers(strict) == [
        *making,
        *making,
        ALLOWED,
        REFUSED,
        REFUSED,
        REFUSED,
        REFUSED,
        NO_SUCH_CALL,
        NO_NETWORK,
    ]


OWNERS = {"x86_64": (92, 93, 94, 260), "aarch64": (55, 54)}
ATTRIBUTES = {
    "x86_64": (188, 189, 190, 197, 198, 199, 463, 466),
    "aarch64": (5, 6, 7, 14, 15, 16, 463, 466),
}
NOT_SUPPORTED = 0x00050000 | 95


@pytest.mark.parametrize("machine", OWNERS)
def test_owners_and_attributes_of_files_stay_where_no_mounts_hold(machine: str) -> None:
    audit = NUMBERS[machine]["audit"]
    usual = seccomp_filter(machine=machine)
    strict = seccomp_filter(namespaces=False, machine=machine)
    assert usual
    assert strict
    numbers = (*OWNERS[machine], *ATTRIBUTES[machine])
    assert {answer(usual, number, audit=audit) for number in numbers} == {ALLOWED}
    assert {answer(strict, number, audit=audit) for number in OWNERS[machine]} == {REFUSED}
    assert {answer(strict, number, audit=audit) for number in ATTRIBUTES[machine]} == {
        NOT_SUPPORTED
    }


def test_machine_whose_numbers_are_not_known_has_no_filter() -> None:
    assert seccomp_filter(machine="pdp11") is None


async def run(
    cage: Mechanism, place: Path, script: str, *arguments: str, readable: tuple[Path, ...] = ()
) -> Finished:
    confinement = Confinement(
        zones=(Zone("here", place, ZoneMode.RW),), workspace=place, network=True
    )
    python = (Path(sys.prefix), Path(sys.base_prefix))
    wrap = Confined(cage, confinement, readable=(*python, *readable))
    async with ChildProcesses() as processes:
        argv = [sys.executable, "-c", script, *arguments]
        return await processes.run(argv, cwd=place, env=clean_environment(), timeout=60, wrap=wrap)


CONNECT = """
import socket, sys
for address in sys.argv[1:]:
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(address.replace("@", "\\0"))
        print("connected")
    except OSError as error:
        print(error.strerror)
"""


async def test_sockets_of_others_are_out_of_reach_wherever_they_are(
    cage: Mechanism, place: Path
) -> None:
    """Also in a zone, where a daemon of the person may listen, and abstract ones, although the network is there."""
    addresses = [str(place / "socket"), f"@forge-test-{os.getpid()}"]
    servers = [socket.socket(socket.AF_UNIX) for _ in addresses]
    for server, address in zip(servers, addresses, strict=True):
        server.bind(address.replace("@", "\0"))
        server.listen()
    done = await run(cage, place, CONNECT, *addresses)
    for server in servers:
        server.close()
    assert done.stdout == "Operation not permitted\n" * 2


DATAGRAM = """
import socket, sys
for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
    try:
        left, right = socket.socketpair(socket.AF_UNIX, kind)
        left.sendto(b"x", sys.argv[1])
        print("sent")
    except OSError as error:
        print(error.strerror)
for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
    left, right = socket.socketpair(socket.AF_UNIX, kind)
    left.send(b"x")
    print(right.recv(1))
"""


async def test_pair_of_datagram_sockets_is_no_way_to_those_of_others(
    cage: Mechanism, place: Path
) -> None:
    """One end of it could write to any socket that is seen."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(place / "socket"))
        done = await run(cage, place, DATAGRAM, str(place / "socket"))
    assert done.stdout == "Operation not permitted\n" * 2 + "b'x'\n" * 2


async def test_socket_that_is_named_is_reached(
    cage: Mechanism, place: Path, tmp_path: Path
) -> None:
    address = tmp_path / "agent"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(address))
        server.listen()
        assert (await run(cage, place, CONNECT, str(address))).stdout == "Operation not permitted\n"
        named = await run(cage, place, CONNECT, str(address), readable=(address,))
        assert named.stdout == ("Operation not permitted\n" if cage.weakness else "connected\n")


KERNEL = """
import ctypes, os, socket, sys
for family in (socket.AF_VSOCK, socket.AF_PACKET, socket.AF_ALG):
    try:
        socket.socket(family, socket.SOCK_SEQPACKET)
        print("made")
    except OSError as error:
        print(error.strerror)
libc = ctypes.CDLL(None, use_errno=True)
calls = {"x86_64": (248, 249, 250, 425), "aarch64": (217, 218, 219, 425)}[os.uname().machine]
for number in calls:
    failed = libc.syscall(number, 0, -3, 0, 0, 0) == -1
    print(os.strerror(ctypes.get_errno()) if failed else "done")
left, right = socket.socketpair()
left.sendall(b"x")
print(right.recv(1), socket.socket().getsockname())
"""


async def test_vsock_and_the_keyring_are_out_of_reach_and_pairs_and_the_network_are_not(
    cage: Mechanism, place: Path
) -> None:
    done = await run(cage, place, KERNEL)
    refused = ["Address family not supported by protocol"] * 3 + ["Operation not permitted"] * 3
    assert done.stdout.splitlines() == [
        *refused,
        "Function not implemented",
        "b'x' ('0.0.0.0', 0)",
    ], done
