"""Limits of a command with its children, and the control groups (cgroup v2) that enforce them."""

from __future__ import annotations

import os
import resource
import secrets
import shutil
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict, replace

_ROOT = Path("/sys/fs/cgroup")
_PREFIX = "forge-"
_COUNTS = frozenset({"memory", "pids"})
_KEEPERS = 2
"""Processes that only keep the namespaces of a command."""
_THREADS = 8
"""Threads allowed for each process: the kernel counts threads, while the limit is on processes."""
_SETTING = threading.Lock()
_PAGE = os.sysconf("SC_PAGE_SIZE")
_KILOBYTE = 1024


class ControlGroup:
    """The control group of one command."""

    def __init__(self, folder: Path, limits: ProcessLimits, *, contained: bool) -> None:
        self._folder = folder
        self._limits = limits
        self._keepers = _KEEPERS if contained else 0
        if limits.processes is not None:
            self._set("pids.max", _THREADS * (limits.processes + self._keepers))
        if limits.memory is not None:
            self._set("memory.max", limits.memory)
            # The kernel then ends the whole command instead of a random process.
            self._set("memory.oom.group", 1)
            # Not every kernel counts swap.
            with suppress(OSError):
                self._set("memory.swap.max", 0)

    def add(self, pid: int) -> None:
        """Add a process with its children; those it starts from now on are added by the kernel."""
        from forge_cli.sandbox.processes.tree import children_of

        self._set("cgroup.procs", pid)
        for child in children_of(pid):
            with suppress(ProcessLookupError):
                self.add(child)

    def exceeded(self) -> str | None:
        """Return which limit is, or was, exceeded, or None."""
        limits = self._limits
        if limits.processes is not None:
            count = len(self._read("cgroup.procs").split()) - self._keepers
            if count > limits.processes or self._happened("pids.events", "max"):
                return limits.too_many_processes
        if limits.memory is not None and self._happened("memory.events", "oom_kill"):
            return limits.too_much_memory
        return None

    def remove(self) -> None:
        """Remove the group, unless something of the command is left.

        Then ``remove_empty_groups`` removes it later.
        """
        with suppress(OSError):
            self._folder.rmdir()

    def _happened(self, file: str, name: str) -> bool:
        counts = dict(line.split() for line in self._read(file).splitlines())
        return counts.get(name, "0") != "0"

    def _read(self, name: str) -> str:
        try:
            return (self._folder / name).read_text()
        except OSError:
            return ""

    def _set(self, name: str, value: int) -> None:
        (self._folder / name).write_text(str(value))


def new_group(limits: ProcessLimits, *, contained: bool) -> ControlGroup | None:
    """Return a group for a command with limits, or None if forge may not make one."""
    around = groups_around()
    if around is None or (limits.processes is None and limits.memory is None):
        return None
    folder = around / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
    try:
        folder.mkdir()
        return ControlGroup(folder, limits, contained=contained)
    except OSError:
        with suppress(OSError):
            folder.rmdir()
        return None


def remove_empty_groups() -> None:
    """Remove groups of commands that have ended, including those of a killed forge."""
    if around := groups_around():
        for folder in around.glob(f"{_PREFIX}*"):
            with suppress(OSError):
                folder.rmdir()


@cache
def groups_around() -> Path | None:
    """Return the innermost group around this process in which forge may make others."""
    with suppress(OSError, StopIteration):
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        # "0::" begins the line of version 2.
        own = next(line for line in lines if line.startswith("0::"))
        here = _ROOT / own.removeprefix("0::").lstrip("/")
        inside = (folder for folder in (here, *here.parents) if folder.is_relative_to(_ROOT))
        return next(filter(_may_hold, inside), None)
    return None


def _may_hold(folder: Path) -> bool:
    try:
        counts = (folder / "cgroup.subtree_control").read_text().split()
    except OSError:
        return False
    return _COUNTS.issubset(counts) and all(
        os.access(path, os.W_OK) for path in (folder, folder / "cgroup.procs")
    )


