"""A command on copies: started with an overlay over each writable zone, and reported afterwards."""

from __future__ import annotations

import marshal
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.errors import Stale, ToolError
from forge_cli.core.processes import OWN_SOCKET, Finished
from forge_cli.core.zones import ZoneMode
from forge_cli.sandbox.changes.apply import (
    ChangeSet,
    apply_changes,
    describe_os_error,
    is_begun,
    read_again,
    upper_folder,
)
from forge_cli.sandbox.changes.path_changes import (
    FOREVER,
    SCRATCH,
    PathChange,
    ReadUntil,
    UnknownChange,
    read_changes,
)
from forge_cli.sandbox.isolation.bubblewrap import LATE
from forge_cli.sandbox.isolation.confinement import Confinement, Reach, ReachRule
from forge_cli.sandbox.isolation.isolation import Confined
from forge_cli.sandbox.isolation.seccomp import seccomp_filter
from forge_cli.sandbox.isolation.temporary import TemporaryCopy
from forge_cli.sandbox.isolation.watching import watch_filter
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.processes.command import Command
from forge_cli.sandbox.trial import enter
from forge_cli.sandbox.trial.deletions import UnappliedDeletion
from forge_cli.sandbox.trial.watch import MAX_WORDS, MAX_WRITES

_REPORT = "report"
_START = "start"
_TIMEOUT = 30
_MAX_ATTEMPTS = 3
_WATCHED = "lambda plan: watch.Watch(plan, started.StartedPrograms(plan))"
_RUN = (
    "import sys; sys.path.append(sys.argv[1]); import enter, started, watch;"
    f" enter.run(int(sys.argv[2]), None, {_WATCHED})"
)
_RUN_WITHOUT_NETWORK = (
    "import sys; sys.path.append(sys.argv[1]); import enter, destinations, started, watch;"
    f" enter.run(int(sys.argv[2]), destinations.Destinations(), {_WATCHED})"
)
"""Imported modules are cached, while Python compiles its main program on every start."""


SocketState = Literal["there", "absent", "own", "unknown"]
"""Whether a wanted unix socket exists on this machine, or would have been the command's own."""


class Report(Struct, frozen=True):
    """The report of the first program of a command."""

    network: bool
    """It wanted the network."""
    exceeded: bool
    """It was stopped, because it wrote more bytes than it may."""
    reached: Sequence[str] = ()
    """Its destinations, as far as known: hosts, most of them with a port."""
    too_many: bool = False
    """It was stopped, because it made more files than it may."""
    ended_at_name: bool = False
    """It was ended, because it asked for the name of a host."""


class Reached(Struct, frozen=True):
    """What a command reached for and was refused, as the kernel reports it."""

    sockets: Sequence[tuple[str, SocketState]]
    """Refused unix sockets: a path, ``@`` with an abstract name, or an empty text if unknown.
    Those that the C library uses to look up users and hosts are left out."""
    addresses: Sequence[str]
    """Addresses with ports that it wanted to connect to, except those of this machine."""
    writes: Sequence[str]
    """The first 200 paths in read-only places that it wanted to change, without caches such as
    ``__pycache__``; only with ``writes``."""
    programs: Sequence[str]
    """Paths of the first 200 programs that it started; only with ``programs``."""
    commands: Sequence[Sequence[str]] = ()
    """The words of started programs with one of ``names`` in them, directly or through a link or
    script; only with ``programs``."""
    unlisted: bool = False
    """True if there were more commands than are kept."""

    def refused_writes(self, around: Confinement) -> list[str]:
        """Return the writes whose refusal may matter, without those in hidden folders.

        Programs keep logs and caches there by themselves, and continue if that fails.
        """
        zones = tuple(f"{zone.path}/" for zone in around.zones)
        hidden = tuple(f"{path}/" for path in (*around.homes, *around.hidden))
        found = [
            path for path in self.writes if path.startswith(zones) or not path.startswith(hidden)
        ]
        if len(self.writes) == MAX_WRITES:
            found.append(f"more than {MAX_WRITES} files")
        return found


