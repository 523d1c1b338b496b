"""What tests of processes need: a way to be told that one has come so far, and a look at who is still there."""

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
    """A named pipe: somebody writes to it, and the test goes on."""

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
    """A child of ours that nobody but its starter has to do with."""
    process = subprocess.Popen(
        words or ("sleep", "300"), stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def tag() -> str:
    """Seconds for ``sleep`` that no other process sleeps, by which it is found again."""
    return f"300.{random.randrange(10**12):012}"


def sleepers(tag: str) -> list[int]:
    """The living processes whose command line names the tag."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and tag.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def children() -> list[int]:
    """Our own children, dead or alive, but for those that serve other tests."""
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
    """Wait for dead children that nobody can know as theirs, such as those of a process that was killed."""
    for pid in children():
        os.waitpid(pid, 0)


def reap_orphans() -> None:
    """Let go of the dead that this process has adopted, as it does once any of its tests has confined a command."""
    for pid in children():
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def descriptors() -> list[str]:
    """What this process has open, but for the look at it."""
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
"""Ways in which a process leaves those that started it behind."""


def escape(name: str, opened: Gate, sleeping: str) -> str:
    """A line whose background process says that it is out, and then sleeps."""
    return ESCAPES[name].format(inner=f"echo out >{opened.path}; exec sleep {sleeping}") + "\n"


async def time_out_after_first_output(child: Child) -> Finished:
    """Let the time limit of a command pass as soon as it has printed something, however slowly it started."""
    with anyio.fail_after(60):
        await child.wait_for_output()
        await child.expire(0.1)
    return child.finished()
