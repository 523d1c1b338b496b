"""Seccomp: a filter of system calls for ways out that no namespace closes, as the bytes that the kernel reads.

Sockets of daemons can be connected to wherever their file is seen, abstract ones and those of the hypervisor (vsock)
even without a file, and the kernel's keyring belongs to the session that forge was started from.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator, Sequence
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

LOAD, EQUAL, AT_LEAST, HAS_ANY, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16
ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
AF_UNIX, AF_INET, AF_INET6, _AF_NETLINK = 1, 2, 10, 16
X32 = 0x40000000
_CLONE3 = 435
DATAGRAM = 0b10
"""The bit that the kinds of sockets have which can write to any other, although they are one of a pair."""
_NEW_NAMESPACES, EVERY_BIT = 0x7E020000, 0xFFFFFFFF


class Architecture(Struct, frozen=True):
    """The kernel's name of a processor, and its numbers of the system calls that matter."""

    audit: int
    socket: int
    socketpair: int
    keyring: tuple[int, ...]
    namespaces: tuple[int, ...]
    """``clone`` and ``unshare``, whose first argument says which are made."""
    setns: int
    ipc: tuple[int, ...]
    """``mq_open``, ``msgget``, ``semget``, ``shmget`` and ``shmat``."""
    truncate: int
    prlimit: int
    owners: tuple[int, ...]
    """``chown``, ``fchown``, ``lchown`` and ``fchownat``, as far as they exist."""
    attributes: tuple[int, ...]
    """``setxattr``, ``removexattr``, and those for links, descriptors and paths below a folder."""
    io_uring: tuple[int, ...] = (425, 426, 427)
    """It makes sockets as well, and its calls are seen by no filter."""


_NEW_ATTRIBUTES = (463, 466)
_ARM = Architecture(
    0xC00000B7,
    *(198, 199, (217, 218, 219), (220, 97), 268, (180, 186, 190, 194, 196), 45, 261),
    owners=(55, 54),
    attributes=(5, 6, 7, 14, 15, 16, *_NEW_ATTRIBUTES),
)
_ARCHITECTURES = {
    "x86_64": Architecture(
        0xC000003E,
        *(41, 53, (248, 249, 250), (56, 272), 308, (240, 68, 64, 29, 30), 76, 302),
        owners=(92, 93, 94, 260),
        attributes=(188, 189, 190, 197, 198, 199, *_NEW_ATTRIBUTES),
    ),
    "aarch64": _ARM,
    "riscv64": replace(_ARM, audit=0xC00000F3),
}


@cache
def seccomp_filter(
    *,
    unix_sockets: bool = False,
    internet: bool = True,
    namespaces: bool = True,
    truncate: bool = True,
    machine: str = "",
) -> bytes | None:
    """The program for this machine, or None where its numbers are not known.

    Only the network's own sockets can be made, and streams by ``socketpair``; other calls are as ever. For a process
    without ``namespaces`` of its own those of the host stay as they are, and memory and queues that it could share with
    other programs are refused, as are the limits of other processes, owners and extended attributes of files: without
    mounts nothing looks at those of files that can only be read. ``truncate`` goes by a name: it is refused where
    nothing else looks at that.
    """
    found = find_architecture(machine)
    if found is None:
        return None
    families = [
        _AF_NETLINK,
        *([AF_INET, AF_INET6] if internet else []),
        *([AF_UNIX] if unix_sockets else []),
    ]
    refused = [
        *found.keyring,
        *([] if namespaces else [found.setns, *found.ipc, *found.owners]),
        *([] if truncate else [found.truncate]),
    ]
    return b"".join(_program(found, families, refused, namespaces=namespaces))


def find_architecture(machine: str = "") -> Architecture | None:
    """The numbers of this machine, or of another; None where they are not known."""
    return _ARCHITECTURES.get(machine or os.uname().machine)


def _program(
    found: Architecture, families: Sequence[int], refused: Sequence[int], *, namespaces: bool
) -> Iterator[bytes]:
    yield bpf_instruction(LOAD, ARCHITECTURE)
    yield bpf_instruction(EQUAL, found.audit, then=1)
    yield _refuse(errno.ENOSYS)
    yield bpf_instruction(LOAD, NUMBER)
    # Calls of the x32 interface have other numbers, which no line below would find.
    yield bpf_instruction(AT_LEAST, X32, otherwise=1)
    yield _refuse(errno.ENOSYS)
    # clone3 has its flags in memory, where no filter can see them; programs that lack it use clone
    for number in (*found.io_uring, *(() if namespaces else (_CLONE3,))):
        yield from continue_unless(number, _refuse(errno.ENOSYS))
    for number in refused:
        yield from continue_unless(number, _refuse(errno.EPERM))
    # as on a file system that has none, where programs that copy them do without
    for number in () if namespaces else found.attributes:
        yield from continue_unless(number, _refuse(errno.EOPNOTSUPP))
    if not namespaces:
        for number in found.namespaces:
            yield from _unless_any(number, FIRST_ARGUMENT, _NEW_NAMESPACES)
        yield from _unless_any(found.prlimit, FIRST_ARGUMENT, EVERY_BIT)
    if AF_UNIX not in families:
        yield from _unless_any(found.socketpair, argument_at(1), DATAGRAM)
    yield bpf_instruction(EQUAL, found.socket, then=1)
    yield bpf_instruction(RETURN, ALLOW)
    yield bpf_instruction(LOAD, FIRST_ARGUMENT)
    for family in families:
        yield from continue_unless(family, bpf_instruction(RETURN, ALLOW))
    yield from continue_unless(AF_UNIX, _refuse(errno.EPERM))
    for family in (AF_INET, AF_INET6):
        yield from continue_unless(family, _refuse(errno.ENETUNREACH))
    yield _refuse(errno.EAFNOSUPPORT)


def argument_at(number: int) -> int:
    """The place of the lower half of an argument."""
    return FIRST_ARGUMENT + 8 * number


def continue_unless(value: int, last: bytes) -> Iterator[bytes]:
    """Continue unless what was loaded is the value."""
    yield bpf_instruction(EQUAL, value, otherwise=1)
    yield last


def _unless_any(number: int, argument: int, bits: int) -> Iterator[bytes]:
    """Allow a call unless the argument has one of the bits."""
    yield bpf_instruction(EQUAL, number, otherwise=4)
    yield bpf_instruction(LOAD, argument)
    yield bpf_instruction(HAS_ANY, bits, otherwise=1)
    yield _refuse(errno.EPERM)
    yield bpf_instruction(RETURN, ALLOW)


def _refuse(number: int) -> bytes:
    return bpf_instruction(RETURN, _ERRNO | number)


def bpf_instruction(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    """One instruction, with how many to skip when a comparison holds, and when not."""
    return struct.pack("=HBBI", code, then, otherwise, value)
