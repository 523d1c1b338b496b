"""Confinement: what a worker's child processes may use, as rules about paths for any mechanism."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields
from enum import IntEnum
from itertools import chain
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.approval import Approval
from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.sandbox.files.virtual import innermost_zone
from forge_cli.sandbox.isolation.protected_scan import ProtectedScan
from forge_cli.sandbox.isolation.shared_files import find_shared
from forge_cli.sandbox.isolation.toolchains import find_toolchains, links_of_path
from forge_cli.sandbox.loaded import ImportFolder, LoadedFiles, existing_files
from forge_cli.sandbox.names import folded
from forge_cli.sandbox.protected import FOLDERS, PAIRED

HIDDEN = (
    ".ssh",
    ".aws",
    ".gnupg",
    ".config/gcloud",
    ".azure",
    ".kube",
    ".docker",
    ".config/gh",
    ".password-store",
    ".local/share/keyrings",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".config/git/credentials",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".vault-token",
    ".Xauthority",
    ".config/rclone",
    ".pgpass",
    ".config/containers",
    ".config/sops",
    ".config/doctl",
    ".config/github-copilot",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/op",
    ".config/Code",
    ".config/hub",
    ".config/pip",
    ".cache/huggingface/token",
    ".local/share/uv/credentials",
    ".config/uv/credentials.toml",
    ".condarc",
)
"""Paths in the home that are always hidden, even if a zone, a toolchain or ``read`` shows more."""
FORGE = ".forge"
_SYSTEM = ("/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/nix", "/proc", "/dev", "/sys")
_RESERVED = frozenset(
    (
        "bin",
        "boot",
        "dev",
        "etc",
        "home",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "nix",
        "opt",
        "proc",
        "root",
        "run",
        "sbin",
        "srv",
        "sys",
        "tmp",
        "usr",
        "var",
    )
)
"""Names in ``/`` where programs look for code and settings, also on machines without such a
folder."""
# Each protected name costs a mount, for every command.
PROTECTED_AT_MOST = 200
HOOKS = "hooks"
INFO = "info"
MODULES = "modules"
_NAMES = (
    HOOKS,
    "config",
    "config.worktree",
    "commondir",
    MODULES,
    f"{INFO}/attributes",
    "remotes",
    "branches",
)
_WORKTREE_NAMES = ("commondir", "config.worktree", "gitdir")


class Reach(IntEnum):
    """The rights of a process to a path and all below it.

    The later of two rules for a path wins.
    """

    HIDDEN = 0
    """It is empty."""
    PRIVATE = 1
    """It is empty, and writable in memory while the process lives."""
    LINKED = 2
    """It is the original link, although the folder around it is hidden."""
    SHOWN = 3
    """It is readable, although the folder around it is hidden."""
    READ = 4
    WRITE = 5
    PINNED = 6
    """It is writable, but cannot be moved away with its contents."""
    PROTECTED = 7
    """It is read-only, although the folder around it is writable."""


class ReachRule(Struct, frozen=True):
    """A rule for a path and everything below it, until another rule begins."""

    path: Path
    reach: Reach
    seen_as: Path | None = None
    """The path under which processes see it, if not its own; only for mechanisms that support
    that."""
    source: Path | None = None
    """The content that processes see there, if not the path's own; only for mechanisms with
    mounts."""


class CommandReach(Struct, frozen=True, kw_only=True):
    """The reach of one command."""

    rules: Sequence[ReachRule]
    network: bool
    sockets: bool
    """True if sockets of daemons on this machine may be used."""
    room: int | None
    """Size of each private folder, in bytes."""


@dataclass(frozen=True, kw_only=True)
class Confinement:
    """The rules for one worker; without a rule, the host is readable.

    A zone is visible even inside a hidden folder, and a hidden folder is hidden even inside a zone.
    """

    zones: tuple[Zone, ...]
    workspace: Path
    homes: tuple[Path, ...] = ()
    """Home folders, hidden even if one is the working directory."""
    hidden: tuple[Path, ...] = ()
    shown: tuple[Path, ...] = ()
    """Hidden paths that every command may read."""
    links: tuple[Path, ...] = ()
    """Links in hidden folders that lead to readable paths."""
    protected: tuple[Path, ...] = ()
    loose: Mapping[str, str | None] = field(default_factory=dict)
    """Protected paths that cannot be mounted because they are missing or links, with the links'
    targets."""
    network: bool = False
    room: int | None = None
    """Size of each private folder, in bytes of memory."""
    private: tuple[Path, ...] = ()
    """Hidden folders that commands can fill, in memory."""
    temporary: Path | None = None
    """The folder that commands see as ``/tmp``; if None, each has an empty one in memory."""
    import_folders: tuple[ImportFolder, ...] = ()
    """Folders in which some names are protected, even if they do not exist."""
    protected_scan: ProtectedScan = field(default_factory=ProtectedScan, compare=False, repr=False)

    def protecting(self, loaded: LoadedFiles) -> Confinement:
        """Return this confinement with the files that forge loads now protected as well."""
        paths = tuple(existing_files(each.path for each in loaded.paths))
        return replace_fields(
            self,
            protected=tuple(dict.fromkeys((*self.protected, *map(_real, paths)))),
            loose={**self.loose, **dict(_loose(paths, self._writable()))},
            import_folders=(*self.import_folders, *loaded.folders),
        )

    def rules(
        self,
        readable: Iterable[Path] = (),
        writable: Iterable[Path] = (),
        names: Sequence[str] | None = None,
    ) -> list[ReachRule]:
        """Return all effective rules, outer folders first.

        Hidden paths in ``readable`` become readable. ``writable`` are folders from ``opened``.
        ``names`` are protected names that have been looked up already.
        """
        found: list[ReachRule] = []
        reaches: dict[Path, Reach] = {}
        known = self.names() if names is None else names
        wanted = set(self._wanted(readable, set(writable), known))
        for rule in sorted(wanted, key=lambda rule: (len(rule.path.parts), rule.reach)):
            # A rule inside another one only counts if it changes something.
            around = next(
                (reaches[path] for path in (rule.path, *rule.path.parents) if path in reaches), None
            )
            if _matters(rule.reach, around):
                found.append(rule)
                reaches[rule.path] = rule.reach
        return found

    def rules_by_name(self, rules: Sequence[ReachRule]) -> list[ReachRule]:
        """Return rules that show zones under their virtual names if these are free."""
        found: list[ReachRule] = []
        reaches = {rule.path: rule.reach for rule in rules}
        for zone, name in zone_mounts(self.zones).items():
            around = (reaches[path] for path in (zone, *zone.parents) if path in reaches)
            found.append(ReachRule(zone, next(around, Reach.READ), name))
            for rule in rules:
                if rule.path.is_relative_to(zone) and rule.path != zone:
                    seen_as = name / rule.path.relative_to(zone)
                    found.append(replace(rule, seen_as=seen_as))
        return found

    def opened(self, folders: Iterable[Path]) -> list[Path]:
        """Return the protected folders that a command can be allowed to change."""
        real = {Path(os.path.realpath(folder)) for folder in folders}
        return [folder for folder in real if folder.is_dir() and self._can_open(folder)]

    def _can_open(self, folder: Path) -> bool:
        zone = innermost_zone(folder, self.zones)
        writable = zone is not None and zone.mode is ZoneMode.RW and folder != zone.path
        return writable and FORGE not in map(folded, folder.parts)

    def _wanted(
        self, readable: Iterable[Path], writable: set[Path], names: Sequence[str]
    ) -> Iterator[ReachRule]:
        # /run has the sockets of daemons, and /tmp the files of other people.
        private = [path for path in self.hidden if path in self.private]
        temporary = _existing(["/tmp"], Reach.PRIVATE)  # noqa: S108
        for rule in temporary:
            yield replace(rule, source=self.temporary)
        yield from _existing(["/dev/shm", *private], Reach.PRIVATE)  # noqa: S108
        yield from _existing(
            ["/run", "/var/run", *(path for path in self.hidden if path not in private)],
            Reach.HIDDEN,
        )
        always = [] if self.workspace in self.homes else [self.workspace]
        # It is often a link into /run, which is hidden.
        needed = ["/etc/resolv.conf"] if self.network else []
        yield from _existing([*always, *self.shown, *readable, *needed], Reach.SHOWN)
        for link in self.links:
            yield ReachRule(link, Reach.LINKED)
        for zone in self.zones:
            yield ReachRule(zone.path, Reach.WRITE if zone.mode is ZoneMode.RW else Reach.READ)
        yield from _existing(self.protected, Reach.PROTECTED)
        held = _existing(dict.fromkeys(self._held(names)), Reach.PROTECTED)
        open_folders = writable.union(self._writable())
        for rule in held:
            if rule.path not in open_folders:
                yield rule
        for folder in writable:
            yield ReachRule(folder, Reach.PINNED)
            # The folder must not be moved away together with the settings in it.
            yield from _existing([folder / INFO], Reach.PINNED)
            yield from _existing(hooks_in(folder), Reach.PROTECTED)
        around = set(chain.from_iterable(map(_two_around, names)))
        pinned = (folder for folder in around if folded(os.path.basename(folder)) in PAIRED)
        yield from _existing((*self._ways(writable), *pinned), Reach.PINNED)

    def _ways(self, writable: Iterable[Path]) -> Iterator[Path]:
        """Yield folders between a writable zone and what must not change in it.

        Moving such a folder would move the protected path away from its mount.
        """
        held = (*self.hidden, *self.protected, *writable, *(zone.path for zone in self.zones))
        for root in self._writable():
            for path in held:
                if path.is_relative_to(root):
                    for folder in path.parents:
                        if folder != root and folder.is_relative_to(root):
                            yield folder

    def _writable(self) -> list[Path]:
        return [zone.path for zone in self.zones if zone.mode is ZoneMode.RW]

    def names(self) -> tuple[str, ...]:
        """Return the protected names in writable zones that exist now.

        A missing name cannot be mounted, nor one that a process makes again after moving the folder
        around it. Those are found after the command.
        """
        apart = frozenset(str(path) for path in (*self.hidden, *(zone.path for zone in self.zones)))
        return (
            *self.protected_scan.names(map(str, self._writable()), apart),
            *self.made(),
            *map(str, self._importable()),
        )

    def not_held(self, *, weaker: bool) -> tuple[Path, ...]:
        """Return the protected paths in writable zones that the mechanism cannot protect.

        No mechanism protects a link. A ``weaker`` one allows everything in a writable folder.
        """
        # A mount covers the target of a link, while the link itself can be replaced.
        links = [path for path in map(Path, self.loose) if path.is_symlink()]
        held = [*self.protected, *self._importable()] if weaker else []
        roots = self._writable()
        return (
            *links,
            *(path for path in held if any(path.is_relative_to(root) for root in roots)),
        )

    def _importable(self) -> list[Path]:
        """Return the existing modules and packages in folders that forge imports from."""
        found: list[Path] = []
        for folder in self.import_folders:
            found += folder.existing()
        return found

    def shared(self, names: Iterable[str], opened: Sequence[Path] = ()) -> tuple[Path, ...]:
        """Return the protected files with other names (hard links), by which they could be changed.

        ``names`` have been looked up already. In ``opened`` folders, only hooks and settings count.
        """
        held = [path for path in (*self.protected, *map(Path, names)) if path not in opened]
        for folder in opened:
            held += hooks_in(folder)
        return tuple(find_shared(held))

    def made(self) -> dict[str, None]:
        """Return what was made in place of own files that were missing or links.

        If a link on the way was replaced, that link is returned.
        """
        found: dict[str, None] = {}
        for place, target in self.loose.items():
            if _target_now(place) in (None, target):
                continue
            ways = (*reversed(Path(place).parents), Path(place))
            link = next((way for way in ways if way.is_symlink()), ways[-1])
            found[str(link)] = None
        return found

    def _held(self, names: Sequence[str]) -> Iterator[str]:
        """Yield the names to protect.

        If there are too many to mount, the zone's folders around them.
        """
        roots = {str(root): str(root).rstrip("/") + "/" for root in self._writable()}
        single = [name for name in names if os.path.dirname(name) in roots]
        deep = [name for name in names if os.path.dirname(name) not in roots]
        yield from (*single, *deep[:PROTECTED_AT_MOST])
        for name in deep[PROTECTED_AT_MOST:]:
            around = max((root for root in roots.values() if name.startswith(root)), key=len)
            yield around + name.removeprefix(around).partition("/")[0]


def zone_mounts(zones: Iterable[Zone]) -> dict[Path, Path]:
    """Return the zones that can be mounted in ``/`` under their names, if the names are free.

    A name is not free if programs would look for their files there.
    """
    searched = {Path(entry).parts[1:2] for entry in os.environ.get("PATH", "").split(os.pathsep)}
    names = {zone.path: Path("/", zone.name) for zone in zones if zone.name not in _RESERVED}
    return {
        path: name
        for path, name in names.items()
        if not os.path.lexists(name) and name.parts[1:] not in searched
    }


def zone_names(zones: Sequence[Zone]) -> tuple[str, ...]:
    """Return the names of the zones that a command finds in ``/`` if the mechanism shows names."""
    shown = zone_mounts(zones)
    return tuple(
        zone.name for zone in zones if zone.path in shown or zone.path == Path("/", zone.name)
    )


def confinement_for(
    zones: Iterable[Zone],
    *,
    workspace: Path,
    user_homes: Iterable[Path],
    forge_home: Path,
    read: Iterable[Path] = (),
    protected: Iterable[Path] = (),
    network: bool,
    room: int | None = None,
) -> Confinement:
    """Return the confinement of a worker.

    No process writes to forge's home, ``.git`` or ``.forge``. Homes are hidden except for zones,
    the working directory, toolchains on PATH and ``read``.
    """
    own = _real(forge_home)
    place = _real(workspace)
    homes = tuple(dict.fromkeys(map(_real, user_homes)))
    search = os.environ.get("PATH", "")
    named = [path for path in map(_real, read) if not path.is_relative_to(own)]
    found: set[Path] = set()
    for home, path in find_toolchains(homes, search):
        if not _is_in_another(path, home, homes):
            found.add(path)
    shown = {*named, *(path for path in found if found.isdisjoint(path.parents))}
    open_zones = tuple(
        replace(zone, mode=ZoneMode.RO) if _is_closed(zone, own) else zone for zone in zones
    )
    protected = tuple(protected)  # it may be an iterator, and is used twice
    visible = [place, *shown, *(zone.path for zone in open_zones)]
    hidden: list[Path] = []
    links: list[Path] = []
    for home in homes:
        hidden += _hidden(home, visible)
        links += links_of_path(home, search)
    return Confinement(
        zones=open_zones,
        workspace=place,
        homes=homes,
        hidden=tuple(dict.fromkeys((*hidden, own))),
        shown=tuple(sorted(shown)),
        links=tuple(dict.fromkeys(links)),
        protected=tuple(map(_real, protected)),
        loose=dict(
            _loose(protected, [zone.path for zone in open_zones if zone.mode is ZoneMode.RW])
        ),
        network=network,
        room=room,
    )


def _loose(protected: Iterable[Path], writable: Sequence[Path]) -> Iterator[tuple[str, str | None]]:
    for each in protected:
        yield from _loose_on_way(Path(os.path.abspath(each)), writable)
        yield from _loose_on_way(_real(each), writable)


def _loose_on_way(path: Path, writable: Sequence[Path]) -> Iterator[tuple[str, str | None]]:
    """Yield links on the way to a path, and the path itself if missing, in writable folders."""
    for way in (*reversed(path.parents), path):
        if way.is_symlink() or (way == path and not os.path.lexists(path)):
            place = _real(way.parent) / way.name
            if any(place.is_relative_to(root) for root in writable):
                yield str(place), _target_now(str(way))


def _target_now(place: str) -> str | None:
    if os.path.lexists(place):
        return os.path.realpath(place)
    return None


def _hidden(home: Path, visible: Sequence[Path]) -> Iterator[Path]:
    """Yield the home, unless it is a system folder, and the secret paths that would be visible."""
    secret = {place: _real(place) for place in (home / name for name in (*HIDDEN, FORGE))}
    if not any(home.is_relative_to(folder) for folder in _SYSTEM) and home != Path("/"):
        yield home
        around = _prefix(home)
        seen = tuple(map(_prefix, visible))
        secret = {
            place: real for place, real in secret.items() if _is_seen(place, real, around, seen)
        }
    yield from dict.fromkeys(secret.values())


def _is_in_another(path: Path, home: Path, homes: Iterable[Path]) -> bool:
    """Return True if a path belongs to another home inside this one."""
    return any(
        path.is_relative_to(other)
        for other in homes
        if other != home and other.is_relative_to(home)
    )


def _is_seen(place: Path, real: Path, home: str, visible: tuple[str, ...]) -> bool:
    """Return True if a path is outside the home, or in a visible folder.

    ``home`` and ``visible`` are text prefixes of the paths inside them.
    """
    return not _prefix(real).startswith(home) or any(
        _prefix(path).startswith(visible) for path in (place, real)
    )


def _prefix(path: Path) -> str:
    """Return the text that every path inside begins with, ending in a slash."""
    return f"{path}/" if path.name else str(path)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _is_closed(zone: Zone, own: Path) -> bool:
    """Return True if only people, or no tools, may write in a zone.

    Commands do not ask about single files, so they may not write there either.
    """
    of_people = zone.path.is_relative_to(own) or any(
        folded(part) in FOLDERS for part in zone.path.parts
    )
    return of_people or zone.write is Approval.BLOCKED


def _matters(reach: Reach, around: Reach | None) -> bool:
    concealed = around in (Reach.HIDDEN, Reach.PRIVATE)
    writable = around in (Reach.WRITE, Reach.PINNED)
    match reach:
        case Reach.HIDDEN | Reach.PRIVATE:
            return not concealed
        case Reach.SHOWN | Reach.LINKED:
            return concealed
        case Reach.READ:
            return concealed or writable
        case Reach.WRITE:
            return not writable
        case Reach.PINNED | Reach.PROTECTED:
            return writable


def _two_around(name: str) -> tuple[str, str]:
    folder = os.path.dirname(name)
    return folder, os.path.dirname(folder)


def _existing(paths: Iterable[str | Path], reach: Reach) -> Iterator[ReachRule]:
    """Yield rules for the real paths that exist, since a link cannot be mounted."""
    for path in paths:
        real = Path(os.path.realpath(path))
        if real.exists():
            yield ReachRule(real, reach)


def hooks_in(folder: Path) -> Iterator[Path]:
    """Yield the hooks and settings in a folder such as ``.git``, existing or not."""
    for name in _NAMES:
        yield folder / name
    with suppress(OSError):
        for tree in (folder / "worktrees").iterdir():
            for name in _WORKTREE_NAMES:
                yield tree / name


class KeptHooks:
    """The state of hooks and settings that cannot be mounted: links, and missing files."""

    def __init__(self, folders: Iterable[Path]) -> None:
        places: list[Path] = []
        for folder in folders:
            if (folder / "objects").is_dir():
                # Only a folder that exists can be protected by a mount.
                for name in (HOOKS, INFO, MODULES):
                    with suppress(FileExistsError):
                        (folder / name).mkdir()
            places += hooks_in(folder)
        self._before = {
            place: _target(place) for place in places if place.is_symlink() or not place.exists()
        }

    def restore(self) -> list[str]:
        """Restore everything; return the paths that could not be restored."""
        failed = []
        for place, target in self._before.items():
            if os.path.lexists(place) != (target is not None) or _target(place) != target:
                try:
                    _restore(place, target)
                except OSError:
                    failed.append(str(place))
        return failed


def _target(place: Path) -> str | None:
    if place.is_symlink():
        return os.readlink(place)
    return None


def _restore(place: Path, target: str | None) -> None:
    if os.path.realpath(place.parent) != str(place.parent):
        raise OSError(f"{place.parent} leads elsewhere now")
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
    if target is not None:
        place.symlink_to(target)
