"""Bubblewrap: isolation by namespaces with the program ``bwrap``."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from forge_cli.sandbox.isolation.confinement import CommandReach, Reach, ReachRule
from forge_cli.sandbox.isolation.protected_scan import open_exactly
from forge_cli.sandbox.isolation.seccomp import seccomp_filter
from forge_cli.sandbox.processes.command import Command

LATE = "late:"
"""The prefix of a path that the starter of ``bwrap`` opens, because it is mounted only then."""
# In a user namespace of its own, a command would have all capabilities again.
_ALONE = ("--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-ipc", "--unshare-uts")
# A new session has no terminal into which a command could type (TIOCSTI).
_POWERLESS = ("--cap-drop", "ALL", "--new-session", "--die-with-parent", "--unsetenv", "TMPDIR")
_HOST = ("--ro-bind", "/", "/")
_KERNEL = ("--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc")


class Bubblewrap(Struct, frozen=True):
    """Run commands in namespaces of their own, with as few rights of root as possible.

    They have no capabilities, or root could mount its way out. ``/proc`` is read-only, because the
    files in ``/proc/sys`` check only the user ID, and some name programs that the host's kernel
    starts. The command ends with ``bwrap``, and everything it started ends with the command.
    """

    program: str
    shows_names: bool = True
    name: ClassVar[str] = "bwrap"
    weakness: ClassVar[str | None] = None
    own_network: ClassVar[bool] = True

    @contextmanager
    def wrap(self, argv: Sequence[str], cwd: Path, reach: CommandReach) -> Iterator[Command]:
        alone = _ALONE if reach.network else (*_ALONE, "--unshare-net")
        with ExitStack() as opened:
            mounts = _Mounts(
                opened, reach.room, adds_names=any(rule.seen_as for rule in reach.rules)
            )
            for rule in reach.rules:
                mounts.add(rule)
            # bwrap fails if the working directory is missing from the new root.
            folder = os.path.realpath(cwd)
            filters = mounts.filter(sockets=reach.sockets)
            # A hidden working directory still exists for the command, but it is empty.
            host = _host_by_parts(mounts.emptied) if mounts.adds_names else _HOST
            seen = (*host, *_KERNEL, *mounts.options, "--dir", folder, *mounts.last)
            command = (
                self.program,
                *alone,
                *_POWERLESS,
                *filters,
                *seen,
                "--chdir",
                folder,
                "--",
                *argv,
            )
            yield Command(command, mounts.descriptors, contained=True)


def _host_by_parts(emptied: Collection[str]) -> list[str]:
    """Return options that mount each entry of ``/``, so that more names can be added to the root.

    The folders in ``emptied`` exist, but are empty.
    """
    options: list[str] = []
    with os.scandir("/") as found:
        for entry in sorted(found, key=lambda entry: entry.name):
            if entry.path in emptied:
                options += ["--dir", entry.path]
            elif entry.is_symlink():
                options += ["--symlink", os.readlink(entry.path), entry.path]
            elif os.access(entry.path, os.F_OK):
                options += ["--ro-bind", entry.path, entry.path]
    return options


class _Mounts:
    """Mount options for the rules; later ones cover earlier ones.

    Every path is opened first and must be exactly the rule's path. Otherwise ``bwrap`` would follow
    a link that someone put in its place, and mount what the rule should hide.
    """

    def __init__(self, opened: ExitStack, room: int | None, *, adds_names: bool) -> None:
        self.options: list[str] = []
        self.last: list[str] = ["--remount-ro", "/"] if adds_names else []
        self.adds_names = adds_names
        self.emptied: set[str] = set()
        """Entries of ``/`` that are hidden because they are not mounted at all."""
        self._named: list[str] = []
        self.descriptors: list[int] = []
        self._opened = opened
        self._size = [] if room is None else ["--size", str(room)]

    def filter(self, *, sockets: bool) -> list[str]:
        program = seccomp_filter(unix_sockets=sockets)
        if program is None:
            return []
        # bwrap reads the filter from a descriptor; memory leaves no file behind.
        descriptor = os.memfd_create("seccomp")
        self._keep(descriptor)
        os.pwrite(descriptor, program, 0)
        return ["--seccomp", str(descriptor)]

    def add(self, rule: ReachRule) -> None:
        path = str(rule.seen_as or rule.path)
        match rule.reach:
            case Reach.PRIVATE if rule.source is None:
                self.options += [*self._size, "--tmpfs", path]
            case Reach.HIDDEN if self._can_be_left_out(path) and rule.path.is_dir():
                self.emptied.add(path)
            case Reach.HIDDEN if rule.path.is_dir():
                self.options += ["--tmpfs", path]
                self.last += ["--remount-ro", path]
            case Reach.HIDDEN:
                self.options += ["--ro-bind-data", self._open(os.devnull, os.O_RDONLY), path]
            case Reach.LINKED:
                self.options += ["--symlink", os.readlink(rule.path), path]
            case Reach.PRIVATE:
                self.options += ["--bind-fd", self._exactly(rule), path]
            case Reach.WRITE | Reach.PINNED:
                late = rule.source and f"{LATE}{rule.source}"
                self.options += ["--bind-fd", late or self._exactly(rule), path]
            case Reach.SHOWN | Reach.READ | Reach.PROTECTED:
                self.options += ["--ro-bind-fd", self._exactly(rule), path]
        self._named.append(path)

    def _can_be_left_out(self, path: str) -> bool:
        """Return True for an entry of ``/`` without mounts inside; each saved mount saves time."""
        return (
            self.adds_names
            and os.path.dirname(path) == "/"
            and not any(name.startswith(f"{path}/") for name in self._named)
        )

    def _exactly(self, rule: ReachRule) -> str:
        descriptor = open_exactly(rule.source or rule.path)
        self._keep(descriptor)
        return str(descriptor)

    def _open(self, path: str, flags: int) -> str:
        descriptor = os.open(path, flags | os.O_CLOEXEC)
        self._keep(descriptor)
        return str(descriptor)

    def _keep(self, descriptor: int) -> None:
        self._opened.callback(os.close, descriptor)
        self.descriptors.append(descriptor)
