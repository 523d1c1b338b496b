"""Seccomp: a filter of system calls for ways out that no namespace closes, as the bytes that the kernel reads.

Sockets of daemons can be connected to wherever their file is seen, abstract ones and those of the hypervisor (vsock)
even without a file, and the kernel's keyring belongs to the session that forge was started from.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator
from functools import cache

from forge_cli.core.values import dataclass

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_X32 = 0x40000000


@dataclass(frozen=True)
class Architecture:
    """What the kernel calls a processor, and its numbers of the system calls that matter."""

    audit: int
    socket: int
    keyring: tuple[int, ...]
    io_uring: tuple[int, ...] = (425, 426, 427)
    """It makes sockets as well, and its calls are seen by no filter."""


_ARM = Architecture(0xC00000B7, 198, (217, 218, 219))
_ARCHITECTURES = {
    "x86_64": Architecture(0xC000003E, 41, (248, 249, 250)),
    "aarch64": _ARM,
    "riscv64": Architecture(0xC00000F3, _ARM.socket, _ARM.keyring),
}


@cache
def seccomp_filter(*, unix_sockets: bool = False, machine: str = "") -> bytes | None:
    """The program for this machine, or None where its numbers are not known.

    Only the network's own sockets can be made, those of ``socketpair`` always; other calls are as ever.
    """
    found = _ARCHITECTURES.get(machine or os.uname().machine)
    return b"".join(_program(found, unix_sockets=unix_sockets)) if found else None


def _program(found: Architecture, *, unix_sockets: bool) -> Iterator[bytes]:
    yield _step(_LOAD, _ARCHITECTURE)
    yield _step(_EQUAL, found.audit, then=1)
    yield _refuse(errno.ENOSYS)
    yield _step(_LOAD, _NUMBER)
    yield _step(_AT_LEAST, _X32, otherwise=1)
    yield _refuse(errno.ENOSYS)
    for number in found.io_uring:
        yield from _unless(number, _refuse(errno.ENOSYS))
    for number in found.keyring:
        yield from _unless(number, _refuse(errno.EPERM))
    yield _step(_EQUAL, found.socket, then=1)
    yield _step(_RETURN, _ALLOW)
    yield _step(_LOAD, _FIRST_ARGUMENT)
    for family in (_AF_INET, _AF_INET6, _AF_NETLINK, *([_AF_UNIX] if unix_sockets else [])):
        yield from _unless(family, _step(_RETURN, _ALLOW))
    yield from _unless(_AF_UNIX, _refuse(errno.EPERM))
    yield _refuse(errno.EAFNOSUPPORT)


def _unless(value: int, last: bytes) -> Iterator[bytes]:
    """Go on unless what was loaded is the value."""
    yield _step(_EQUAL, value, otherwise=1)
    yield last


def _refuse(number: int) -> bytes:
    return _step(_RETURN, _ERRNO | number)


def _step(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)