class Copies:
    """Starts one command on copies of the zones, in a folder that keeps what it writes."""

    confined: ClassVar[bool] = True

    def __init__(
        self,
        folder: Path,
        wrap: Confined,
        *,
        network: bool = True,
        room: int | None = None,
        paths: int | None = None,
        writes: bool = False,
        programs: bool = False,
        names: frozenset[str] = frozenset(),
        ends_at_name: bool = False,
        temporary: TemporaryCopy | None = None,
    ) -> None:
        """Prepare the copies; nothing is made before the call."""
        self.folder = folder
        self.wrap = wrap
        self.network = network
        """True for the network that ``wrap`` gives, False for an empty one."""
        self.room = room
        """Bytes that it may write, with 4 KiB for each path."""
        self.paths = paths
        """Paths that it may make or change."""
        self.writes = writes
        """True if ``reached`` is to list attempted changes in read-only places."""
        self.programs = programs
        """True if ``reached`` is to list the started programs."""
        self.names = names
        """Names of programs, in lower case, whose words are also recorded."""
        self.ends_at_name = ends_at_name
        """True if the command is ended soon after asking for a host name, which fails without
        network."""
        self.temporary = temporary
        """The copy of the shared ``/tmp`` to work on; None for the shared one itself."""
        # Found before it runs, because deleting a whole zone is a change, too.
        self.zones = self._find_zones()
        """The writable zones; a zone inside another has a copy of its own."""

    @contextmanager
    def __call__(self, argv: Sequence[str], cwd: Path) -> Iterator[Command]:
        if is_begun(self.folder):
            raise ToolError(
                f"changes of the same line were cut off, and are still in {shown(str(self.folder))}"
            )
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for zone in self.zones:
            self._make_folders(zone)
        # If a zone is replaced meanwhile, its changes must not be applied to the new folder.
        roots = {str(zone): zone.stat().st_ino for zone in self.zones}
        (self.folder / _START).write_bytes(marshal.dumps(roots))
        with replace(self.wrap, place=self._on_copy)(argv, cwd) as command:
            opens: list[str] = []
            # Only options of the mechanism, before the command itself, have such paths.
            end = list(command.argv).index("--")
            # Descriptors of mounts exist only after the overlays, so that numbers stand for paths.
            inner: list[str | int] = list(command.argv)
            for at, item in enumerate(command.argv[:end]):
                if item.startswith(LATE):
                    inner[at] = len(opens)
                    opens.append(item.removeprefix(LATE))
            plan: dict[str, object] = {
                "mounts": bool(self.zones) or not self.network,
                "watch": self._watch(inner),
                "overlays": [
                    *(self._places(zone) for zone in self.zones),
                    *self._temporary_places(),
                ],
                "opens": opens,
                "argv": inner,
                "room": self.room,
                "paths": self.paths,
                "caches": list(SCRATCH),
                "ends_at_name": self.ends_at_name,
                "report": str(self.folder / _REPORT),
            }
            with _planned(plan, network=self.network) as (start, descriptor):
                yield replace(command, argv=start, descriptors=(*command.descriptors, descriptor))

    def _watch(self, argv: Sequence[str | int]) -> dict[str, object] | None:
        """Return the part of the plan for watching what the command reaches for.

        The filter of the mechanism refuses unix sockets. Only if they are watched does the first
        program remove that, because the kernel does not report calls that another filter refuses.
        """
        found = watch_filter(writes=self.writes, programs=self.programs)
        relaxed = seccomp_filter(unix_sockets=True)
        if found is None or relaxed is None or self.wrap.opens_sockets or "--seccomp" not in argv:
            return None
        return {
            "filter": found.program,
            "seccomp": found.seccomp,
            "calls": found.calls,
            "paths": found.paths,
            "program": argv[0],
            **self._wanted_programs(),
            "scratch": SCRATCH,
            "inner": (int(argv[argv.index("--seccomp") + 1]), relaxed),
        }

    def _wanted_programs(self) -> dict[str, object]:
        """Return the part of the plan that names the programs whose words are recorded."""
        search = os.environ.get("PATH", os.defpath).split(os.pathsep)
        files: dict[tuple[int, int], str] = {}
        for name in self.names:
            for folder in search:
                try:
                    info = os.stat(os.path.join(folder, name))
                except OSError:
                    continue
                files[info.st_dev, info.st_ino] = name
        return {
            "names": tuple(self.names),
            "files": files,
            "search": tuple(search),
            "max_words": MAX_WORDS,
        }

    def appeared(self) -> Sequence[str]:
        return ()

    def exceeded(self) -> str | None:
        if self.temporary:
            return None
        return self.wrap.exceeded()

    def end_excess(self) -> None:
        self.wrap.end_excess()

    def _find_zones(self) -> list[Path]:
        found = (zone.path for zone in self.wrap.confinement.zones if zone.mode is ZoneMode.RW)
        return sorted(path for path in dict.fromkeys(found) if path.is_dir())

    def _make_folders(self, zone: Path) -> None:
        upper = upper_folder(self.folder, str(zone))
        for place in (upper, upper.with_name("work"), upper.with_name("merged")):
            place.mkdir(mode=0o700, parents=True)
        info = zone.stat()
        # The upper folder stands in for the root of the zone, with its owner and mode.
        if os.geteuid() == 0:
            os.chown(upper, info.st_uid, info.st_gid)
        upper.chmod(info.st_mode & 0o7777)

    def _places(self, zone: Path) -> list[str]:
        upper = upper_folder(self.folder, str(zone))
        return list(map(str, (zone, upper, upper.with_name("work"), upper.with_name("merged"))))

    def _temporary_places(self) -> Iterator[list[str]]:
        if copy := self.temporary:
            yield list(map(str, (copy.lower, copy.upper, copy.work, copy.merged)))

    def _on_copy(self, rule: ReachRule) -> ReachRule:
        """Return a rule with writable paths replaced by their copies."""
        if rule.reach is Reach.PRIVATE and rule.source and self.temporary:
            return replace(rule, reach=Reach.WRITE, source=self.temporary.merged)
        if rule.reach not in (Reach.WRITE, Reach.PINNED) or not self.zones:
            return rule
        zone = max(
            (zone for zone in self.zones if rule.path.is_relative_to(zone)),
            key=lambda zone: len(zone.parts),
        )
        merged = upper_folder(self.folder, str(zone)).with_name("merged")
        return replace(rule, source=merged / rule.path.relative_to(zone))

    def report(self) -> Report | None:
        """Return the report, or None if the first program did not end properly."""
        found = self._reported()
        if not found:
            return None
        return Report(**{name: found[name] for name in Report.__struct_fields__})

    def reached(self) -> Reached | None:
        """Return what the command reached for; None if that could not be watched.

        Watching needs Linux 5.9, and no other program that watches this process in the same way.
        """
        found = self._reported()
        if found and found["seen"] is not None:
            return Reached(**found["seen"])
        return None

    def refused_sockets(self) -> Iterator[str]:
        """Yield the unix sockets that the command could have used without confinement."""
        reached = self.reached()
        if reached is None:
            return
        for name, state in reached.sockets:
            if state == "own":
                yield f"{name}{OWN_SOCKET}"
            elif state == "there":
                yield name if name.startswith("/") else f"{name} (abstract)"

    def _reported(self) -> dict[str, Any] | None:
        try:
            written = (self.folder / _REPORT).read_bytes()
        except FileNotFoundError:
            return None
        if not written:
            return None  # the first program was killed before it could report
        found: dict[str, Any] = marshal.loads(written)  # noqa: S302
        return found

    def read(self, *, scratch: bool = False, until: ReadUntil = FOREVER) -> ChangeSet:
        """Return the changes of the command, and save them in the folder.

        With ``scratch``, caches are included. Raise TooManyChanges if the bound ``until`` is
        exceeded.
        """
        changes: list[PathChange] = []
        for zone in self.zones:
            upper = upper_folder(self.folder, str(zone))
            changes += read_changes(zone, upper, scratch=scratch, until=until)
        roots = marshal.loads((self.folder / _START).read_bytes())  # noqa: S302
        found = ChangeSet(self.folder, tuple(changes), roots)
        found.save()
        return found

    def is_overtaken(self, changes: ChangeSet) -> bool:
        """Return True if another program changed one of the files while the command ran.

        Then the command may have seen either state.
        """
        begun = (self.folder / _START).stat().st_ctime_ns
        before = (change.before for change in changes.changes)
        return any(entry.changed >= begun for entry in before if entry and entry.kind != "folder")