class ProcessLimits(Struct, frozen=True):
    """The limits of one command; None means unlimited. Sizes are in bytes."""

    processes: int | None = None
    memory: int | None = None
    file_size: int | None = None

    def __or__(self, other: ProcessLimits) -> ProcessLimits:
        """Return these limits, filled up from the others."""
        stated = {name: value for name, value in asdict(self).items() if value is not None}
        return replace(other, **stated)

    def __and__(self, other: ProcessLimits) -> ProcessLimits:
        """Return the stricter of both for each limit."""
        found: dict[str, int | None] = {}
        for name, value in asdict(self | other).items():
            also = getattr(other | self, name)
            found[name] = None if value is None else min(value, also)
        return ProcessLimits(**found)

    def exceeded(self, pids: Iterable[int]) -> str | None:
        """Return which limit the processes exceed, or None; it examines no more than necessary."""
        seen: list[int] = []
        resident = 0
        for pid in pids:
            seen.append(pid)
            if self.processes is not None and len(seen) > self.processes:
                return self.too_many_processes
            resident += _resident(pid)
        # Counting shared memory properly is slow, so it happens only if the cheap sum is too large.
        if (
            self.memory is not None
            and resident > self.memory
            and sum(map(_own_memory, seen)) > self.memory
        ):
            return self.too_much_memory
        return None

    @property
    def too_many_processes(self) -> str:
        return f"it had more than {self.processes} processes (sandbox.limits.processes)"

    @property
    def too_much_memory(self) -> str:
        return f"it used more than {spell_size(self.memory or 0)} of memory (sandbox.limits.memory)"

    @contextmanager
    def of_files(self) -> Iterator[None]:
        """Start a process inside with the limit on file sizes; ``hold`` makes it permanent."""
        if self.file_size is None:
            yield
            return
        # A child inherits the limit, so that this process must have it for a moment.
        with _SETTING:
            own = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (_within(self.file_size, own[1]), own[1]))
            try:
                yield
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, own)

    def lasting(self, argv: Sequence[str]) -> Sequence[str]:
        """Return the argv of a program that sets the limit for good, then runs the command."""
        program = _setter()
        if self.file_size is None or program is None:
            return argv
        size = _within(self.file_size, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
        return program, f"--fsize={size}:{size}", *argv

    def hold(self, pid: int) -> None:
        """Keep a process and its children from lifting the limit that they inherited.

        A process may be faster: what must not escape is started by ``lasting``.
        """
        if self.file_size is None or not hasattr(resource, "prlimit"):
            return
        with suppress(OSError, ValueError):
            size = _within(self.file_size, resource.prlimit(pid, resource.RLIMIT_FSIZE)[1])
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, size))
        from forge_cli.sandbox.processes.tree import children_of

        for child in children_of(pid):
            self.hold(child)


DEFAULT_LIMITS = ProcessLimits(processes=512, memory=4 * 2**30, file_size=2 * 2**30)
NO_LIMITS = ProcessLimits()


def spell_size(size: int) -> str:
    """Return a size in the largest unit that divides it, such as ``4g``."""
    for shift, unit in ((40, "t"), (30, "g"), (20, "m"), (10, "k")):
        if size >> shift << shift == size and size:
            return f"{size >> shift}{unit}"
    return str(size)


@cache
def _setter() -> str | None:
    return shutil.which("prlimit", path=os.defpath)


def _within(size: int, hard: int) -> int:
    if hard == resource.RLIM_INFINITY:
        return size
    return min(size, hard)


def _resident(pid: int) -> int:
    """Return a cheap upper bound for the memory of a process, in bytes, including shared memory."""
    try:
        with open(f"/proc/{pid}/statm", "rb", buffering=0) as file:
            # The second number counts resident pages.
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def _own_memory(pid: int) -> int:
    """Return the private memory of a process with its share of shared memory, without files."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb", buffering=0) as file:
            # The first line is the range of addresses.
            lines = dict(line.split(b":", 1) for line in file.read().splitlines()[1:])
        return sum(int(lines[name].split()[0]) for name in (b"Pss_Anon", b"Pss_Shmem")) * _KILOBYTE
    except (OSError, KeyError):
        return _resident(pid)
