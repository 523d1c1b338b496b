"""A seccomp filter that shows calls for sockets, and optionally others, to the first program.

The kernel holds such a call until it was seen (``SECCOMP_RET_USER_NOTIF``). Other means refuse it:
mounts, an empty network, and for unix sockets the replacements of ``trial.watch``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Literal

from msgspec import Struct

from forge_cli.sandbox.isolation.seccomp import (
    AF_INET,
    AF_INET6,
    AF_UNIX,
    ALLOW,
    ARCHITECTURE,
    AT_LEAST,
    DATAGRAM,
    EQUAL,
    EVERY_BIT,
    HAS_ANY,
    LOAD,
    NUMBER,
    RETURN,
    X32,
    argument_at,
    bpf_instruction,
    continue_unless,
    find_architecture,
)

_NOTIFY = 0x7FC00000
_PR_SET_SECCOMP = 22
# Flags of open: O_WRONLY with O_RDWR, O_CREAT and O_TRUNC; then W_OK of access.
_WRITES = 0o3
_CREATES = 0o100
_TRUNCATES = 0o1000
_MAY_WRITE = 0o2


class SocketCalls(Struct, frozen=True):
    """System call numbers for sockets and programs on one kind of processor."""

    connect: int
    bind: int
    sendto: int
    execve: int
    execveat: int
    seccomp: int
    prctl: int


class PathCall(Struct, frozen=True):
    """A system call that may change a path, with the positions of its arguments."""

    meets: Literal["open", "open2", "existing", "missing"]
    """The entry that must exist for a read-only place to refuse the call; opening depends on
    flags."""
    folder: int | None = None
    """The folder descriptor that the path is relative to; without ``path``, the file's own."""
    path: int | None = None
    flags: int | None = None
    bits: int = EVERY_BIT
    """The bits of ``flags``, one of which is needed to change anything."""
    follows: bool = True


_OPENS = _WRITES | _CREATES | _TRUNCATES
_OF_X86 = {
    2: PathCall("open", path=0, flags=1, bits=_OPENS),
    85: PathCall("open", path=0),  # creat
    257: PathCall("open", 0, 1, 2, _OPENS),
    437: PathCall("open2", 0, 1),
    76: PathCall("existing", path=0),  # truncate
    83: PathCall("missing", path=0, follows=False),  # mkdir
    258: PathCall("missing", 0, 1, follows=False),
    133: PathCall("missing", path=0, follows=False),  # mknod
    259: PathCall("missing", 0, 1, follows=False),
    86: PathCall("missing", path=1, follows=False),  # link
    265: PathCall("missing", 2, 3, follows=False),
    88: PathCall("missing", path=1, follows=False),  # symlink
    266: PathCall("missing", 1, 2, follows=False),
    84: PathCall("existing", path=0, follows=False),  # rmdir
    87: PathCall("existing", path=0, follows=False),  # unlink
    263: PathCall("existing", 0, 1, follows=False),
    82: PathCall("existing", path=0, follows=False),  # rename
    264: PathCall("existing", 0, 1, follows=False),
    316: PathCall("existing", 0, 1, follows=False),
    90: PathCall("existing", path=0),  # chmod
    91: PathCall("existing", 0),
    268: PathCall("existing", 0, 1),
    452: PathCall("existing", 0, 1),
    92: PathCall("existing", path=0),  # chown
    93: PathCall("existing", 0),
    94: PathCall("existing", path=0, follows=False),
    260: PathCall("existing", 0, 1, follows=False),
    132: PathCall("existing", path=0),  # utime
    235: PathCall("existing", path=0),
    261: PathCall("existing", 0, 1),
    280: PathCall("existing", 0, 1, follows=False),
    188: PathCall("existing", path=0),  # setxattr
    189: PathCall("existing", path=0, follows=False),
    190: PathCall("existing", 0),
    197: PathCall("existing", path=0),
    198: PathCall("existing", path=0, follows=False),
    199: PathCall("existing", 0),
    463: PathCall("existing", 0, 1),
    466: PathCall("existing", 0, 1),
    # The answer of access says whether the path is writable.
    21: PathCall("existing", path=0, flags=1, bits=_MAY_WRITE),
    269: PathCall("existing", 0, 1, 2, _MAY_WRITE),
    439: PathCall("existing", 0, 1, 2, _MAY_WRITE),
}
_GENERIC = {
    5: 188,
    6: 189,
    7: 190,
    14: 197,
    15: 198,
    16: 199,
    33: 259,
    34: 258,
    35: 263,
    36: 266,
    37: 265,
    38: 264,
    45: 76,
    48: 269,
    52: 91,
    53: 268,
    54: 260,
    55: 93,
    56: 257,
    88: 280,
    276: 316,
    437: 437,
    439: 439,
    452: 452,
    463: 463,
    466: 466,
}
"""The same calls on newer processors, with their numbers on x86_64."""
_SOCKETS = {
    "x86_64": SocketCalls(42, 49, 44, 59, 322, 317, 157),
    "aarch64": SocketCalls(203, 200, 206, 221, 281, 277, 167),
    "riscv64": SocketCalls(203, 200, 206, 221, 281, 277, 167),
}


