"""Landlock: the weaker mechanism of isolation, for machines without user namespaces.

The kernel checks which files a process opens. Hidden files are refused rather than invisible, and a
writable folder is writable with everything in it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import struct
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from forge_cli.core.errors import ToolError
from forge_cli.sandbox.isolation import enter
from forge_cli.sandbox.isolation.confinement import CommandReach, Reach, ReachRule
from forge_cli.sandbox.isolation.protected_scan import open_exactly
from forge_cli.sandbox.isolation.seccomp import seccomp_filter
from forge_cli.sandbox.processes.command import Command

_ROOT = Path("/")
_BOUND = (Reach.HIDDEN, Reach.PRIVATE, Reach.SHOWN, Reach.READ, Reach.WRITE)
"""The reaches it can enforce; the others are about links and single names in writable folders."""
_CREATE_RULESET = 444
_ADD_RULE = 445
_VERSION = 1
_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
_REFER, _TRUNCATE, _IOCTL = (1 << bit for bit in (13, 14, 15))
_CHAR = 1 << 6
_BLOCK = 1 << 11
_ALL_OF_FIRST = (1 << 13) - 1
_SINCE = {2: _REFER, 3: _TRUNCATE, 5: _IOCTL}
"""The rights added by later versions of the interface."""
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_WRITE = (_ALL_OF_FIRST | _REFER | _TRUNCATE) & ~(_READ | _CHAR | _BLOCK)
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_TCP = 0b11
_SCOPES = 0b11
_NETWORK = 4
"""The first version with rules for TCP."""
_SCOPED = 6
"""The first version that restricts signals and abstract sockets."""

_DEVICES = tuple(
    Path("/dev", name) for name in ("null", "zero", "full", "random", "urandom", "tty")
)


class PathGrant(Struct, frozen=True):
    """A path that may be used with everything below it."""

    path: Path
    write: bool
    named: bool
    """True if a rule names this very path, and not a folder around it."""


def path_grants(rules: Iterable[ReachRule]) -> list[PathGrant]:
    """Return the paths to grant for reading and writing; without a rule, the host is readable."""
    reaches = {rule.path: rule.reach for rule in rules if rule.reach in _BOUND}
    tree = _Tree({_ROOT: Reach.READ, **reaches})
    read = tree.allowed(lambda reach: reach >= Reach.SHOWN, write=False)
    return [*read, *tree.allowed(lambda reach: reach is Reach.WRITE, write=True)]


class _Tree:
    def __init__(self, reaches: dict[Path, Reach]) -> None:
        self._reaches = reaches
        self._ways: dict[Path, set[Path]] = {}
        """For each folder around a rule's path, the entries that lead there."""
        for path in reaches:
            for entry, folder in zip((path, *path.parents), path.parents, strict=False):
                self._ways.setdefault(folder, set()).add(entry)

    def allowed(self, allows: Callable[[Reach], bool], *, write: bool) -> Iterator[PathGrant]:
        waiting = [(_ROOT, self._reaches[_ROOT])]
        while waiting:
            path, around = waiting.pop()
            reach = self._reaches.get(path, around)
            if self._is_alike(path, allows, allows(reach)):
                if allows(reach):
                    yield PathGrant(path, write, named=path in self._reaches)
                continue
            inside = set(self._ways[path])
            if allows(reach):
                inside.update(_entries(path))
            waiting += [(entry, reach) for entry in inside]

    def _is_alike(self, path: Path, allows: Callable[[Reach], bool], allowed: bool) -> bool:
        """Return True if all rules below a path allow the same."""
        return all(
            (entry not in self._reaches or allows(self._reaches[entry]) is allowed)
            and self._is_alike(entry, allows, allowed)
            for entry in self._ways.get(path, ())
        )


def _entries(folder: Path) -> Iterator[Path]:
    """Yield the entries of a folder except links, whose targets have rules of their own."""
    with suppress(OSError), os.scandir(folder) as entries:
        yield from (folder / entry.name for entry in entries if not entry.is_symlink())


@cache
def landlock_version() -> int:
    """Return the version of the interface in this kernel; 0 if it is missing or disabled."""
    if sys.platform != "linux":
        return 0
    try:
        return max(0, _syscall(_CREATE_RULESET, None, 0, _VERSION))
    except OSError:
        return 0


