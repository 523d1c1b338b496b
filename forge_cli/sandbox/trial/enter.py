"""The first program of a command on copies: it mounts overlays, starts the command, and waits until all of it is gone.

It has a mount namespace of its own, and for a trial a network with nothing in it. When everything has ended it writes
down whether the command wanted a network, and where to, what ``watch`` saw, or that it passed its room. A bare
interpreter imports it, for each command again: so it uses only what is built in, since ``ctypes`` and ``os`` alone
take longer than all the mounts.
"""

from __future__ import annotations

import _ctypes
import _signal as signal  # type: ignore[import-not-found]
import marshal
import posix as os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn

    from forge_cli.sandbox.trial.destinations import Destinations
    from forge_cli.sandbox.trial.watch import Watch

NOT_STARTED, NOT_MOUNTED = 127, 125
NOTHING = "nothing was started"
_NEWNS, _NEWUSER, _NEWNET = 0x00020000, 0x10000000, 0x40000000
_MS_REC, _MS_PRIVATE = 0x4000, 1 << 18
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_WANTED = (
    "Ip:OutNoRoutes",
    "Tcp:AttemptFails",
    "Udp:NoPorts",
    "Udp:RcvbufErrors",
    "Ip6OutNoRoutes",
    "Udp6NoPorts",
)
"""Counters of the kernel that move when somebody wants to reach what is not there, or what did not keep up."""
_LOOK = 0.25
_A_PATH = 4096
"""Bytes that each path counts besides its blocks, since an empty file takes room as well."""
_AFTER_NAME = 0.5
"""Seconds in which a command that asked for a name shows the port, and which others it wants."""
_NEWS = {signal.SIGCHLD, signal.SIGIO}
"""Something has ended, or somebody asks for a name."""


