"""A seccomp filter against system calls that escape from namespaces, as bytes for the kernel.

A process can connect to a daemon's socket wherever it sees the file, to abstract and hypervisor
sockets (vsock) even without a file, and the kernel's keyring belongs to forge's session.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator, Sequence
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

LOAD = 0x20
EQUAL = 0x15
AT_LEAST = 0x35
HAS_ANY = 0x45
RETURN = 0x06
NUMBER = 0
ARCHITECTURE = 4
FIRST_ARGUMENT = 16
ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
AF_UNIX = 1
AF_INET = 2
AF_INET6 = 10
_AF_NETLINK = 16
X32 = 0x40000000
_CLONE3 = 435
DATAGRAM = 0b10
"""A bit in the types of sockets that can send to any address, even if made as a pair."""
# The CLONE_NEW* flags except CLONE_NEWTIME: in ``clone``, its bit belongs to the signal.
_NEW_NAMESPACES = 0x7E020000
EVERY_BIT = 0xFFFFFFFF


class Architecture(Struct, frozen=True):
    """A processor as the kernel names it, with its numbers of the relevant system calls."""

    audit: int
    socket: int
    socketpair: int
    keyring: tuple[int, ...]
    namespaces: tuple[int, ...]
    """``clone`` and ``unshare``, whose first argument names the new namespaces."""
    setns: int
    ipc: tuple[int, ...]
    """``mq_open``, ``msgget``, ``semget``, ``shmget`` and ``shmat``."""
    truncate: int
    prlimit: int
    owners: tuple[int, ...]
    """``chown``, ``fchown``, ``lchown`` and ``fchownat``, as far as they exist."""
    attributes: tuple[int, ...]
    """``setxattr``, ``removexattr`` and their variants for links, descriptors and relative
    paths."""
    io_uring: tuple[int, ...] = (425, 426, 427)
    """io_uring can make sockets, and no filter sees its operations."""


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
    """Return the filter for this machine, or None if its system call numbers are unknown.

    Only network sockets can be made, and stream pairs with ``socketpair``. Without own
    ``namespaces``, the host's cannot be changed. Shared memory and queues are refused, and so are
    the limits of other processes, owners, and extended attributes: without mounts, nothing else
    protects those of read-only files. ``truncate`` works by path, and is refused if Landlock does
    not check it.
    """
    found = find_architecture(machine)
    if found is None:
        return None
    # The C library lists network interfaces by netlink, also without a network.
    families = [_AF_NETLINK]
    if internet:
        families += [AF_INET, AF_INET6]
    if unix_sockets:
        families.append(AF_UNIX)
    refused = list(found.keyring)
    if not namespaces:
        refused += [found.setns, *found.ipc, *found.owners]
    if not truncate:
        refused.append(found.truncate)
    return b"".join(_program(found, families, refused, namespaces=namespaces))


def find_architecture(machine: str = "") -> Architecture | None:
    """Return the numbers of a machine, by default of this one; None if they are unknown."""
    return _ARCHITECTURES.get(machine or os.uname().machine)


def _program(
    found: Architecture, families: Sequence[int], refused: Sequence[int], *, namespaces: bool
) -> Iterator[bytes]:
    yield bpf_instruction(LOAD, ARCHITECTURE)
    yield bpf_instruction(EQUAL, found.audit, then=1)
    yield _refuse(errno.ENOSYS)
    yield bpf_instruction(LOAD, NUMBER)
    # Calls of the x32 interface have other numbers, which no check below would match.
    yield bpf_instruction(AT_LEAST, X32, otherwise=1)
    yield _refuse(errno.ENOSYS)
    missing = list(found.io_uring)
    if not namespaces:
        # clone3 has its flags in memory, which no filter can read; without it, programs use clone.
        missing.append(_CLONE3)
    for number in missing:
        yield from continue_unless(number, _refuse(errno.ENOSYS))
    for number in refused:
        yield from continue_unless(number, _refuse(errno.EPERM))
    if not namespaces:
        # Programs that copy attributes continue after this error, as on file systems without any.
        for number in found.attributes:
            yield from continue_unless(number, _refuse(errno.EOPNOTSUPP))
        # A new user namespace would give the process capabilities again.
        for number in found.namespaces:
            yield from _unless_any(number, FIRST_ARGUMENT, _NEW_NAMESPACES)
        # A process may change its own limits, by the process ID 0.
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
    """Return the offset of the lower half of an argument."""
    return FIRST_ARGUMENT + 8 * number


def continue_unless(value: int, last: bytes) -> Iterator[bytes]:
    """Yield instructions that run ``last`` if the loaded value is equal, and continue otherwise."""
    yield bpf_instruction(EQUAL, value, otherwise=1)
    yield last


def _unless_any(number: int, argument: int, bits: int) -> Iterator[bytes]:
    """Yield instructions that allow a call unless its argument has one of the bits."""
    yield bpf_instruction(EQUAL, number, otherwise=4)
    yield bpf_instruction(LOAD, argument)
    yield bpf_instruction(HAS_ANY, bits, otherwise=1)
    yield _refuse(errno.EPERM)
    yield bpf_instruction(RETURN, ALLOW)


def _refuse(number: int) -> bytes:
    return bpf_instruction(RETURN, _ERRNO | number)


def bpf_instruction(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    """Return an instruction, with the numbers to skip if a comparison is true or false."""
    return struct.pack("=HBBI", code, then, otherwise, value)
