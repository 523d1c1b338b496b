"""A record of what a command reached for, from system calls that the kernel holds.

The filter of ``isolation.watching`` selects the calls. Nothing here lets a command do more: calls
with paths continue unchanged, and meet the mounts. Only unix sockets are replaced: the command gets
a socket whose other end is closed. It shows where the command wants to connect, and can never be
connected. A bare interpreter imports this module, like ``enter``.
"""

from __future__ import annotations

import _ctypes
import _socket as socket
import _struct as struct
import _thread
import errno
import fcntl
import posix
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from forge_cli.sandbox.trial.started import StartedPrograms

MAX_RECORDED = 20
"""Places of each kind that are recorded, so that a command cannot fill the report."""
MAX_WRITES = 200
MAX_WORDS = 4096
"""Words of one command that are read."""
_MAX_OPEN_SOCKETS = 1000
# Requests to the listener of a filter; the numbers contain the sizes of their structures.
_RECEIVE = 0xC0502100
_SEND = 0xC0182101
_ADD_DESCRIPTOR = 0x40182103
_IS_VALID = 0x40082102
_SET_FILTER = 1
_NEW_LISTENER = 0x08
_WAIT_KILLABLE = 0x20
_CONTINUE = 1
_ADD_AND_ANSWER = 2
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_ANSWER = struct.Struct("=QqiI")
_DESCRIPTOR = struct.Struct("=QIIII")
_NONBLOCK = 0o4000
_CLOEXEC = 0o2000000
_WRITES = 0o3
_CREATES = 0o100
_TRUNCATES = 0o1000
_OPENAT2 = 437
_IN_ROOT = 0x10
# AT_FDCWD as an unsigned number.
_HERE = 0xFFFFFF9C
_MAX_PATH = 4096
_MAX_ADDRESS = 128
_MAX_NAME = 300
_MAX_WORDS_SIZE = 1 << 18
_INTERNET = {int(socket.AF_INET): 4, int(socket.AF_INET6): 16}
_ELSEWHERE = ("/dev/", "/proc/")
"""Devices and descriptors of the command itself."""
_HARMLESS = (
    "/run/nscd/",
    "/run/nslcd/",
    "/var/lib/sss/pipes/",
    "/run/samba/winbindd/",
    "/run/avahi-daemon/",
    "/run/systemd/userdb/",
    "/run/systemd/resolve/",
    "/run/systemd/journal/",
    "/run/systemd/notify",
    "/dev/log",
    "/run/uuidd/",
)
"""Services that the C library asks for users and hosts, or notifies; without them, it reads
files."""
_PROBING = {"java"}
"""Programs that make a unix socket only to test if the kernel supports it."""


