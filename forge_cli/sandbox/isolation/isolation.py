"""Isolation: whether child processes are confined, and by which mechanism of this machine."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.errors import Mark, ToolError, WorkerError
from forge_cli.core.notify import COMMANDS
from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.sandbox.isolation.confinement import (
    CommandReach,
    Confinement,
    KeptHooks,
    Reach,
    ReachRule,
)
from forge_cli.sandbox.isolation.kept_files import KeptFiles
from forge_cli.sandbox.isolation.protected_scan import set_aside, with_folders
from forge_cli.sandbox.processes.command import Command
from forge_cli.sandbox.processes.inherited import inherited_confinement
from forge_cli.sandbox.processes.tree import ProcessTree, adopt_orphans, mark_children, new_mark
from forge_cli.sandbox.zones.zones import IsolationLevel

if TYPE_CHECKING:
    from forge_cli.sandbox.isolation.temporary import TemporaryFolder
    from forge_cli.sandbox.network.proxy import NetworkProxy

# The files and the output show the outcome: some of these steps are meant to fail.
_TRY = 'echo > "$1/inside/file"; echo > "$1/outside/file"; cat "$1/hidden/file"; exit 0'
_SECRET = "secret"  # noqa: S105
_TIMEOUT = 10
_PROBE = "forge-probe-"
_SHORTAGES = (errno.ENFILE, errno.EMFILE, errno.ENOMEM, errno.EAGAIN)
"""Errors of a busy machine, which tell nothing about a mechanism."""


class Mechanism(Protocol):
    """A way to confine a command; each machine may offer others."""

    @property
    def name(self) -> str: ...

    @property
    def own_network(self) -> bool:
        """Return True if a command without the network has its own, in which a proxy can listen."""
        ...

    @property
    def shows_names(self) -> bool:
        """Return True if a command finds zones under their virtual names."""
        ...

    @property
    def weakness(self) -> str | None:
        """The promise of isolation that it does not keep, or None."""
        ...

    def wrap(
        self, argv: Sequence[str], cwd: Path, reach: CommandReach
    ) -> AbstractContextManager[Command]:
        """Return a context with the command that runs ``argv`` confined."""
        ...


class Confined(Struct, frozen=True):
    """Starts an argv confined, by a mechanism of this machine."""

    mechanism: Mechanism
    confinement: Confinement
    readable: tuple[Path, ...] = ()
    """Hidden paths that can be read."""
    writable: tuple[Path, ...] = ()
    """Protected folders that can be written, except for hooks and settings in them."""
    hooks: KeptHooks | None = None
    """The hooks in writable folders, restored afterwards."""
    names: tuple[str, ...] | None = None
    """Protected names, if they have been looked up; then new ones are reported."""
    seen: frozenset[tuple[str, int]] = frozenset()
    """The same names with the inode numbers of their folders, to detect moved folders."""
    accepts: Callable[[str], bool] | None = None
    """Returns True if a protected name may stay; the others are renamed."""
    tell: Callable[[str, Sequence[str]], None] | None = None
    """Callback for a report of what a command did to which files."""
    kept: KeptFiles | None = None
    """The files it must not change, if the mechanism cannot protect them."""
    writes: Callable[[str], bool] | None = None
    """Returns True if an approved call, and not the command, has written a file."""
    shared: tuple[Path, ...] = ()
    """Pipes that it can use wherever they are."""
    proxy: NetworkProxy | None = None
    """The proxy for a network with only some names open."""
    place: Callable[[ReachRule], ReachRule] | None = None
    """Replaces a rule, for example with a copy."""
    covers: tuple[ReachRule, ...] = ()
    """Mounts over all others."""
    temporary: TemporaryFolder | None = None
    """The folder behind ``/tmp``, whose size is checked while a command runs."""
    shows_sockets: bool = False
    """True if another process sees the unix sockets it makes, and refuses them."""
    confined: ClassVar[bool] = True

    @property
    def opens_sockets(self) -> bool:
        """Return True if commands may use a unix socket, as the kernel then allows any."""
        return any(path.is_socket() for path in (*self.readable, *self.confinement.shown))

    def exceeded(self) -> str | None:
        if self.temporary:
            return self.temporary.exceeded()
        return None

    def end_excess(self) -> None:
        if self.temporary:
            self.temporary.empty()

    def appeared(self) -> list[str]:
        """Return the protected names that are new, after renaming those that are not accepted.

        Hooks are restored.
        """
        found = self.hooks.restore() if self.hooks else []
        if self.names is not None:
            made = with_folders(self.confinement.names()) - self.seen
            found += map(self._settle, sorted(name for name, _ in made))
        if found and self.tell:
            self.tell("made protected names", found)
        return [*found, *self._put_back()]

    def _put_back(self) -> list[str]:
        if self.kept is None or self.writes is None:
            return []
        found = self.kept.restore(self.writes)
        if found and self.tell:
            self.tell("changed what it must not", found)
        return found

    def _settle(self, name: str) -> str:
        if self.accepts is None or self.accepts(name):
            return name
        if renamed := set_aside(Path(name)):
            return f"{name} (renamed to {renamed})"
        return name

    def __call__(self, argv: Sequence[str], cwd: Path) -> AbstractContextManager[Command]:
        if self.proxy is None:
            return self._confine(argv, cwd)
        return self._confine_behind(self.proxy, argv, cwd)

    @contextmanager
    def _confine_behind(
        self, proxy: NetworkProxy, argv: Sequence[str], cwd: Path
    ) -> Iterator[Command]:
        with (
            proxy.opened(argv) as (start, descriptor, companion),
            self._confine(start, cwd, proxy.readable) as command,
        ):
            yield replace(
                command, descriptors=(*command.descriptors, descriptor), companions=(companion,)
            )

    def _confine(
        self, argv: Sequence[str], cwd: Path, readable: Iterable[Path] = ()
    ) -> AbstractContextManager[Command]:
        rules = self.confinement.rules((*self.readable, *readable), self.writable, self.names)
        rules += self.covers
        if self.mechanism.shows_names:
            rules += self.confinement.rules_by_name(rules)
        rules += [ReachRule(path, Reach.WRITE) for path in self.shared]
        if self.place is not None:
            rules = [self.place(rule) for rule in rules]
        reach = CommandReach(
            rules=rules,
            network=self.confinement.network,
            sockets=self.opens_sockets or self.shows_sockets,
            room=self.confinement.room,
        )
        return self.mechanism.wrap(argv, cwd, reach)


def find_isolation(level: IsolationLevel, *, where: Mark | None = None) -> Mechanism | None:
    """Return the mechanism for a level.

    Raise a WorkerError if a required one is missing or weaker.
    """
    if level is IsolationLevel.OFF:
        return None
    found = best_mechanism()
    if level is IsolationLevel.REQUIRED and (found is None or found.weakness):
        message = f"isolation is required, and this machine has {_lack(found)}"
        raise WorkerError(
            where, message, hint="install bubblewrap (bwrap) 0.8 or newer, or use 'isolation: auto'"
        )
    return found


def _lack(found: Mechanism | None) -> str:
    if found is None:
        return "no working mechanism to confine processes"
    return f"no working mechanism but {found.name}, which is weaker: {found.weakness}"


@cache
def best_mechanism() -> Mechanism | None:
    """Return the strongest working mechanism of this machine, if any; it is tried only once."""
    return inherited_confinement() or next(filter(is_confining, available_mechanisms()), None)


def available_mechanisms() -> Iterator[Mechanism]:
    """Yield the mechanisms that this machine seems to have, the strongest first."""
    from forge_cli.sandbox.isolation.bubblewrap import Bubblewrap

    if program := shutil.which("bwrap", path=_absolute_path()):
        yield Bubblewrap(program)
        # Without names, the root is a single mount, which works on more machines.
        yield Bubblewrap(program, shows_names=False)
    from forge_cli.sandbox.isolation.landlock import Landlock, landlock_version

    if version := landlock_version():
        yield Landlock(version)


def describe_confinement(found: Mechanism | None) -> str:
    """Return the confinement of commands as one line for people."""
    if found is None:
        return f"{COMMANDS}not confined"
    if found.weakness:
        return f"{COMMANDS}confined, weaker ({found.name}: {found.weakness})"
    return f"{COMMANDS}confined ({found.name})"


def _absolute_path() -> str:
    """Return PATH without relative entries, where anyone may have put a ``bwrap``."""
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(filter(os.path.isabs, entries))


def is_confining(found: Mechanism) -> bool:
    """Try a mechanism: a write outside must fail, and one inside must work.

    A shortage of memory or processes is an error, since False would leave commands unconfined.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=_PROBE) as folder:
            return _confines(found, Path(os.path.realpath(folder)))
    except (OSError, ToolError, subprocess.SubprocessError) as error:
        for each in (error, error.__context__):  # a ToolError has the OSError as its context
            if isinstance(each, OSError) and each.errno in _SHORTAGES:
                raise _untried(found, each.errno) from None
        return False


