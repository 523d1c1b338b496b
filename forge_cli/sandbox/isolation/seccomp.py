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

_LOAD, _EQUAL, _AT_LEAST, _HAS_ANY, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_X32 = 0x40000000
_CLONE3 = 435
_DATAGRAM = 0b10
"""The bit that the kinds of sockets have which can write to any other, although they are one of a pair."""
_NEW_NAMESPACES, _EVERY_BIT = 0x7E020000, 0xFFFFFFFF


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
    io_uring: tuple[int, ...] = (425, 426, 427)
    """It makes sockets as well, and its calls are seen by no filter."""


_ARM = Architecture(0xC00000B7, 198, 199, (217, 218, 219), (220, 97), 268, (180, 186, 190, 194, 196), 45, 261)
_ARCHITECTURES = {
    "x86_64": Architecture(0xC000003E, 41, 53, (248, 249, 250), (56, 272), 308, (240, 68, 64, 29, 30), 76, 302),
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
    other programs are refused, as are the limits of other processes. ``truncate`` goes by a name: it is refused where
    nothing else looks at that.
    """
    found = _ARCHITECTURES.get(machine or os.uname().machine)
    if found is None:
        return None
    families = [_AF_NETLINK, *([_AF_INET, _AF_INET6] if internet else []), *([_AF_UNIX] if unix_sockets else [])]
    refused = [
        *found.keyring,
        *([] if namespaces else [found.setns, *found.ipc]),
        *([] if truncate else [found.truncate]),
    ]
    return b"".join(_program(found, families, refused, namespaces=namespaces))


def _program(
    found: Architecture, families: Sequence[int], refused: Sequence[int], *, namespaces: bool
) -> Iterator[bytes]:
    yield _step(_LOAD, _ARCHITECTURE)
    yield _step(_EQUAL, found.audit, then=1)
    yield _refuse(errno.ENOSYS)
    yield _step(_LOAD, _NUMBER)
    yield _step(_AT_LEAST, _X32, otherwise=1)
    yield _refuse(errno.ENOSYS)
    # clone3 has its flags in memory, where no filter can see them; programs that lack it use clone
    for number in (*found.io_uring, *(() if namespaces else (_CLONE3,))):
        yield from _unless(number, _refuse(errno.ENOSYS))
    for number in refused:
        yield from _unless(number, _refuse(errno.EPERM))
    if not namespaces:
        for number in found.namespaces:
            yield from _unless_any(number, _FIRST_ARGUMENT, _NEW_NAMESPACES)
        yield from _unless_any(found.prlimit, _FIRST_ARGUMENT, _EVERY_BIT)
    if _AF_UNIX not in families:
        yield from _unless_any(found.socketpair, _SECOND_ARGUMENT, _DATAGRAM)
    yield _step(_EQUAL, found.socket, then=1)
    yield _step(_RETURN, _ALLOW)
    yield _step(_LOAD, _FIRST_ARGUMENT)
    for family in families:
        yield from _unless(family, _step(_RETURN, _ALLOW))
    yield from _unless(_AF_UNIX, _refuse(errno.EPERM))
    for family in (_AF_INET, _AF_INET6):
        yield from _unless(family, _refuse(errno.ENETUNREACH))
    yield _refuse(errno.EAFNOSUPPORT)


def _unless(value: int, last: bytes) -> Iterator[bytes]:
    """Continue unless what was loaded is the value."""
    yield _step(_EQUAL, value, otherwise=1)
    yield last


def _unless_any(number: int, argument: int, bits: int) -> Iterator[bytes]:
    """Allow a call unless the argument has one of the bits."""
    yield _step(_EQUAL, number, otherwise=4)
    yield _step(_LOAD, argument)
    yield _step(_HAS_ANY, bits, otherwise=1)
    yield _refuse(errno.EPERM)
    yield _step(_RETURN, _ALLOW)


def _refuse(number: int) -> bytes:
    return _step(_RETURN, _ERRNO | number)


def _step(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)
