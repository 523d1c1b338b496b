"""The first program of a confined command: it opens the proxy's port and becomes the command.

It hands the port to forge, which keeps it although it is in the command's own network. This file
runs on its own, in a bare interpreter.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

BACKLOG = 128
NOT_STARTED = 127


def hand_over(descriptor: int, port: int) -> None:
    """Listen on the port, and send the listening socket through the inherited one."""
    with (
        socket.socket(fileno=descriptor) as forge,
        socket.create_server(("127.0.0.1", port), backlog=BACKLOG) as own,
    ):
        socket.send_fds(forge, [b"\0"], [own.fileno()])


def become(argv: list[str]) -> None:
    """Become the command, after undoing Python's changes of signals and environment."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    # Python may have set LC_CTYPE since it started (PEP 538).
    with open("/proc/self/environ", "rb") as given:
        entries = [entry.partition(b"=") for entry in given.read().split(b"\0")]
    try:
        os.execvpe(argv[0], argv, {name: value for name, sign, value in entries if sign})  # noqa: S606
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode(errors="surrogateescape"))
        os._exit(NOT_STARTED)


if __name__ == "__main__":
    hand_over(int(sys.argv[1]), int(sys.argv[2]))
    become(sys.argv[3:])