def _untried(found: Mechanism, number: int) -> WorkerError:
    problem = f"cannot check whether {found.name} confines commands: {os.strerror(number)}"
    hint = "end other programs or raise the limits (ulimit -a), then try again"
    return WorkerError(None, problem, hint=hint)


def _confines(found: Mechanism, folder: Path) -> bool:
    inside, outside, hidden = (folder / name for name in ("inside", "outside", "hidden"))
    for place in (inside, outside, hidden):
        place.mkdir()
    (hidden / "file").write_text(_SECRET)
    zones = (Zone("around", folder), Zone("inside", inside, ZoneMode.RW))
    confinement = Confinement(zones=zones, workspace=inside, hidden=(hidden,))
    with Confined(found, confinement)(
        ["/bin/sh", "-c", _TRY, "sh", str(folder)], inside
    ) as command:
        code, output, problem = _try(command)
    if code:
        for number in _SHORTAGES:
            if os.strerror(number).encode() in problem:
                raise _untried(found, number)
    wrote = [(place / "file").exists() for place in (inside, outside)]
    return code == 0 and wrote == [True, False] and _SECRET.encode() not in output


def _try(command: Command) -> tuple[int, bytes, bytes]:
    adopt_orphans()
    mark = new_mark()
    with mark_children(mark):
        process = subprocess.Popen(
            command.argv,
            env={"PATH": os.defpath},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=command.descriptors,
            start_new_session=True,
        )
    try:
        with process:
            try:
                output, problem = process.communicate(timeout=_TIMEOUT)
            finally:
                process.kill()
    finally:
        # Processes that kept the namespaces become our children, and end just after the command.
        tree = ProcessTree(process.pid, mark)
        until = time.monotonic() + 1
        while tree.remains() and time.monotonic() < until:
            time.sleep(0.001)
        if command.folder is not None:
            shutil.rmtree(command.folder, ignore_errors=True)
    return process.returncode, output, problem
