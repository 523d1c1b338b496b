"""The record of what a command reached for in vain: system calls that the kernel holds until they were seen here.

The filter of ``isolation.watching`` says which. Nothing is decided here that would let a command do more: calls with
paths go on as they are, and meet the mounts. The one exception are unix sockets, for which a command gets a socket of
which the other end is closed: it shows what the command wants to connect to, and can never be connected to anything.
A bare interpreter imports this, as it does ``enter``.
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
"""Places of each kind that are remembered, so that a command cannot fill the report."""
MAX_WRITES = 200
MAX_WORDS = 4096
"""Words of one command that are read."""
_MAX_OPEN_SOCKETS = 1000
_RECEIVE, _SEND, _ADD_DESCRIPTOR, _IS_VALID = 0xC0502100, 0xC0182101, 0x40182103, 0x40082102
_SET_FILTER, _NEW_LISTENER, _WAIT_KILLABLE = 1, 0x08, 0x20
_GO_ON, _ADD_AND_ANSWER = 1, 2
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_ANSWER = struct.Struct("=QqiI")
_DESCRIPTOR = struct.Struct("=QIIII")
_NONBLOCK, _CLOEXEC = 0o4000, 0o2000000
_WRITES, _CREATES, _TRUNCATES = 0o3, 0o100, 0o1000
_OPENAT2, _IN_ROOT, _HERE = 437, 0x10, 0xFFFFFF9C
_MAX_PATH, _MAX_ADDRESS, _MAX_NAME = 4096, 128, 300
_MAX_WORDS_SIZE = 1 << 18
_INTERNET = {int(socket.AF_INET): 4, int(socket.AF_INET6): 16}
_ELSEWHERE = ("/dev/", "/proc/")
"""Files there are devices of the command itself, or its own descriptors."""
_HARMLESS = (
    *(
        "/run/nscd/",
        "/run/nslcd/",
        "/var/lib/sss/pipes/",
        "/run/samba/winbindd/",
        "/run/avahi-daemon/",
    ),
    *(
        "/run/systemd/userdb/",
        "/run/systemd/resolve/",
        "/run/systemd/journal/",
        "/run/systemd/notify",
        "/dev/log",
    ),
    "/run/uuidd/",
)
"""The C library asks these for names of users and hosts, and tells them of events; without them it reads files."""
_PROBING = {"java"}
"""Programs that make a unix socket, and close it, only to see whether the kernel has any."""


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
    if found >= 0xFFFFFFFFFFFFF000:
        raise OSError(_ctypes.get_errno(), "")
    return found


def _buffer(data: bytes) -> Any:
    return (_Byte * len(data)).from_buffer_copy(data)


def _listen(program: bytes, number: int) -> int:
    """Put the filter over this thread and all that it starts, and give the descriptor by which it is seen."""
    steps = _buffer(program)
    whole = _buffer(struct.pack("=H6xQ", len(program) // 8, _ctypes.addressof(steps)))
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
        try:
            return _call(number, _SET_FILTER, flags, _ctypes.addressof(whole))
        except OSError as error:
            if (
                error.errno != errno.EINVAL
            ):  # as it is where the kernel does not know the second flag
                raise
    raise OSError(errno.EINVAL, "")


class Watch:
    """Sees the calls of one command, in a thread of its own."""

    def __init__(self, plan: Mapping[str, Any], started: StartedPrograms | None = None) -> None:
        """Begin; an OSError where the kernel does not let it, or where somebody watches this process already."""
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
        """The calls of which none may go on by itself: it would make a unix socket that can be connected."""
        self._own: int = plan.get("thread") or posix.getpid()
        self._begun = not self._paths
        self._begins = "begin" in plan["calls"].values()
        self._unused: dict[int, str] = {}
        """Sockets that were handed out and not used yet, by the number of their file, with the program."""
        self._sockets: dict[str, str] = {}
        self._addresses: dict[str, None] = {}
        self._internet: set[str] = set()
        """Programs that made a socket of the network, whether or not they used it."""
        self._writes: dict[str, None] = {}
        self._listener = -1
        # a thread that is started later would be under the filter, too, and wait for itself
        beginning = _thread.allocate_lock()
        with beginning:
            _thread.start_new_thread(self._serve, (beginning,))
            self._listener = _listen(plan["filter"], plan["seccomp"])

    def found(self) -> dict[str, list[Any]]:
        """All that was recorded."""
        sockets = dict(self._sockets)
        if any(program not in _PROBING for program in self._unused.values()):
            sockets.setdefault("", "unknown")
        return {
            "sockets": list(sockets.items()),
            "addresses": list(self._addresses) or ([""] if self._internet - _PROBING else []),
            "writes": list(self._writes),
            **(
                self._started.found()
                if self._started
                else {"programs": [], "commands": [], "unlisted": False}
            ),
        }

    def _serve(self, beginning: _thread.LockType) -> None:
        with beginning:
            listener = self._listener
        try:
            while listener >= 0 and self._serve_one():
                pass
        finally:
            if listener >= 0:
                posix.close(listener)  # what is held would wait for ever, and fails now

    def _serve_one(self) -> bool:
        held = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, held)
        except OSError as error:
            return error.errno in (
                errno.ENOENT,
                errno.EINTR,
            )  # who called has been killed meanwhile
        number, pid, _, call, _, _, *arguments = _NOTIFICATION.unpack(held)
        refused: int | None = None
        # The process that starts the command is under the filter as well.
        if pid != self._own:
            try:
                refused = self._see(number, pid, call, arguments)
            except (
                OSError,
                ValueError,
                IndexError,
            ):  # it has gone, or says nothing that can be read
                refused = errno.EPERM if call in self._closed else None
        self._answer(number, refused)
        return True

    def _see(self, number: int, pid: int, call: int, arguments: Sequence[int]) -> int | None:
        """Record a call; None lets it go on, 0 says that it was answered, and all else is why it fails."""
        row = self._paths.get(call)
        if row is not None:
            if self._begun:
                self._change(pid, row, arguments)
            return None
        return self._calls[call](number, pid, arguments)

    def _answer(self, number: int, refused: int | None) -> None:
        if refused == 0:
            return
        answer = (
            _ANSWER.pack(number, 0, -refused, 0) if refused else _ANSWER.pack(number, 0, 0, _GO_ON)
        )
        try:
            fcntl.ioctl(self._listener, _SEND, answer)
        except OSError:  # it has gone
            return

    def _is_there(self, number: int) -> bool:
        """Whether the call waits still, so that what was read is what it said."""
        try:
            fcntl.ioctl(self._listener, _IS_VALID, number.to_bytes(8, sys.byteorder))
        except OSError:
            return False
        return True

    def _begin(self, number: int, pid: int, arguments: Sequence[int]) -> None:
        """The mechanism is about to start the command; before that nothing is the command's doing."""
        self._begun = True

    def _socket(self, number: int, pid: int, arguments: Sequence[int]) -> int | None:
        if not self._begun and self._begins:
            return None  # of the mechanism itself
        if arguments[0] & 0xFFFFFFFF in _INTERNET:
            self._internet.add(_program(pid))
            return errno.ENETUNREACH  # also where its namespace has the network
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
            return error.errno if error.errno == errno.EMFILE else errno.EPERM
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
        return errno.ENOENT if state == "absent" else errno.EPERM

    def _use(self, pid: int, descriptor: int) -> None:
        """The socket has shown what it is for."""
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
        """The mechanism starts the command; before that nothing is the command's doing."""
        if name == self._program:
            return
        self._begun = True
        if self._started is None:
            return
        path = _whole(pid, folder, name)
        file = _open_program(pid, path)
        if file is None:  # others are asked for on the way along PATH
            return
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
    """An address with its port; nothing for those of this machine, where a command may talk to itself."""
    size = _INTERNET[family]
    start = 4 if size == 4 else 8
    data = address[start : start + size]
    port = int.from_bytes(address[2:4], "big")
    host = socket.inet_ntop(family, data)
    if host.startswith(("127.", "::ffff:127.")) or host in ("0.0.0.0", "::", "::1"):  # noqa: S104
        return None
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _socket_name(pid: int, address: bytes) -> str:
    """The path of a unix socket; one of an abstract socket begins with an @, one without a name has none."""
    data = address[2:]
    if data[:1] == b"\0":
        return "@" + _decoded(data[1:]).rstrip("\0").replace("\0", "@")
    name = _decoded(data.partition(b"\0")[0])
    return _whole(pid, None, name) if name else ""


