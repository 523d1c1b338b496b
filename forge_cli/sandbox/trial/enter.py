"""The first program of a command on copies: it mounts overlays and starts the command.

It has its own mount namespace and, for a trial, an empty network. After everything has ended, it
reports which network the command wanted, what ``watch`` saw, and if it wrote too much. A bare
interpreter imports this module for each command. It uses only built-in modules, because importing
``ctypes`` and ``os`` takes longer than all the mounts.
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

NOT_STARTED = 127
NOT_MOUNTED = 125
NOTHING = "nothing was started"
_NEWNS = 0x00020000
_NEWUSER = 0x10000000
_NEWNET = 0x40000000
_MS_REC = 0x4000
_MS_PRIVATE = 1 << 18
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_WANTED = (
    "Ip:OutNoRoutes",
    "Tcp:AttemptFails",
    "Udp:NoPorts",
    "Udp:RcvbufErrors",
    "Ip6OutNoRoutes",
    "Udp6NoPorts",
)
"""Kernel counters that rise when a program tries to reach something that is not there."""
_CHECK_INTERVAL = 0.25
_PATH_SIZE = 4096
"""Bytes that each path counts besides its blocks, since an empty file needs space, too."""
_GRACE_AFTER_NAME = 0.5
"""Seconds for a command that asked for a name to show the port, and other names."""
_SIGNALS = {signal.SIGCHLD, signal.SIGIO}
"""The signals for the end of a process and for a name query."""


class _Int(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "i"


class _Long(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "L"


class _Function(_ctypes.CFuncPtr):
    """A function of the C library, as ``ctypes`` would make it."""

    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = _Int


if sys.platform == "linux":  # other systems lack these functions, and import only the constants
    _library = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]
    _mount, _prctl, _unshare = (
        _Function(_ctypes.dlsym(_library, name)) for name in ("mount", "prctl", "unshare")
    )


def _call(what: str, function: _Function, *arguments: object) -> None:
    if function(*arguments) < 0:
        number = _ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def enter_namespaces(*, network: bool) -> None:
    """Enter a mount namespace and, unless ``network``, an empty network namespace.

    Without root, this takes a user namespace.
    """
    wanted = _NEWNS
    if not network:
        wanted |= _NEWNET
    user = os.geteuid()
    group = os.getegid()
    if user != 0 or _unshare(wanted) < 0:
        _call("no namespaces", _unshare, wanted | _NEWUSER)
        # Without "deny", the kernel accepts no gid_map from a user.
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    _call("mounts cannot be made private", _mount, b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)


def open_exactly(path: str) -> int:
    """Open a path without following links; raise OSError if it is, or is behind, a link."""
    descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    if os.readlink(f"/proc/self/fd/{descriptor}") != path:
        raise OSError(0, f"{path} became a link, or is behind a new one")
    return descriptor


def mount_overlay(lower: str, upper: str, work: str, merged: str) -> None:
    """Mount an overlay by descriptors: paths may have any characters, or lead elsewhere."""
    places = [open_exactly(path) for path in (lower, upper, work, merged)]
    low, up, scratch, target = (f"/proc/self/fd/{place}" for place in places)
    # Only ``userxattr`` lets an overlay keep its marks without root.
    options = f"userxattr,lowerdir={low},upperdir={up},workdir={scratch}".encode()
    _call("no overlay", _mount, b"overlay", target.encode(), b"overlay", 0, options)
    for place in places:
        os.close(place)


def wanted_network() -> bool:
    """Return True if something was sent to where nothing listens."""
    counted = dict(_counters())
    return any(counted.get(name) for name in _WANTED)


def _counters() -> Iterator[tuple[str, int]]:
    with open("/proc/self/net/snmp") as opened:
        lines = [line.split() for line in opened]
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        for name, value in zip(names[1:], values[1:], strict=True):
            yield f"{names[0]}{name}", int(value)
    try:
        with open("/proc/self/net/snmp6") as opened:
            for line in opened:
                words = line.split()
                yield words[0], int(words[1])
    except FileNotFoundError:
        return  # no IPv6


def start(argv: list[str]) -> int:
    """Start the command with the signals and environment that it would have without Python.

    It uses fork: during ``posix_spawn`` no other Python thread runs, but ``watch`` may have to see
    the start of the program.
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
        os._exit(NOT_STARTED)  # the program cannot be executed


