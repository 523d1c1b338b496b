"""Paths of control sockets, and a check of who is at the other end of one."""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from forge_cli.core.errors import ForgeError
from forge_cli.files.home import forge_home, make_private
from forge_cli.record.proof import make_proof

SOCKET = ".sock"
MAX_PATH = 100
"""Bytes of a path that every system accepts for a socket."""
_LOCAL_PEERCRED = 1
"""The option of macOS for the user at the other end; its level is 0."""


def run_folder() -> Path:
    """Return the folder for files of running sessions."""
    return forge_home() / "run"


def socket_file(log: Path) -> Path:
    """Return the control socket of a session."""
    return run_folder() / f"{log.stem}{SOCKET}"


def bind_socket(file: Path) -> socket.socket:
    """Return a socket that listens at a path, which only this user can connect to.

    A socket that a killed process left there is replaced. The caller has the lock of the session.
    """
    make_private(file.parent)
    with suppress(FileNotFoundError):
        file.unlink()
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short_path(file) as path:
            listening.bind(path)
        file.chmod(0o600)
        listening.listen()
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening


def connect_socket(file: Path, timeout: float) -> socket.socket:
    """Return a connection to the control socket at a path; raise OSError if there is none.

    A socket of another user counts as none.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        with _short_path(file) as path:
            connection.connect(path)
        if user_of_peer(connection) != os.getuid():
            raise PermissionError("the socket belongs to another user")
    except BaseException:
        connection.close()
        raise
    return connection


def user_of_peer(connection: socket.socket) -> int:
    """Return the user of the process at the other end, as the system knows it."""
    if sys.platform == "darwin":
        # struct xucred: a version, the user, and groups
        found = connection.getsockopt(0, _LOCAL_PEERCRED, 76)
        return int(struct.unpack_from("=II", found)[1])
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", found)[1])


def prove_client(nonce: str, session: str) -> str:
    """Return the proof that a client can read the user's key.

    A confined command of the same user can connect to the socket, but it cannot read the key.
    """
    return make_proof(f"control {session} {nonce}")


@contextmanager
def _short_path(file: Path) -> Iterator[str]:
    """Yield a path to a socket that is short enough for the system."""
    path = os.fspath(file)
    if len(os.fsencode(path)) <= MAX_PATH:
        yield path
        return
    if sys.platform != "linux":
        raise ForgeError(
            f"{path}: too long for a socket", hint="set FORGE_HOME to a folder with a shorter path"
        )
    folder = os.open(file.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{file.name}"
    finally:
        os.close(folder)
