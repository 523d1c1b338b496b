"""A command on copies: started with an overlay over each writable zone, and what is known of it afterwards."""

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

_REPORT, _START = "report", "start"
_LONGEST, _AGAIN = 30, 3
_WATCHED = "lambda plan: watch.Watch(plan, started.StartedPrograms(plan))"
_RUN = (
    "import sys; sys.path.append(sys.argv[1]); import enter, started, watch;"
    f" enter.run(int(sys.argv[2]), None, {_WATCHED})"
)
_RUN_WITHOUT_NETWORK = (
    "import sys; sys.path.append(sys.argv[1]); import enter, destinations, started, watch;"
    f" enter.run(int(sys.argv[2]), destinations.Destinations(), {_WATCHED})"
)
"""Imported, since Python compiles a file again that it is started with."""


SocketState = Literal["there", "absent", "own", "unknown"]
"""Whether a unix socket that a command wanted is there on this machine, or would have been the command's own."""


class Report(Struct, frozen=True):
    """The report of the first program of a command."""

    network: bool
    """It wanted a network."""
    exceeded: bool
    """It wrote more than it had room for, and was stopped."""
    reached: Sequence[str] = ()
    """Its destinations, as far as they are known: hosts, most of them with a port."""
    too_many: bool = False
    """It made more files than it may, and was stopped."""
    ended_at_name: bool = False
    """It was ended because it asked for the name of a host."""


class Reached(Struct, frozen=True):
    """Things that a command reached for in vain, as the kernel showed them, whatever the command said of it."""

    sockets: Sequence[tuple[str, SocketState]]
    """Unix sockets that it wanted to use, all of which are refused: paths, abstract ones behind an @, or nothing where
    it is not known which. Those by which the C library asks for names of users and hosts are left out."""
    addresses: Sequence[str]
    """Addresses with a port that it wanted to connect to, but for those of this machine."""
    writes: Sequence[str]
    """Paths in read-only places that it wanted to make or change, but for caches such as ``__pycache__``, the first 200
    of them; only with ``writes``."""
    programs: Sequence[str]
    """Paths of programs that it started, the first 200; only with ``programs``."""
    commands: Sequence[Sequence[str]] = ()
    """The words of those that have one of ``names`` among them, also where a link or a script leads to such a program;
    only with ``programs``."""
    unlisted: bool = False
    """Whether there were more of these than can be kept."""

    def refused_writes(self, around: Confinement) -> list[str]:
        """The writes that may have made a difference: not those to folders that are hidden, such as the home.

        Programs keep logs and caches there by themselves, and do without where that fails.
        """
        zones = tuple(f"{zone.path}/" for zone in around.zones)
        hidden = tuple(f"{path}/" for path in (*around.homes, *around.hidden))
        found = [
            path for path in self.writes if path.startswith(zones) or not path.startswith(hidden)
        ]
        return (
            [*found, f"more than {MAX_WRITES} files"] if len(self.writes) == MAX_WRITES else found
        )