class _Pointer(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "L"


class _Byte(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "B"


class _Syscall(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = _Pointer


_syscall = _Syscall(_ctypes.dlsym(_ctypes.dlopen(None, 0), "syscall"))  # type: ignore[arg-type]


def _call(number: int, *arguments: int) -> int:
    found: int = _syscall(*(_Pointer(each & 0xFFFFFFFFFFFFFFFF) for each in (number, *arguments)))
    # The result is unsigned here, so that errors are the highest numbers.
    if found >= 0xFFFFFFFFFFFFF000:
        raise OSError(_ctypes.get_errno(), "")
    return found


def _buffer(data: bytes) -> Any:
    return (_Byte * len(data)).from_buffer_copy(data)


def _listen(program: bytes, number: int) -> int:
    """Install the filter for this thread and its children.

    Return the descriptor that reports calls.
    """
    steps = _buffer(program)
    whole = _buffer(struct.pack("=H6xQ", len(program) // 8, _ctypes.addressof(steps)))
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
        try:
            return _call(number, _SET_FILTER, flags, _ctypes.addressof(whole))
        except OSError as error:
            # The kernel does not know the second flag.
            if error.errno != errno.EINVAL:
                raise
    raise OSError(errno.EINVAL, "")


class Watch:
    """A record of the calls of one command, made in a thread of its own."""

    def __init__(self, plan: Mapping[str, Any], started: StartedPrograms | None = None) -> None:
        """Start watching.

        Raise OSError if the kernel refuses, or another program watches this process.
        """
        self._paths: Mapping[int, Sequence[Any]] = plan["paths"]
        self._program: str = plan["program"]
        self._started = started
        self._scratch = set(plan["scratch"])
        handlers: dict[str, Callable[[int, int, Sequence[int]], int | None]] = {
            "socket": self._socket,
            "pair": self._pair,
            "connect": self._connect,
            "bind": self._bind,
            "send": self._send,
            "program": self._start,
            "program_at": self._start_at,
            "begin": self._begin,
        }
        self._calls = {number: handlers[name] for number, name in plan["calls"].items()}
        self._closed = {
            number for number, name in plan["calls"].items() if name in ("socket", "pair")
        }
        """Calls that must not continue, because they would make a connectable unix socket."""
        self._own: int = plan.get("thread") or posix.getpid()
        self._begun = not self._paths
        self._begins = "begin" in plan["calls"].values()
        self._unused: dict[int, str] = {}
        """Replaced sockets that are still unused, by inode number, with their program."""
        self._sockets: dict[str, str] = {}
        self._addresses: dict[str, None] = {}
        self._internet: set[str] = set()
        """Programs that made a network socket, used or not."""
        self._writes: dict[str, None] = {}
        self._listener = -1
        # A thread started later would inherit the filter, and wait for itself.
        beginning = _thread.allocate_lock()
        with beginning:
            _thread.start_new_thread(self._serve, (beginning,))
            self._listener = _listen(plan["filter"], plan["seccomp"])

    def found(self) -> dict[str, list[Any]]:
        """Return everything that was recorded."""
        sockets = dict(self._sockets)
        if any(program not in _PROBING for program in self._unused.values()):
            sockets.setdefault("", "unknown")
        started: dict[str, Any] = {"programs": [], "commands": [], "unlisted": False}
        if self._started:
            started = self._started.found()
        return {
            "sockets": list(sockets.items()),
            "addresses": list(self._addresses) or ([""] if self._internet - _PROBING else []),
            "writes": list(self._writes),
            **started,
        }

    def _serve(self, beginning: _thread.LockType) -> None:
        with beginning:
            listener = self._listener
        try:
            while listener >= 0 and self._serve_one():
                pass
        finally:
            if listener >= 0:
                posix.close(listener)  # held calls now fail instead of waiting for ever

    def _serve_one(self) -> bool:
        held = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, held)
        except OSError as error:
            # The caller was killed in the meantime.
            return error.errno in (errno.ENOENT, errno.EINTR)
        number, pid, _, call, _, _, *arguments = _NOTIFICATION.unpack(held)
        refused: int | None = None
        # The process that starts the command is also under the filter.
        if pid != self._own:
            try:
                refused = self._see(number, pid, call, arguments)
            except (OSError, ValueError, IndexError):
                # It is gone, or its arguments cannot be read.
                refused = errno.EPERM if call in self._closed else None
        self._answer(number, refused)
        return True

    def _see(self, number: int, pid: int, call: int, arguments: Sequence[int]) -> int | None:
        """Record a call; return None to continue it, 0 if it was answered, or the error it gets."""
        row = self._paths.get(call)
        if row is not None:
            if self._begun:
                self._change(pid, row, arguments)
            return None
        return self._calls[call](number, pid, arguments)

    def _answer(self, number: int, refused: int | None) -> None:
        if refused == 0:
            return
        flags = 0 if refused else _CONTINUE
        answer = _ANSWER.pack(number, 0, -(refused or 0), flags)
        try:
            fcntl.ioctl(self._listener, _SEND, answer)
        except OSError:
            return  # the caller is gone

    def _is_there(self, number: int) -> bool:
        """Return True if the call is still waiting, so that the memory read belongs to it."""
        try:
            fcntl.ioctl(self._listener, _IS_VALID, number.to_bytes(8, sys.byteorder))
        except OSError:
            return False
        return True

    def _begin(self, number: int, pid: int, arguments: Sequence[int]) -> None:
        """Note that the mechanism starts the command; earlier calls are the mechanism's."""
        self._begun = True

    def _socket(self, number: int, pid: int, arguments: Sequence[int]) -> int | None:
        if not self._begun and self._begins:
            return None  # a call of the mechanism itself
        if arguments[0] & 0xFFFFFFFF in _INTERNET:
            self._internet.add(_program(pid))
            return errno.ENETUNREACH  # even if its namespace has the network
        # The closed other end makes every use of the socket fail.
        mine, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        other.close()
        if arguments[1] & _NONBLOCK:
            mine.setblocking(False)
        if len(self._unused) < _MAX_OPEN_SOCKETS:
            self._unused[posix.fstat(mine.fileno()).st_ino] = _program(pid)
        else:
            self._record(self._sockets, "", "unknown")
        flags = _CLOEXEC if arguments[1] & _CLOEXEC else 0
        try:
            fcntl.ioctl(
                self._listener,
                _ADD_DESCRIPTOR,
                _DESCRIPTOR.pack(number, _ADD_AND_ANSWER, mine.fileno(), 0, flags),
            )
        except OSError as error:
            if error.errno == errno.EMFILE:
                return error.errno
            return errno.EPERM
        finally:
            mine.close()
        return 0

    def _pair(self, number: int, pid: int, arguments: Sequence[int]) -> int:
        self._record(self._sockets, "", "unknown")
        return errno.EPERM

    def _connect(self, number: int, pid: int, arguments: Sequence[int]) -> int | None:
        return self._reach(number, pid, arguments[0], arguments[1], arguments[2])

    def _send(self, number: int, pid: int, arguments: Sequence[int]) -> int | None:
        return self._reach(number, pid, arguments[0], arguments[4], arguments[5])

    def _bind(self, number: int, pid: int, arguments: Sequence[int]) -> int | None:
        address = _read(pid, arguments[1], min(arguments[2] & 0xFFFFFFFF, _MAX_ADDRESS))
        if not self._is_there(number) or _family(address) != socket.AF_UNIX:
            return None
        self._use(pid, arguments[0])
        self._record(self._sockets, _socket_name(pid, address), "own")
        return errno.EPERM

    def _reach(self, number: int, pid: int, descriptor: int, place: int, length: int) -> int | None:
        address = _read(pid, place, min(length & 0xFFFFFFFF, _MAX_ADDRESS))
        # After a kill, the process ID could belong to another process.
        if not self._is_there(number):
            return None
        family = _family(address)
        if family in _INTERNET:
            if target := _target(family, address):
                self._record(self._addresses, target, None)
            return None
        if family != socket.AF_UNIX:
            return None
        self._use(pid, descriptor)
        name = _socket_name(pid, address)
        if _is_harmless(name):
            return errno.ENOENT
        state = "there" if _is_socket(pid, name) else "absent"
        self._record(self._sockets, name, state)
        if state == "absent":
            return errno.ENOENT
        return errno.EPERM

    def _use(self, pid: int, descriptor: int) -> None:
        """Note that a replaced socket has shown its purpose."""
        name = posix.readlink(f"/proc/{pid}/fd/{descriptor & 0xFFFFFFFF}")
        if name.startswith("socket:["):
            self._unused.pop(int(name[8:-1]), None)

    def _start(self, number: int, pid: int, arguments: Sequence[int]) -> None:
        self._see_program(number, _text(pid, arguments[0]), pid, None, arguments[1])

    def _start_at(self, number: int, pid: int, arguments: Sequence[int]) -> None:
        self._see_program(number, _text(pid, arguments[1]), pid, arguments[0], arguments[2])

    def _see_program(
        self, number: int, name: str, pid: int, folder: int | None, words: int
    ) -> None:
        """Record a started program; the first one is the command itself, after the mechanism."""
        if name == self._program:
            return
        self._begun = True
        if self._started is None:
            return
        path = _whole(pid, folder, name)
        file = _open_program(pid, path)
        if file is None:
            return  # the caller tries all folders of PATH
        try:
            self._started.add(path, file, _words(pid, words))
        finally:
            posix.close(file)

    def _change(self, pid: int, row: Sequence[Any], arguments: Sequence[int]) -> None:
        """Record a change that a read-only place refuses."""
        meets, folder, at, flags_at, follows = row
        name = "" if at is None or not arguments[at] else _text(pid, arguments[at])
        path = _whole(pid, None if folder is None else arguments[folder], name)
        if (
            path.startswith(_ELSEWHERE)
            or not path.startswith("/")
            or not self._scratch.isdisjoint(path.split("/"))
        ):
            return
        if meets == "open":
            # ``creat`` has no flags.
            flags = _WRITES | _CREATES if flags_at is None else arguments[flags_at]
        elif meets == "open2":
            flags = int.from_bytes(_read(pid, arguments[2], 8), sys.byteorder)
            if not flags & (_WRITES | _CREATES | _TRUNCATES):
                return
        else:
            flags = _CREATES if meets == "missing" else _TRUNCATES
        if len(self._writes) < MAX_WRITES and _is_refused(pid, path, flags, follows=follows):
            self._writes[path[:_MAX_NAME]] = None

    def _record(self, kept: dict[str, Any], name: str, what: object) -> None:
        if len(kept) < MAX_RECORDED:
            kept.setdefault(name[:_MAX_NAME], what)


def _read(pid: int, place: int, length: int) -> bytes:
    memory = posix.open(f"/proc/{pid}/mem", posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        return posix.pread(memory, length, place)
    finally:
        posix.close(memory)


def _text(pid: int, place: int) -> str:
    return _decoded(_read(pid, place, _MAX_PATH).partition(b"\0")[0])


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _program(pid: int) -> str:
    try:
        return posix.readlink(f"/proc/{pid}/exe").rpartition("/")[2]
    except OSError:
        return ""


def _family(address: bytes) -> int:
    return int.from_bytes(address[:2], sys.byteorder)


def _target(family: int, address: bytes) -> str | None:
    """Return an address with its port, or None for this machine."""
    size = _INTERNET[family]
    # In an IPv6 address, the flow label comes first.
    start = 4 if size == 4 else 8
    data = address[start : start + size]
    port = int.from_bytes(address[2:4], "big")
    host = socket.inet_ntop(family, data)
    if host.startswith(("127.", "::ffff:127.")) or host in ("0.0.0.0", "::", "::1"):  # noqa: S104
        return None
    if ":" in host:
        return f"[{host}]:{port}"
    return f"{host}:{port}"


def _socket_name(pid: int, address: bytes) -> str:
    """Return the path of a unix socket, ``@`` with an abstract name, or an empty text."""
    data = address[2:]
    if data[:1] == b"\0":
        return "@" + _decoded(data[1:]).rstrip("\0").replace("\0", "@")
    name = _decoded(data.partition(b"\0")[0])
    return _whole(pid, None, name) if name else ""


def _whole(pid: int, folder: int | None, name: str) -> str:
    """Return the absolute path as the process sees it."""
    if name.startswith("/"):
        return _normal(name)
    here = folder is None or folder & 0xFFFFFFFF == _HERE
    place = f"/proc/{pid}/cwd"
    if not here:
        place = f"/proc/{pid}/fd/{(folder or 0) & 0xFFFFFFFF}"
    around = posix.readlink(place)
    if name:
        return _normal(f"{around}/{name}")
    return around


def _normal(path: str) -> str:
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def _is_harmless(name: str) -> bool:
    # /var/run is usually a link to /run.
    return name.removeprefix("/var").startswith(_HARMLESS) or name.startswith(_HARMLESS)


def _is_socket(pid: int, name: str) -> bool:
    """Return True if the socket exists on this machine; abstract ones are assumed to exist."""
    if not name.startswith("/"):
        return True
    for path in (name, f"/proc/{pid}/root{name}"):
        try:
            if stat.S_ISSOCK(posix.stat(path).st_mode):
                return True
        except OSError:
            continue
    return False


def _words(pid: int, place: int) -> list[str]:
    """Return the first words that a program is started with."""
    if not place:
        return []
    array = _read(pid, place, 8 * MAX_WORDS)
    places = [number for (number,) in struct.iter_unpack("=Q", array[: len(array) // 8 * 8])]
    if 0 in places:
        places = places[: places.index(0)]
    if not places:
        return []
    # They are usually adjacent, so that one read is enough.
    first = min(places)
    size = max(places) - min(places)
    data = _read(pid, first, size + _MAX_PATH) if size < _MAX_WORDS_SIZE else b""
    found = []
    for each in places:
        if data:
            word = data[each - first : each - first + _MAX_PATH]
        else:
            word = _read(pid, each, _MAX_PATH)
        found.append(_decoded(word.partition(b"\0")[0]))
    return found


def _open_program(pid: int, path: str) -> int | None:
    """Open an existing program, or return None."""
    root = posix.open(f"/proc/{pid}/root", posix.O_PATH | posix.O_CLOEXEC)
    try:
        # Not every program is readable.
        for flags in (posix.O_RDONLY | posix.O_NONBLOCK, posix.O_PATH):
            try:
                return _open_below(root, path, flags)
            except OSError:
                continue
        return None
    finally:
        posix.close(root)


def _is_refused(pid: int, path: str, flags: int, *, follows: bool) -> bool:
    """Return True if a read-only file system refuses to open, make or change a path."""
    root = posix.open(f"/proc/{pid}/root", posix.O_PATH | posix.O_CLOEXEC)
    try:
        try:
            found = _open_below(root, path, posix.O_PATH | (0 if follows else posix.O_NOFOLLOW))
        except FileNotFoundError:
            if not flags & _CREATES:
                return False
            found = _open_below(root, path.rpartition("/")[0] or "/", posix.O_PATH)
            wanted = True
        else:
            mode = posix.fstat(found).st_mode
            ordinary = stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)
            wanted = ordinary and bool(flags & (_WRITES | _TRUNCATES))
        try:
            return wanted and bool(posix.fstatvfs(found).f_flag & posix.ST_RDONLY)
        finally:
            posix.close(found)
    except OSError:
        return False  # the folder does not exist, or is unreadable
    finally:
        posix.close(root)


def _open_below(root: int, path: str, flags: int) -> int:
    """Open a path like a process with this root: ``openat2`` also keeps links inside it."""
    name = _buffer(path.encode("utf-8", "surrogateescape") + b"\0")
    how = _buffer(struct.pack("=QQQ", flags | posix.O_CLOEXEC, 0, _IN_ROOT))
    return _call(_OPENAT2, root, _ctypes.addressof(name), _ctypes.addressof(how), 24)