class WatchFilter(Struct, frozen=True):
    """The filter for one kind of processor, with what is needed to read the calls it holds."""

    program: bytes
    seccomp: int
    calls: Mapping[int, str]
    """The names of the calls for sockets and programs, by number."""
    paths: Mapping[int, tuple[str, int | None, int | None, int | None, bool]]


@cache
def watch_filter(
    *, writes: bool = False, programs: bool = False, begins: bool = False, machine: str = ""
) -> WatchFilter | None:
    """Return the filter that shows sockets; None if the system call numbers are unknown.

    ``writes`` also shows changes of files, and programs: changes before the command starts are not
    the command's. ``begins`` also shows network sockets and, instead of programs, the moment when
    the mechanism installs its own filter, which is the last step before the command.
    """
    name = machine or os.uname().machine
    found = find_architecture(name)
    numbers = _SOCKETS.get(name)
    if found is None or numbers is None:
        return None
    rows = _paths(name) if writes else {}
    started: tuple[int, ...] = ()
    if (writes or programs) and not begins:
        started = (numbers.execve, numbers.execveat)
    calls = {
        found.socket: "socket",
        found.socketpair: "pair",
        numbers.connect: "connect",
        numbers.bind: "bind",
        numbers.sendto: "send",
    }
    if started:
        calls |= {numbers.execve: "program", numbers.execveat: "program_at"}
    if begins:
        calls |= {numbers.seccomp: "begin", numbers.prctl: "begin"}
    always = [numbers.connect, numbers.bind, *started]
    if begins:
        always.append(numbers.seccomp)
    for number, row in rows.items():
        if row.flags is None:
            always.append(number)
    # Calls of other interfaces continue, because the filter of the mechanism refuses them.
    steps = [
        bpf_instruction(LOAD, ARCHITECTURE),
        bpf_instruction(EQUAL, found.audit, then=1),
        bpf_instruction(RETURN, ALLOW),
        bpf_instruction(LOAD, NUMBER),
    ]
    steps += [bpf_instruction(AT_LEAST, X32, otherwise=1), bpf_instruction(RETURN, ALLOW)]
    for number in always:
        steps += continue_unless(number, bpf_instruction(RETURN, _NOTIFY))
    for number, row in rows.items():
        if row.flags is not None:
            steps += _if_any(number, argument_at(row.flags), row.bits)
    if begins:
        steps += _if_equal(numbers.prctl, argument_at(0), _PR_SET_SECCOMP)
    steps += _if_any(found.socketpair, argument_at(1), DATAGRAM)
    # sendto has an address only if its fifth argument, a 64-bit pointer, is not null.
    steps += [
        bpf_instruction(EQUAL, numbers.sendto, otherwise=6),
        bpf_instruction(LOAD, argument_at(4)),
        bpf_instruction(HAS_ANY, EVERY_BIT, then=2),
    ]
    steps += [
        bpf_instruction(LOAD, argument_at(4) + 4),
        bpf_instruction(HAS_ANY, EVERY_BIT, otherwise=1),
    ]
    steps += [bpf_instruction(RETURN, _NOTIFY), bpf_instruction(RETURN, ALLOW)]
    steps += [
        bpf_instruction(EQUAL, found.socket, then=1),
        bpf_instruction(RETURN, ALLOW),
        bpf_instruction(LOAD, argument_at(0)),
    ]
    families = [AF_UNIX]
    if begins:
        families += [AF_INET, AF_INET6]
    for family in families:
        steps += continue_unless(family, bpf_instruction(RETURN, _NOTIFY))
    steps += [bpf_instruction(RETURN, ALLOW)]
    paths = {
        number: (row.meets, row.folder, row.path, row.flags, row.follows)
        for number, row in rows.items()
    }
    return WatchFilter(b"".join(steps), numbers.seccomp, calls, paths)


def _paths(machine: str) -> dict[int, PathCall]:
    if machine == "x86_64":
        return _OF_X86
    return {number: _OF_X86[same] for number, same in _GENERIC.items()}


def _if_equal(number: int, argument: int, value: int) -> Iterator[bytes]:
    """Yield instructions that show a call if its argument is the value, else allow it."""
    yield bpf_instruction(EQUAL, number, otherwise=4)
    yield bpf_instruction(LOAD, argument)
    yield bpf_instruction(EQUAL, value, otherwise=1)
    yield bpf_instruction(RETURN, _NOTIFY)
    yield bpf_instruction(RETURN, ALLOW)


def _if_any(number: int, argument: int, bits: int) -> Iterator[bytes]:
    """Yield instructions that show a call if its argument has one of the bits, else allow it."""
    yield bpf_instruction(EQUAL, number, otherwise=4)
    yield bpf_instruction(LOAD, argument)
    yield bpf_instruction(HAS_ANY, bits, otherwise=1)
    yield bpf_instruction(RETURN, _NOTIFY)
    yield bpf_instruction(RETURN, ALLOW)