class _Int(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "i"


class _Long(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "L"


class _Function(_ctypes.CFuncPtr):
    """A function of the C library, as ``ctypes`` would make it."""

    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = _Int


_library = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]
_mount, _prctl, _unshare = (
    _Function(_ctypes.dlsym(_library, name)) for name in ("mount", "prctl", "unshare")
)


def _call(what: str, function: _Function, *arguments: object) -> None:
    if function(*arguments) < 0:
        number = _ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def enter_namespaces(*, network: bool) -> None:
    """Enter a mount namespace, as root where this is root, else by a user namespace; without ``network`` one, too."""
    wanted = _NEWNS | (0 if network else _NEWNET)
    user, group = os.geteuid(), os.getegid()
    if user != 0 or _unshare(wanted) < 0:
        _call("no namespaces", _unshare, wanted | _NEWUSER)
        # Without "deny" the kernel takes no gid_map from a user.
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    _call("mounts cannot be made private", _mount, b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)


def open_exactly(path: str) -> int:
    """A descriptor of the place itself; a link on the way, or in its place, is an error."""
    descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    if os.readlink(f"/proc/self/fd/{descriptor}") != path:
        raise OSError(0, f"{path} is a link, or behind one, since a moment ago")
    return descriptor


def mount_overlay(lower: str, upper: str, work: str, merged: str) -> None:
    """Mount by descriptors: paths may hold any character, and lead elsewhere a moment later."""
    places = [open_exactly(path) for path in (lower, upper, work, merged)]
    low, up, scratch, target = (f"/proc/self/fd/{place}" for place in places)
    options = f"userxattr,lowerdir={low},upperdir={up},workdir={scratch}".encode()
    _call("no overlay", _mount, b"overlay", target.encode(), b"overlay", 0, options)
    for place in places:
        os.close(place)


def wanted_network() -> bool:
    """Whether anything was sent to where nothing listens."""
    counted = dict(_counters())
    return any(counted.get(name) for name in _WANTED)


def _counters() -> Iterator[tuple[str, int]]:
    with open("/proc/self/net/snmp") as opened:
        lines = [line.split() for line in opened]
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        yield from (
            (f"{names[0]}{name}", int(value))
            for name, value in zip(names[1:], values[1:], strict=True)
        )
    try:
        with open("/proc/self/net/snmp6") as opened:
            yield from ((line.split()[0], int(line.split()[1])) for line in opened)
    except FileNotFoundError:  # there is no IPv6
        return


def start(argv: list[str]) -> int:
    """Start the command with the signals and the environment that it would have without Python in between.

    By a fork: while ``posix_spawn`` waits for the new program no other thread of Python runs, and that start itself may
    have to be seen by ``watch``.
    """
    with open("/proc/self/environ", "rb") as given:
        entries = [entry.partition(b"=") for entry in given.read().split(b"\0")]
    environment = {name: value for name, sign, value in entries if sign}
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execve(argv[0], argv, environment)
    finally:
        os._exit(NOT_STARTED)


def wait_for_all(
    pid: int,
    uppers: list[str],
    room: WriteRoom,
    destinations: Destinations | None,
    *,
    ends_at_name: bool,
) -> tuple[int, str, bool]:
    """Wait for the command and for all that it leaves behind.

    Gives its exit code, how it passed its room, and whether it was ended because it asked for a name.
    """
    code = NOT_STARTED
    exceeded = ""
    ended_at_name = False
    next_look = time.monotonic() + _LOOK
    while True:
        try:
            found, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code, exceeded or room.exceeded(uppers), ended_at_name
        if found == pid:
            ended = os.waitstatus_to_exitcode(status)
            code = 128 - ended if ended < 0 else ended
        if found:
            continue
        if not (destinations and destinations.answer()):
            signal.sigtimedwait(_NEWS, max(0, next_look - time.monotonic()))
        since = time.monotonic()
        asked_at = destinations.asked_at if destinations and ends_at_name else None
        if asked_at is not None and not ended_at_name and since >= asked_at + _AFTER_NAME:
            ended_at_name = True
            os.kill(pid, signal.SIGKILL)
        if since >= next_look:
            if not exceeded and (exceeded := room.exceeded(uppers)):
                os.kill(pid, signal.SIGKILL)
            next_look = time.monotonic() + max(_LOOK, 10 * (time.monotonic() - since))


class WriteRoom:
    """The bytes and the paths that a command may write; None where nothing bounds them."""

    def __init__(self, size: int | None, paths: int | None, caches: list[str]) -> None:
        """``caches`` are names of folders whose paths do not count, because they are dropped."""
        self._size, self._paths, self._caches = size, paths, caches

    def exceeded(self, folders: list[str]) -> str:
        """Return ``size`` or ``paths``, whichever was passed, or an empty text; it looks no further than it must."""
        if self._size is None and self._paths is None:
            return ""
        size = 0
        paths = 0
        left = [(folder, 1) for folder in folders]
        while left:
            folder, counts = left.pop()
            try:
                entries = list(os.scandir(folder))
            except OSError:  # it has gone meanwhile
                continue
            paths += counts * len(entries)
            if self._paths is not None and paths > self._paths:
                return "paths"
            for entry in entries:
                try:
                    size += _A_PATH + entry.stat(follow_symlinks=False).st_blocks * 512
                except OSError:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    left.append((entry.path, 0 if entry.name in self._caches else counts))
            if self._size is not None and size > self._size:
                return "size"
        return ""


def main(
    plan: dict[str, Any],
    destinations: Destinations | None,
    watching: Callable[[dict[str, Any]], Watch] | None,
) -> int:
    """Do it, with the network that there is, or one in which it is seen where somebody wants to go."""
    _prctl(_PR_SET_CHILD_SUBREAPER, _Long(1), 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, _NEWS)
    try:
        if plan["mounts"]:
            enter_namespaces(network=destinations is None)
        _prctl(_PR_SET_PDEATHSIG, _Long(signal.SIGKILL), 0, 0, 0)  # new namespaces forget it
        for places in plan["overlays"]:
            mount_overlay(*places)
        if destinations:
            destinations.bring_up()
        opened = [open_exactly(path) for path in plan["opens"]]
    except OSError as error:
        sys.stderr.write(f"forge: {NOTHING}: {error.strerror}\n")
        return NOT_MOUNTED
    for descriptor in opened:
        os.set_inheritable(descriptor, True)
    argv = [str(opened[item]) if isinstance(item, int) else item for item in plan["argv"]]
    if not os.access(argv[0], os.X_OK):
        sys.stderr.write(f"forge: {argv[0]} cannot be started\n")
        return NOT_STARTED
    with open(plan["report"], "wb") as report:
        watch = _watch(plan["watch"], watching)
        pid = start(argv)
        uppers = [upper for _, upper, _, _ in plan["overlays"]]
        room = WriteRoom(plan["room"], plan["paths"], plan["caches"])
        code, passed, ended_at_name = wait_for_all(
            pid, uppers, room, destinations, ends_at_name=plan["ends_at_name"]
        )
        reached = destinations.reached() if destinations else []
        network = destinations is not None and (
            bool(reached) or destinations.was_asked or wanted_network()
        )
        seen = watch.found() if watch else None
        told = {
            "network": network,
            "exceeded": passed == "size",
            "too_many": passed == "paths",
            "reached": reached,
        }
        told["ended_at_name"] = ended_at_name
        marshal.dump({**told, "seen": seen}, report)
    return code


def _watch(
    plan: dict[str, Any] | None, watching: Callable[[dict[str, Any]], Watch] | None
) -> Watch | None:
    """See what the command reaches for; where that cannot be, the filter of its mechanism refuses it unseen."""
    if plan is None or watching is None:
        return None
    try:
        watch = watching(plan)
    except OSError:
        return None
    descriptor, relaxed = plan["inner"]
    os.ftruncate(descriptor, len(relaxed))
    os.pwrite(descriptor, relaxed, 0)
    return watch


def run(
    descriptor: int,
    destinations: Destinations | None = None,
    watching: Callable[[dict[str, Any]], Watch] | None = None,
) -> NoReturn:
    """Do what the plan says that lies behind a descriptor, and leave without any of Python's own ceremony."""
    with open(descriptor, "rb") as given:
        plan = marshal.load(given)  # noqa: S302
    code = main(plan, destinations, watching)
    sys.stderr.flush()
    os._exit(code)
