"""The program of a hook: pass the question to the resident gate, which is started if needed.

It runs before every call of a tool, so it imports as little as possible: ``socket`` alone takes as
long as Python's own start.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import binascii
import fcntl
import os
import sys

LIMIT = 25
"""Seconds for an answer; then this process is killed, and the hook's command line asks."""
SECRETS = ("KEY", "TOKEN", "SECRET", "PASSWORD")
MATTERS = ("HOME", "PATH", "XDG_CONFIG_HOME")
SENT = ("CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR", "CLAUDE_CODE_SHELL", "SHELL")
"""Environment variables that change how a tool works."""


def main(tool: str) -> int:
    """Answer the question on standard input, and return the exit code."""
    _signal.alarm(LIMIT)
    text = sys.stdin.buffer.read()
    try:
        reply = ask_resident(request_of(tool, text))
    except OSError:
        reply = b""
    code, parted, said = reply.partition(b"\0")
    if not parted:
        return answer_plainly(tool, text)
    out, _, err = said.partition(b"\0")
    sys.stdout.buffer.write(out)
    sys.stderr.buffer.write(err)
    return int(code)


def request_of(tool: str, text: bytes) -> bytes:
    """Return the request: the tool, its environment variables, an empty part, and the input."""
    named = [os.fsencode(f"{name}={os.environ[name]}") for name in SENT if name in os.environ]
    return b"\0".join([tool.encode(), *named, b"", text])


def ask_resident(request: bytes) -> bytes:
    """Return the answer of the resident gate; empty if the gate has just ended."""
    enter_folder()
    name = f"{identity():08x}.sock"
    gate = connect(name) or start(name)
    if not is_ours(gate):
        return b""
    gate.sendall(request)
    gate.shutdown(_socket.SHUT_WR)
    pieces = []
    while piece := gate.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)


def enter_folder() -> None:
    """Change to the private folder of the sockets, because the path of a socket has to be short."""
    folder = os.path.join(os.path.expanduser(os.environ.get("FORGE_HOME") or "~/.forge"), "guard")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    found = os.lstat(folder)
    if found.st_uid != os.geteuid() or found.st_mode & 0o77:
        raise PermissionError(f"{folder} is not a private folder of this user")
    os.chdir(folder)


def identity() -> int:
    """Return a number that changes with everything that requires another resident gate."""
    counts = []
    for name, value in sorted(os.environ.items()):
        # A gate redacts the secrets of the environment that it was started in.
        is_secret = any(word in name for word in SECRETS)
        if is_secret or name in MATTERS or name.startswith("FORGE_"):
            counts.append(f"{name}={value}")
    counts += [sys.executable, sys.version, str(os.stat(__file__).st_mtime_ns)]
    library = os.path.join(
        os.path.dirname(os.path.dirname(sys.executable)),
        "lib",
        "python{}.{}".format(*sys.version_info),
        "site-packages",
    )
    # An installation changes the time of the folder.
    if os.path.isdir(library):
        counts.append(str(os.stat(library).st_mtime_ns))
    return binascii.crc32("\0".join(counts).encode("utf-8", "surrogateescape"))


def connect(name: str) -> "_socket.socket | None":
    """Connect to the resident gate; return None if it is not running."""
    gate = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        gate.connect(name)
    except (FileNotFoundError, ConnectionRefusedError):
        gate.close()
        return None
    return gate


def start(name: str) -> "_socket.socket":
    """Start a resident gate with a listening socket, and connect to it."""
    lock = os.open("lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Another hook may have started it before this one got the lock.
        if gate := connect(name):
            return gate
        # A gate that was killed leaves its socket.
        if os.path.lexists(name):
            os.unlink(name)
        listening = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        listening.bind(name)
        listening.listen(64)
        run("forge_guard.resident", name, standard=(listening.fileno(), None, "log"))
        gate = connect(name)
        listening.close()
    finally:
        os.close(lock)
    if gate is None:
        raise ConnectionError("the resident gate ended at its start")
    return gate


def run(
    module: str, *args: str, standard: "tuple[int | None, int | None, str | int | None]"
) -> int:
    """Start a module with these standard streams, None for no stream; return the process ID."""
    actions: list[tuple[object, ...]] = []
    for number, stream in enumerate(standard):
        if isinstance(stream, int):
            actions.append((os.POSIX_SPAWN_DUP2, stream, number))
        else:
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC if stream else os.O_RDWR
            actions.append((os.POSIX_SPAWN_OPEN, number, stream or os.devnull, flags, 0o600))
    # -P, because the current folder belongs to the project, whose modules must not be imported.
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-P", "-m", module, *args],
        os.environ,
        file_actions=actions,
    )


def is_ours(gate: "_socket.socket") -> bool:
    """Return True if the other end belongs to this user.

    On a system that does not report it, only the permissions of the folder protect the socket.
    """
    if not hasattr(_socket, "SO_PEERCRED"):
        return True
    # The process, the user and the group, each of 4 bytes.
    found = gate.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    return int.from_bytes(found[4:8], sys.byteorder) == os.geteuid()


def answer_plainly(tool: str, text: bytes) -> int:
    """Answer without a resident gate, by a forge process for this question only."""
    reading, writing = os.pipe()
    child = run("forge_guard.plain", tool, standard=(reading, 1, 2))
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(text)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