class InPlace(Copies):
    """Starts an argv without copies, and reports which unix sockets it was refused."""

    def __init__(self, folder: Path, wrap: Confined) -> None:
        """Prepare a run without copies; ``folder`` gets its report."""
        super().__init__(folder, wrap)
        self.sockets: list[str] = []

    def _find_zones(self) -> list[Path]:
        return []

    def appeared(self) -> Sequence[str]:
        self.sockets.extend(self.refused_sockets())
        drop_copies(self.folder)
        return self.wrap.appeared()


class AppliedCopies(Copies):
    """Copies for an approved command, whose changes are applied as soon as it has ended."""

    def __init__(
        self,
        folder: Path,
        wrap: Confined,
        *,
        keep: Callable[[ChangeSet], None] | None = None,
        judge: Callable[[ChangeSet], None] | None = None,
    ) -> None:
        """Prepare copies; ``keep`` saves the originals, and ``judge`` raises a refusal."""
        super().__init__(folder, wrap)
        self.keep = keep
        self.judge = judge
        self.refused: list[ToolError] = []
        """Errors raised by ``judge``."""
        self.problems: list[str] = []
        """Reasons why the changes could not be applied."""
        self.sockets: list[str] = []
        """The unix sockets that it was refused."""

    def appeared(self) -> Sequence[str]:
        self.sockets.extend(self.refused_sockets())
        try:
            changes = self.read(scratch=True)
            if self._is_allowed(changes):
                self._apply(changes)
        except OSError as error:
            self.problems.append(f"nothing was changed: {describe_os_error(error)}")
        except (ToolError, UnknownChange) as error:
            self.problems.append(str(error))
        # Changes that need consent stay, so that a yes need not run the command again.
        if not any(isinstance(error, UnappliedDeletion) for error in self.refused):
            drop_copies(self.folder)
        return self.wrap.appeared()

    def _is_allowed(self, changes: ChangeSet) -> bool:
        try:
            if self.judge:
                self.judge(changes)
        except ToolError as error:
            self.refused.append(error)
        return not self.refused

    def started(self, done: Finished) -> bool:
        """Return True if the overlay was mounted; otherwise, nothing was done."""
        return not (
            done.exit_code == enter.NOT_MOUNTED
            and done.stderr.startswith(f"forge: {enter.NOTHING}")
        )

    def _apply(self, changes: ChangeSet) -> None:
        for _ in range(_MAX_ATTEMPTS):
            try:
                if changes.changes:
                    return apply_changes(changes, self.keep)
                return None
            except Stale:
                changes = read_again(changes)
        raise ToolError("its changes are lost: another program keeps changing the same files")


