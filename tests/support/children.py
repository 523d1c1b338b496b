"""Helpers for tests of processes: signals from a process, and a list of running children."""

import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio

from forge_cli.core.processes import Finished
from forge_cli.sandbox.processes.child import Child


@dataclass(frozen=True)
class Gate:
    """A named pipe that a process opens to let the test continue."""

    path: Path
    descriptor: int

    async def opened(self) -> str:
        with anyio.fail_after(60):
            await anyio.wait_readable(self.descriptor)
        return os.read(self.descriptor, 4096).decode()


@contextmanager
def gate(folder: Path) -> Iterator[Gate]:
    path = folder / f"gate{random.randrange(10**9)}"
    os.mkfifo(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield Gate(path, descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def stranger(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a child process that forge does not manage."""
    process = subprocess.Popen(
        words or ("sleep", "300"), stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def tag() -> str:
    """Return a unique number of seconds for ``sleep``, to find the process again."""
    return f"300.{random.randrange(10**12):012}"


def sleepers(tag: str) -> list[int]:
    """Return the running processes whose command line contains the tag."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and tag.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def children() -> list[int]:
    """Return the children of this process, dead or alive, except those that serve other tests."""
    found = []
    for thread in os.listdir("/proc/self/task"):
        with suppress(OSError):  # a thread may have ended meanwhile
            found += [
                int(pid) for pid in Path(f"/proc/self/task/{thread}/children").read_text().split()
            ]
    return [pid for pid in found if b"warm.py" not in _command_line(pid)]


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def bury() -> None:
    """Wait for dead children that no test started, such as those of a killed process."""
    for pid in children():
        os.waitpid(pid, 0)


def reap_orphans() -> None:
    """Reap the dead processes that this one has adopted.

    It adopts orphans as soon as any of its tests has confined a command.
    """
    for pid in children():
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def descriptors() -> list[str]:
    """Return the open descriptors of this process."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            continue
    return sorted(found)


ESCAPES = {
    "stays in the session": "bash -c '{inner}' &",
    "setsid": "setsid bash -c '{inner}' &",
    "double fork": "( (setsid bash -c '{inner}' &) &)",
    "double setsid": "(setsid bash -c 'setsid bash -c \"{inner}\" &' &)",
    "env -i": "(env -i setsid bash -c 'bash -c \"{inner}\" &' &)",
    "env -i, no streams": "(env -i setsid bash -c '{inner}' </dev/null >/dev/null 2>&1 &)",
    "ignores SIGTERM": "(setsid bash -c 'trap \"\" TERM; {inner}' &)",
}
"""Ways in which a process detaches itself from those that started it."""


def escape(name: str, opened: Gate, sleeping: str) -> str:
    """Return a shell line whose background process reports that it has detached, and sleeps."""
    return ESCAPES[name].format(inner=f"echo out >{opened.path}; exec sleep {sleeping}") + "\n"


async def time_out_after_first_output(child: Child) -> Finished:
    """Expire the time limit of a command once it has printed something, however slowly it started."""
    with anyio.fail_after(60):
        await child.wait_for_output()
        await child.expire(0.1)
    return child.finished()
