"""Control groups (cgroup v2): what a command uses with all that it starts, bounded and counted by the kernel.

Only groups are made; no setting of a group that was there before is changed. So there has to be one around forge, in
which it may make others, that counts processes and memory for them: a subtree that was delegated, or root's.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from functools import cache
from pathlib import Path

from forge_cli.sandbox.processes.limits import ProcessLimits
from forge_cli.sandbox.processes.tree import children_of

_ROOT = Path("/sys/fs/cgroup")
_PREFIX = "forge-"
_COUNTS = frozenset({"memory", "pids"})
_KEEPERS = 2
"""The processes that keep the namespaces of a command."""
_THREADS = 8
"""The kernel counts threads, a limit processes: so many each, and it is only the wall between two looks."""


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
        own = next(line for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::"))
        here = _ROOT / own.removeprefix("0::").lstrip("/")
        inside = (folder for folder in (here, *here.parents) if folder.is_relative_to(_ROOT))
        return next(filter(_may_hold, inside), None)
    return None


def _may_hold(folder: Path) -> bool:
    try:
        counts = (folder / "cgroup.subtree_control").read_text().split()
    except OSError:
        return False
    return _COUNTS.issubset(counts) and all(os.access(path, os.W_OK) for path in (folder, folder / "cgroup.procs"))