def wait_for_all(
    pid: int,
    uppers: list[str],
    room: WriteRoom,
    destinations: Destinations | None,
    *,
    ends_at_name: bool,
) -> tuple[int, str, bool]:
    """Wait for the command and everything it started.

    Return its exit code, the limit it exceeded, and whether it was ended for asking a name.
    """
    code = NOT_STARTED
    exceeded = ""
    ended_at_name = False
    next_look = time.monotonic() + _CHECK_INTERVAL
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
            signal.sigtimedwait(_SIGNALS, max(0, next_look - time.monotonic()))
        since = time.monotonic()
        asked_at = destinations.asked_at if destinations and ends_at_name else None
        is_late = asked_at is not None and since >= asked_at + _GRACE_AFTER_NAME
        if is_late and not ended_at_name:
            ended_at_name = True
            os.kill(pid, signal.SIGKILL)
        if since >= next_look:
            if not exceeded and (exceeded := room.exceeded(uppers)):
                os.kill(pid, signal.SIGKILL)
            # A look takes at most a tenth of the time, however many files there are.
            used = time.monotonic() - since
            next_look = time.monotonic() + max(_CHECK_INTERVAL, 10 * used)


class WriteRoom:
    """Limits on the bytes and paths that a command may write; None means unlimited."""

    def __init__(self, size: int | None, paths: int | None, caches: list[str]) -> None:
        """Set the limits; paths in the folders ``caches`` do not count, since they are dropped."""
        self._size = size
        self._paths = paths
        self._caches = caches

    def exceeded(self, folders: list[str]) -> str:
        """Return ``size`` or ``paths`` if that limit is exceeded, else an empty text."""
        if self._size is None and self._paths is None:
            return ""
        size = 0
        paths = 0
        left = [(folder, 1) for folder in folders]
        while left:
            folder, counts = left.pop()
            try:
                entries = list(os.scandir(folder))
            except OSError:
                continue  # it was deleted in the meantime
            paths += counts * len(entries)
            if self._paths is not None and paths > self._paths:
                return "paths"
            for entry in entries:
                try:
                    size += _PATH_SIZE + entry.stat(follow_symlinks=False).st_blocks * 512
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
    """Run the plan; with ``destinations``, in an empty network that records what is wanted."""
    # Orphans of the command become children here, so that their end can be awaited.
    _prctl(_PR_SET_CHILD_SUBREAPER, _Long(1), 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        if plan["mounts"]:
            enter_namespaces(network=destinations is None)
        # New namespaces reset this.
        _prctl(_PR_SET_PDEATHSIG, _Long(signal.SIGKILL), 0, 0, 0)
        # Outer zones come first: an inner overlay is mounted over the outer one.
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
        summary = {
            "network": network,
            "exceeded": passed == "size",
            "too_many": passed == "paths",
            "reached": reached,
            "ended_at_name": ended_at_name,
            "seen": seen,
        }
        marshal.dump(summary, report)
    return code


def _watch(
    plan: dict[str, Any] | None, watching: Callable[[dict[str, Any]], Watch] | None
) -> Watch | None:
    """Start watching the command; if that is impossible, the mechanism's filter still refuses."""
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
    """Run the plan from a descriptor, and exit without Python's cleanup."""
    with open(descriptor, "rb") as given:
        plan = marshal.load(given)  # noqa: S302
    code = main(plan, destinations, watching)
    sys.stderr.flush()
    os._exit(code)