def drop_copies(folder: Path) -> None:
    """Delete the files that a command wrote, unless interrupted changes still need them.

    Unreadable folders are deleted, too.
    """
    if is_begun(folder):
        return
    with suppress(OSError):
        _remove(str(folder), [os.path.join(folder, name) for name in os.listdir(folder)])
        os.rmdir(folder)


def _remove(top: str, left: list[str]) -> None:
    """Remove everything in a folder, at any depth.

    Folders are moved up first, because a path may be too long for a system call.
    """
    moved = 0
    while left:
        path = left.pop()
        with suppress(OSError):
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                os.unlink(path)
                continue
            os.chmod(path, 0o700)
            for name in os.listdir(path):
                inner = os.path.join(path, name)
                if not stat.S_ISDIR(os.lstat(inner).st_mode):
                    os.unlink(inner)
                    continue
                os.chmod(inner, 0o700)  # without that it cannot be moved
                moved += 1
                left.append(os.path.join(top, f".forge-dropped-{moved}"))
                os.rename(inner, left[-1])
            os.rmdir(path)


@cache
def overlay_problem(home: Path) -> str | None:
    """Return why this home cannot hold an overlay; None if a test just worked."""
    if sys.platform != "linux":
        return "only Linux has overlays"
    around = home if os.access(home, os.W_OK | os.X_OK) else None
    with tempfile.TemporaryDirectory(prefix="forge-probe-", dir=around) as folder:
        places = [
            os.path.join(os.path.realpath(folder), name)
            for name in ("lower", "upper", "work", "merged")
        ]
        for place in places:
            os.mkdir(place)
        true = shutil.which("true", path=os.defpath) or "/bin/true"
        report = f"{folder}/report"
        plan = {
            "mounts": True,
            "watch": None,
            "overlays": [places],
            "opens": [],
            "room": None,
            "paths": None,
            "caches": [],
            "ends_at_name": False,
            "report": report,
            "argv": [true],
        }
        with _planned(plan, network=False) as (argv, descriptor):
            done = subprocess.run(
                argv, pass_fds=[descriptor], capture_output=True, timeout=_TIMEOUT, check=False
            )
    said = done.stderr.decode(errors="replace").strip().removeprefix(f"forge: {enter.NOTHING}: ")
    if done.returncode:
        return said or "it did not start"
    return None


@contextmanager
def _planned(plan: Mapping[str, object], *, network: bool) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the argv that runs a plan, and the descriptor from which it reads the plan."""
    descriptor = os.memfd_create("plan")
    try:
        os.pwrite(descriptor, marshal.dumps(dict(plan)), 0)
        code = _RUN if network else _RUN_WITHOUT_NETWORK
        yield (
            (
                sys.executable,
                "-I",
                "-S",
                "-c",
                code,
                os.path.dirname(enter.__file__),
                str(descriptor),
            ),
            descriptor,
        )
    finally:
        os.close(descriptor)


def mounted_below(zones: Sequence[Path]) -> Path | None:
    """Return a file system mounted inside one of the zones, which a copy would not show."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
        for line in mounts:
            # The fifth field is the place of the mount, with octal escapes for spaces.
            place = Path(
                line.split()[4].encode("latin-1", "surrogateescape").decode("unicode_escape")
            )
            if any(place != zone and place.is_relative_to(zone) for zone in zones):
                return place
    return None
