"""The filter that lets a command's first program see system calls: those for sockets, and, if wanted, others by path.

The kernel holds such a call until it was seen (``SECCOMP_RET_USER_NOTIF``). What is refused stays refused by others:
by mounts, by an empty network, and for unix sockets by what ``trial.watch`` hands out in their place.
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
_WRITES, _CREATES, _TRUNCATES, _MAY_WRITE = 0o3, 0o100, 0o1000, 0o2


class SocketCalls(Struct, frozen=True):
    """The numbers of the calls for sockets and programs on one kind of processor."""

    connect: int
    bind: int
    sendto: int
    execve: int
    execveat: int
    seccomp: int
    prctl: int


class PathCall(Struct, frozen=True):
    """A system call that may change what a path names, and the places of its arguments."""

    meets: Literal["open", "open2", "existing", "missing"]
    """The entry that has to be there for a read-only place to refuse the call; opening decides by its flags."""
    folder: int | None = None
    """The descriptor of the folder that the path begins in; without ``path`` that of the file itself."""
    path: int | None = None
    flags: int | None = None
    bits: int = EVERY_BIT
    """Those of ``flags`` of which it needs one to change anything."""
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
    21: PathCall(
        "existing", path=0, flags=1, bits=_MAY_WRITE
    ),  # access: its answer says whether one can write
    269: PathCall("existing", 0, 1, 2, _MAY_WRITE),
    439: PathCall("existing", 0, 1, 2, _MAY_WRITE),
}
_GENERIC = {
    56: 257,
    45: 76,
    34: 258,
    33: 259,
    37: 265,
    36: 266,
    35: 263,
    38: 264,
    276: 316,
    52: 91,
    53: 268,
    55: 93,
}
_GENERIC |= {
    54: 260,
    88: 280,
    5: 188,
    6: 189,
    7: 190,
    14: 197,
    15: 198,
    16: 199,
    48: 269,
    437: 437,
    439: 439,
}
_GENERIC |= {452: 452, 463: 463, 466: 466}
"""The same calls on newer processors, by their number on x86_64."""
_SOCKETS = {
    "x86_64": SocketCalls(42, 49, 44, 59, 322, 317, 157),
    "aarch64": SocketCalls(203, 200, 206, 221, 281, 277, 167),
    "riscv64": SocketCalls(203, 200, 206, 221, 281, 277, 167),
}


class WatchFilter(Struct, frozen=True):
    """The filter for one kind of processor, with what is needed to read the calls that it holds."""

    program: bytes
    seccomp: int
    calls: Mapping[int, str]
    """The names of the calls for sockets and programs, by number."""
    paths: Mapping[int, tuple[str, int | None, int | None, int | None, bool]]


@cache
def watch_filter(
    *, writes: bool = False, programs: bool = False, begins: bool = False, machine: str = ""
) -> WatchFilter | None:
    """The filter that shows sockets, with ``writes`` also what changes files; None where numbers are not known.

    ``writes`` shows programs as well: what is done before the command has started is not the command's. With ``begins``
    it shows sockets of the network, and, in place of programs, that the mechanism puts its own filter over itself: the
    last that it does before it starts the command.
    """
    name = machine or os.uname().machine
    found = find_architecture(name)
    numbers = _SOCKETS.get(name)
    if found is None or numbers is None:
        return None
    rows = _paths(name) if writes else {}
    started = (numbers.execve, numbers.execveat) if (writes or programs) and not begins else ()
    calls = {
        found.socket: "socket",
        found.socketpair: "pair",
        numbers.connect: "connect",
        numbers.bind: "bind",
    }
    calls |= {
        numbers.sendto: "send",
        **dict.fromkeys(started[:1], "program"),
        **dict.fromkeys(started[1:], "program_at"),
    }
    calls |= dict.fromkeys((numbers.seccomp, numbers.prctl) if begins else (), "begin")
    always = [
        *([numbers.seccomp] if begins else []),
        numbers.connect,
        numbers.bind,
        *started,
        *(number for number, row in rows.items() if row.flags is None),
    ]
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
    # sendto has a destination only if its fifth argument, a pointer, is not null: both halves count.
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
    for family in (AF_UNIX, *((AF_INET, AF_INET6) if begins else ())):
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
    """Show a call if its argument is the value, else allow it."""
    yield bpf_instruction(EQUAL, number, otherwise=4)
    yield bpf_instruction(LOAD, argument)
    yield bpf_instruction(EQUAL, value, otherwise=1)
    yield bpf_instruction(RETURN, _NOTIFY)
    yield bpf_instruction(RETURN, ALLOW)


def _if_any(number: int, argument: int, bits: int) -> Iterator[bytes]:
    """Show a call if its argument has one of the bits, else allow it."""
    yield bpf_instruction(EQUAL, number, otherwise=4)
    yield bpf_instruction(LOAD, argument)
    yield bpf_instruction(HAS_ANY, bits, otherwise=1)
    yield bpf_instruction(RETURN, _NOTIFY)
    yield bpf_instruction(RETURN, ALLOW)
