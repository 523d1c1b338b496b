"""Limits of a command, with all that it starts, and the control groups (cgroup v2) by which the kernel counts them."""

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
"""The processes that keep the namespaces of a command."""
_THREADS = 8
"""The kernel counts threads, a limit processes: so many each, and it is only the wall between two looks."""
_SETTING = threading.Lock()
_PAGE = os.sysconf("SC_PAGE_SIZE")
_KILOBYTE = 1024


class ControlGroup:
    """The group of one command."""

    def __init__(self, folder: Path, limits: ProcessLimits, *, contained: bool) -> None:
        self._folder = folder
        self._limits = limits
        self._keepers = _KEEPERS if contained else 0
        if limits.processes is not None:
            self._set("pids.max", _THREADS * (limits.processes + self._keepers))
        if limits.memory is not None:
            self._set("memory.max", limits.memory)
            self._set("memory.oom.group", 1)
            with suppress(OSError):
                self._set("memory.swap.max", 0)

    def add(self, pid: int) -> None:
        """Take a process in, with what it has started meanwhile; what it starts from now on is in already."""
        from forge_cli.sandbox.processes.tree import children_of

        self._set("cgroup.procs", pid)
        for child in children_of(pid):
            with suppress(ProcessLookupError):
                self.add(child)

    def exceeded(self) -> str | None:
        """The limit that is, or was, exceeded, in the same sentences as without a group."""
        limits = self._limits
        if limits.processes is not None:
            count = len(self._read("cgroup.procs").split()) - self._keepers
            if count > limits.processes or self._happened("pids.events", "max"):
                return limits.too_many_processes
        if limits.memory is not None and self._happened("memory.events", "oom_kill"):
            return limits.too_much_memory
        return None

    def remove(self) -> None:
        """Remove it, unless something of the command is left; then ``remove_empty_groups`` does, later."""
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
    """A group for a command with limits; None where forge may make none."""
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
    """Remove what is left of commands that have ended, also of a forge that was killed; one in use stays."""
    if around := groups_around():
        for folder in around.glob(f"{_PREFIX}*"):
            with suppress(OSError):
                folder.rmdir()


@cache
def groups_around() -> Path | None:
    """The innermost group around this process in which forge may make others; looked for once."""
    with suppress(OSError, StopIteration):
        own = next(
            line
            for line in Path("/proc/self/cgroup").read_text().splitlines()
            if line.startswith("0::")
        )
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
        """These, and the others where these say nothing."""
        return replace(
            other, **{name: value for name, value in asdict(self).items() if value is not None}
        )

    def __and__(self, other: ProcessLimits) -> ProcessLimits:
        """The stricter of both."""
        these, those = asdict(self | other), asdict(other | self)
        return ProcessLimits(
            **{name: value and min(value, those[name]) for name, value in these.items()}
        )

    def exceeded(self, pids: Iterable[int]) -> str | None:
        """The limit that is exceeded, as a sentence; it looks no further than it must."""
        seen: list[int] = []
        resident = 0
        for pid in pids:
            seen.append(pid)
            if self.processes is not None and len(seen) > self.processes:
                return self.too_many_processes
            resident += _resident(pid)
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
        """Let the process that is started inside be born with the limit on its files; ``hold`` makes it lasting."""
        if self.file_size is None:
            yield
            return
        with _SETTING:
            own = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (_within(self.file_size, own[1]), own[1]))
            try:
                yield
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, own)

    def lasting(self, argv: Sequence[str]) -> Sequence[str]:
        """The command behind a program that makes the limit on its files impossible to lift, before it begins."""
        program = _setter()
        if self.file_size is None or program is None:
            return argv
        size = _within(self.file_size, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
        return program, f"--fsize={size}:{size}", *argv

    def hold(self, pid: int) -> None:
        """Keep a process, and what it has started meanwhile, from lifting the limit that it was born with.

        One that is quick enough has lifted it before: what must not is started by ``lasting``.
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
    """A size in the largest unit that it is a whole number of: ``4g``."""
    for shift, unit in ((40, "t"), (30, "g"), (20, "m"), (10, "k")):
        if size >> shift << shift == size and size:
            return f"{size >> shift}{unit}"
    return str(size)


@cache
def _setter() -> str | None:
    return shutil.which("prlimit", path=os.defpath)


def _within(size: int, hard: int) -> int:
    return size if hard == resource.RLIM_INFINITY else min(size, hard)


def _resident(pid: int) -> int:
    """Bytes of a process that are in memory, with those that it shares with others: never too few, and cheap."""
    try:
        with open(f"/proc/{pid}/statm", "rb", buffering=0) as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def _own_memory(pid: int) -> int:
    """Bytes that a process has for itself, and its share of those that several have; files do not count."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb", buffering=0) as file:
            lines = dict(line.split(b":", 1) for line in file.read().splitlines()[1:])
        return sum(int(lines[name].split()[0]) for name in (b"Pss_Anon", b"Pss_Shmem")) * _KILOBYTE
    except (OSError, KeyError):
        return _resident(pid)