class Landlock(Struct, frozen=True):
    """Starts commands through a small program that gives up rights and becomes the command.

    Sockets of daemons are refused even if one is named: a filter that allows one would allow all.
    """

    version: int
    name: ClassVar[str] = "Landlock"
    own_network: ClassVar[bool] = False
    shows_names: ClassVar[bool] = False

    @property
    def weakness(self) -> str:
        """The promises of bwrap that Landlock does not keep."""
        weakness = "protected names in zones, and modes and times of files, can be changed"
        if self.version < _SCOPED:
            weakness += ", other processes be signalled"
        return weakness

    @contextmanager
    def wrap(self, argv: Sequence[str], cwd: Path, reach: CommandReach) -> Iterator[Command]:
        filters = seccomp_filter(
            internet=reach.network, namespaces=False, truncate=self.version >= 3
        )
        if filters is None:
            raise ToolError("nothing was started: forge has no system call filter for this machine")
        # Landlock cannot mount a folder as /tmp, so that commands get its real path.
        shared = next(
            (rule.source for rule in reach.rules if rule.reach is Reach.PRIVATE and rule.source),
            None,
        )
        folder = shared or Path(os.path.realpath(tempfile.mkdtemp(prefix="forge-")))
        try:
            with ExitStack() as opened:
                ruleset = self._ruleset(
                    (*reach.rules, *_own(folder)), opened, network=reach.network
                )
                program = os.memfd_create("seccomp")
                opened.callback(os.close, program)
                os.pwrite(program, filters, 0)
                helper = (
                    sys.executable,
                    "-I",
                    "-S",
                    str(enter.__file__),
                    str(ruleset),
                    str(program),
                    str(folder),
                )
                yield Command(
                    (*helper, *argv), (ruleset, program), folder=None if shared else folder
                )
        except BaseException:
            if shared is None:
                shutil.rmtree(folder, ignore_errors=True)
            raise

    def _ruleset(self, rules: Iterable[ReachRule], opened: ExitStack, *, network: bool) -> int:
        later = sum(right for version, right in _SINCE.items() if version <= self.version)
        handled = _ALL_OF_FIRST | later
        numbers = [handled]
        if self.version >= _NETWORK:
            # A right that is handled, and that no rule allows, is refused.
            numbers.append(0 if network else _TCP)
        if self.version >= _SCOPED:
            numbers.append(_SCOPES)
        attributes = struct.pack(f"={len(numbers)}Q", *numbers)
        ruleset = _syscall(_CREATE_RULESET, attributes, len(attributes), 0)
        opened.callback(os.close, ruleset)
        named = list(rules)
        for rule in named:
            if rule.reach in (Reach.SHOWN, Reach.READ, Reach.WRITE):
                # Raise an error if it is a link now, even without a grant of its own.
                os.close(open_exactly(rule.path))
        for grant in path_grants(named):
            _allow(ruleset, grant, handled)
        return ruleset


def _own(folder: Path) -> Iterator[ReachRule]:
    """Yield rules of every command: its folder for temporary files, and harmless devices."""
    yield ReachRule(folder, Reach.WRITE)
    yield ReachRule(Path("/dev"), Reach.HIDDEN)
    yield from (ReachRule(path, Reach.WRITE) for path in _DEVICES if path.exists())


def _allow(ruleset: int, grant: PathGrant, handled: int) -> None:
    """Add the rule for a grant; a path that is gone is skipped unless a rule names it."""
    try:
        place = open_exactly(grant.path)
    except ToolError:
        if grant.named:
            raise
        return
    try:
        rights = (_READ | _WRITE if grant.write else _READ) & handled
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            # The kernel refuses a rule that gives a file the rights of a folder.
            rights &= _ON_FILES
        _syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, place), 0)
    except OSError:
        if grant.named:
            raise
    finally:
        os.close(place)


def _syscall(number: int, *arguments: int | bytes | None) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    # The C library has no functions for Landlock.
    found = libc.syscall(
        *(ctypes.c_long(each) if isinstance(each, int) else each for each in (number, *arguments))
    )
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(found)