def _whole(pid: int, folder: int | None, name: str) -> str:
    """A path as the process sees it, from the root on."""
    if name.startswith("/"):
        return _normal(name)
    here = folder is None or folder & 0xFFFFFFFF == _HERE
    around = posix.readlink(
        f"/proc/{pid}/cwd" if here else f"/proc/{pid}/fd/{(folder or 0) & 0xFFFFFFFF}"
    )
    return _normal(f"{around}/{name}") if name else around


def _normal(path: str) -> str:
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def _is_harmless(name: str) -> bool:
    return name.removeprefix("/var").startswith(_HARMLESS) or name.startswith(_HARMLESS)


def _is_socket(pid: int, name: str) -> bool:
    """Whether it is there on this machine; it cannot be seen of abstract ones, so they are taken to be."""
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
    """The words that a program is started with; as many as are kept."""
    if not place:
        return []
    array = _read(pid, place, 8 * MAX_WORDS)
    places = [number for (number,) in struct.iter_unpack("=Q", array[: len(array) // 8 * 8])]
    places = places[: places.index(0)] if 0 in places else places
    if not places:
        return []
    # they mostly lie one behind the other, so that one look is enough
    first = min(places)
    size = max(places) - min(places)
    data = _read(pid, first, size + _MAX_PATH) if size < _MAX_WORDS_SIZE else b""
    found = []
    for each in places:
        word = (
            data[each - first : each - first + _MAX_PATH] if data else _read(pid, each, _MAX_PATH)
        )
        found.append(_decoded(word.partition(b"\0")[0]))
    return found


def _open_program(pid: int, path: str) -> int | None:
    """A file that is there to be started, or None."""
    root = posix.open(f"/proc/{pid}/root", posix.O_PATH | posix.O_CLOEXEC)
    try:
        for flags in (
            posix.O_RDONLY | posix.O_NONBLOCK,
            posix.O_PATH,
        ):  # not every program may be read
            try:
                return _open_below(root, path, flags)
            except OSError:
                continue
        return None
    finally:
        posix.close(root)


def _is_refused(pid: int, path: str, flags: int, *, follows: bool) -> bool:
    """Whether a read-only file system refuses to open, make or change what a path leads to."""
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
    except OSError:  # the folder is not there, or closed to everybody
        return False
    finally:
        posix.close(root)


def _open_below(root: int, path: str, flags: int) -> int:
    """Open a path as a process does whose root this is: ``openat2``, which keeps links in it as well."""
    name = _buffer(path.encode("utf-8", "surrogateescape") + b"\0")
    how = _buffer(struct.pack("=QQQ", flags | posix.O_CLOEXEC, 0, _IN_ROOT))
    return _call(_OPENAT2, root, _ctypes.addressof(name), _ctypes.addressof(how), 24)