class Copies:
    """Starts an argv on copies of the zones, in a folder that keeps what it writes; one command each."""

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
        """Whether it has the network that ``wrap`` gives; else one with nothing in it."""
        self.room = room
        """Bytes that it may write, each path counted as 4 KiB besides."""
        self.paths = paths
        """Paths that it may make or change."""
        self.writes = writes
        """Whether ``reached`` has what it wanted to change in read-only places."""
        self.programs = programs
        """Whether ``reached`` has the programs that it started."""
        self.names = names
        """Names of programs, in lower case, of which it has the words as well."""
        self.ends_at_name = ends_at_name
        """Whether it is ended soon after it asked for the name of a host, which it does not get without the network."""
        self.temporary = temporary
        """The copy of the shared ``/tmp`` that it works on; else it works on that itself."""
        # Found once, before it runs: a zone that the command deletes has changes all the same.
        self.zones = self._find_zones()
        """The zones that the command may write to; one inside another has a copy of its own."""

    @contextmanager
    def __call__(self, argv: Sequence[str], cwd: Path) -> Iterator[Command]:
        if is_begun(self.folder):
            raise ToolError(
                f"changes of the same line were cut off, and are still in {shown(str(self.folder))}"
            )
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for zone in self.zones:
            self._make_folders(zone)
        roots = {str(zone): zone.stat().st_ino for zone in self.zones}
        (self.folder / _START).write_bytes(marshal.dumps(roots))
        with replace(self.wrap, place=self._on_copy)(argv, cwd) as command:
            opens: list[str] = []
            end = list(command.argv).index("--")
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
        """The part of the plan by which the first program sees what the command reaches for.

        The filter of the mechanism refuses unix sockets. Only where they are seen does the first program take that out
        of it, because the kernel would not even show a call that another filter refuses.
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
        """The part of the plan that says of which programs all words are kept."""
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
        return None if self.temporary else self.wrap.exceeded()

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
        """A rule for what can be written, on its copy."""
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
        """The report on it, once everything had ended; None where that never happened."""
        found = self._reported()
        if not found:
            return None
        return Report(**{name: found[name] for name in Report.__struct_fields__})

    def reached(self) -> Reached | None:
        """Things that it reached for in vain; None where that could not be seen, or where it has not ended.

        To see it needs Linux 5.9, and no other program that watches this process in the same way.
        """
        found = self._reported()
        return Reached(**found["seen"]) if found and found["seen"] is not None else None

    def refused_sockets(self) -> Iterator[str]:
        """The unix sockets that it would have used without confinement; those that are not there fail anyway."""
        reached = self.reached()
        for name, state in reached.sockets if reached else ():
            if state == "own":
                yield f"{name}{OWN_SOCKET}"
            elif state == "there":
                yield name if name.startswith("/") else f"{name} (abstract)"

    def _reported(self) -> dict[str, Any] | None:
        try:
            written = (self.folder / _REPORT).read_bytes()
        except FileNotFoundError:
            return None
        return marshal.loads(written) if written else None  # noqa: S302

    def read(self, *, scratch: bool = False, until: ReadUntil = FOREVER) -> ChangeSet:
        """The changes of the command, kept in the folder; with ``scratch`` also those that can be dropped.

        TooManyChanges where they are more than may be read, or that takes too long.
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
        """Whether somebody else changed one of the files while the command ran: it may have seen either."""
        begun = (self.folder / _START).stat().st_ctime_ns
        before = (change.before for change in changes.changes)
        return any(entry.changed >= begun for entry in before if entry and entry.kind != "folder")


class InPlace(Copies):
    """Starts an argv where it is, on no copies, and knows afterwards which unix sockets it was refused."""

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
    """Copies for a command that was approved: what it did is applied as soon as it has ended, however it has."""

    def __init__(
        self,
        folder: Path,
        wrap: Confined,
        *,
        keep: Callable[[ChangeSet], None] | None = None,
        judge: Callable[[ChangeSet], None] | None = None,
    ) -> None:
        """``keep`` gets what will be changed, before it is; ``judge`` raises a ToolError if nothing may be applied."""
        super().__init__(folder, wrap)
        self.keep = keep
        self.judge = judge
        self.refused: list[ToolError] = []
        """Errors that ``judge`` raised."""
        self.problems: list[str] = []
        """Why it could not be applied."""
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
        # A command whose deletions need consent has run: its changes stay, so that a yes need not run it again.
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
        """Whether there was an overlay for it at all: without one nothing was done."""
        return not (
            done.exit_code == enter.NOT_MOUNTED
            and done.stderr.startswith(f"forge: {enter.NOTHING}")
        )

    def _apply(self, changes: ChangeSet) -> None:
        for _ in range(_AGAIN):
            try:
                return apply_changes(changes, self.keep) if changes.changes else None
            except Stale:
                changes = read_again(changes)
        raise ToolError("what it changed is lost: somebody else keeps changing the same files")


def drop_copies(folder: Path) -> None:
    """Forget what a command wrote, unless it is needed to complete changes that were begun.

    What it made unreadable for its owner goes as well.
    """
    if is_begun(folder):
        return
    with suppress(OSError):
        _remove(str(folder), [os.path.join(folder, name) for name in os.listdir(folder)])
        os.rmdir(folder)


def _remove(top: str, left: list[str]) -> None:
    """Remove everything in a folder, however deep: folders are moved up first, since a path may be too long to name."""
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
    """Why nothing in this home is mounted by an overlay, as what commands write is; None where that just worked."""
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
                argv, pass_fds=[descriptor], capture_output=True, timeout=_LONGEST, check=False
            )
    said = done.stderr.decode(errors="replace").strip().removeprefix(f"forge: {enter.NOTHING}: ")
    return said or "it did not start" if done.returncode else None


@contextmanager
def _planned(plan: Mapping[str, object], *, network: bool) -> Iterator[tuple[tuple[str, ...], int]]:
    """The argv that does what a plan says, and the descriptor that it reads it from."""
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
    """A file system that is mounted inside one of the zones: it would not be seen in a copy."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
        for line in mounts:
            place = Path(
                line.split()[4].encode("latin-1", "surrogateescape").decode("unicode_escape")
            )
            if any(place != zone and place.is_relative_to(zone) for zone in zones):
                return place
    return None
