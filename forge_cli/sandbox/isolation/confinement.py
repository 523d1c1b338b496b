"""Confinement: what a worker's child processes may touch, as rules about paths that any mechanism can follow."""

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
    *(
        ".ssh",
        ".aws",
        ".gnupg",
        ".config/gcloud",
        ".azure",
        ".kube",
        ".docker",
        ".config/gh",
        ".password-store",
    ),
    *(
        ".local/share/keyrings",
        ".netrc",
        ".npmrc",
        ".pypirc",
        ".git-credentials",
        ".config/git/credentials",
    ),
    *(
        ".cargo/credentials",
        ".cargo/credentials.toml",
        ".vault-token",
        ".Xauthority",
        ".config/rclone",
        ".pgpass",
    ),
    *(
        ".config/containers",
        ".config/sops",
        ".config/doctl",
        ".config/github-copilot",
        ".config/google-chrome",
    ),
    *(
        ".config/chromium",
        ".config/BraveSoftware",
        ".config/op",
        ".config/Code",
        ".config/hub",
        ".config/pip",
    ),
    *(
        ".cache/huggingface/token",
        ".local/share/uv/credentials",
        ".config/uv/credentials.toml",
        ".condarc",
    ),
)
"""Below the user's home, besides forge's own folder: hidden even where a zone, a toolchain or ``read`` shows more."""
FORGE = ".forge"
_SYSTEM = ("/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/nix", "/proc", "/dev", "/sys")
_RESERVED = frozenset(
    (
        *("bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "nix"),
        *("opt", "proc", "root", "run", "sbin", "srv", "sys", "tmp", "usr", "var"),
    )
)
"""Names in ``/`` in which programs look for code and settings by themselves, also on a machine that lacks one."""
PROTECTED_AT_MOST = 200
HOOKS, INFO, MODULES = "hooks", "info", "modules"
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
    """The rights of a process to a path and all below it; of two rules for one path the later one counts."""

    HIDDEN = 0
    """It is empty."""
    PRIVATE = 1
    """It is empty, and can be filled for as long as the process lives."""
    LINKED = 2
    """It is the link that it is outside, although what lies around it is hidden."""
    SHOWN = 3
    """It can be read, although what lies around it is hidden."""
    READ = 4
    WRITE = 5
    PINNED = 6
    """It can be written, but not moved away together with what lies in it."""
    PROTECTED = 7
    """It can be read, although what lies around it can be written."""


class ReachRule(Struct, frozen=True):
    """A rule from a path on downwards, until another one begins."""

    path: Path
    reach: Reach
    seen_as: Path | None = None
    """The path by which processes find it, if not its own; only for a mechanism that can show it elsewhere."""
    source: Path | None = None
    """The content that they find there, if not that of the path; only for a mechanism with mounts of its own."""


class CommandReach(Struct, frozen=True, kw_only=True):
    """The reach of one command."""

    rules: Sequence[ReachRule]
    network: bool
    sockets: bool
    """Those of daemons on this machine."""
    room: int | None
    """Bytes for each of the private folders."""


@dataclass(frozen=True, kw_only=True)
class Confinement:
    """The rules for one worker; where there is none, the host can be read.

    A zone is there even inside a hidden folder, and a hidden folder is hidden even inside a zone.
    """

    zones: tuple[Zone, ...]
    workspace: Path
    homes: tuple[Path, ...] = ()
    """Hidden even where one is the working directory."""
    hidden: tuple[Path, ...] = ()
    shown: tuple[Path, ...] = ()
    """Paths that can be read although something hides them, for every command."""
    links: tuple[Path, ...] = ()
    """Links in hidden folders that lead to what can be read."""
    protected: tuple[Path, ...] = ()
    loose: Mapping[str, str | None] = field(default_factory=dict)
    """Of what is protected that which cannot be held, because it is missing or a link, with where the link leads."""
    network: bool = False
    room: int | None = None
    """Bytes that fit into each private folder, which lies in memory."""
    private: tuple[Path, ...] = ()
    """Of the hidden folders those that can be filled, in memory."""
    temporary: Path | None = None
    """The folder that commands find as ``/tmp``; without one each has an empty one of its own, in memory."""
    import_folders: tuple[ImportFolder, ...] = ()
    """Folders in which some names are protected, whether or not they are there."""
    protected_scan: ProtectedScan = field(default_factory=ProtectedScan, compare=False, repr=False)

    def protecting(self, loaded: LoadedFiles) -> Confinement:
        """The same with more that is protected: what forge loads may be other files than for the last command."""
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
        """All that matter, from the outside in.

        ``readable`` can be read although something hides it, ``writable`` are those of ``opened``, ``names`` those that
        somebody has looked up already.
        """
        found: list[ReachRule] = []
        reaches: dict[Path, Reach] = {}
        wanted = set(
            self._wanted(readable, set(writable), self.names() if names is None else names)
        )
        for rule in sorted(wanted, key=lambda rule: (len(rule.path.parts), rule.reach)):
            around = next(
                (reaches[path] for path in (rule.path, *rule.path.parents) if path in reaches), None
            )
            if _matters(rule.reach, around):
                found.append(rule)
                reaches[rule.path] = rule.reach
        return found

    def rules_by_name(self, rules: Sequence[ReachRule]) -> list[ReachRule]:
        """The zones once more under their virtual names, where these are free, with all rules that hold inside."""
        found: list[ReachRule] = []
        reaches = {rule.path: rule.reach for rule in rules}
        for zone, name in zone_mounts(self.zones).items():
            around = (reaches[path] for path in (zone, *zone.parents) if path in reaches)
            found.append(ReachRule(zone, next(around, Reach.READ), name))
            inside = (
                rule for rule in rules if rule.path.is_relative_to(zone) and rule.path != zone
            )
            found += (replace(rule, seen_as=name / rule.path.relative_to(zone)) for rule in inside)
        return found

    def opened(self, folders: Iterable[Path]) -> list[Path]:
        """The protected folders that a command can be allowed to write to: those in writable zones, not forge's."""
        real = {Path(os.path.realpath(folder)) for folder in folders}
        return [folder for folder in real if folder.is_dir() and self._can_open(folder)]

    def _can_open(self, folder: Path) -> bool:
        zone = innermost_zone(folder, self.zones)
        writable = zone is not None and zone.mode is ZoneMode.RW and folder != zone.path
        return writable and FORGE not in map(folded, folder.parts)

    def _wanted(
        self, readable: Iterable[Path], writable: set[Path], names: Sequence[str]
    ) -> Iterator[ReachRule]:
        # sockets of daemons lie in /run, and other people's files in /tmp
        private = [path for path in self.hidden if path in self.private]
        temporary = _existing(["/tmp"], Reach.PRIVATE)  # noqa: S108
        yield from (replace(rule, source=self.temporary) for rule in temporary)
        yield from _existing(["/dev/shm", *private], Reach.PRIVATE)  # noqa: S108
        yield from _existing(
            ["/run", "/var/run", *(path for path in self.hidden if path not in private)],
            Reach.HIDDEN,
        )
        always = [] if self.workspace in self.homes else [self.workspace]
        needed = ["/etc/resolv.conf"] if self.network else []
        yield from _existing([*always, *self.shown, *readable, *needed], Reach.SHOWN)
        yield from (ReachRule(link, Reach.LINKED) for link in self.links)
        for zone in self.zones:
            yield ReachRule(zone.path, Reach.WRITE if zone.mode is ZoneMode.RW else Reach.READ)
        yield from _existing(self.protected, Reach.PROTECTED)
        held = _existing(dict.fromkeys(self._held(names)), Reach.PROTECTED)
        yield from (rule for rule in held if rule.path not in writable.union(self._writable()))
        for folder in writable:
            yield ReachRule(folder, Reach.PINNED)
            yield from _existing(
                [folder / INFO], Reach.PINNED
            )  # it must not be moved away with the setting in it
            yield from _existing(hooks_in(folder), Reach.PROTECTED)
        around = set(chain.from_iterable(map(_two_around, names)))
        pinned = (folder for folder in around if folded(os.path.basename(folder)) in PAIRED)
        yield from _existing((*self._ways(writable), *pinned), Reach.PINNED)

    def _ways(self, writable: Iterable[Path]) -> Iterator[Path]:
        """The folders between a writable zone and what is not to be written in it: moving one would move that."""
        held = (*self.hidden, *self.protected, *writable, *(zone.path for zone in self.zones))
        for root in self._writable():
            for path in held:
                if path.is_relative_to(root):
                    yield from (
                        folder
                        for folder in path.parents
                        if folder != root and folder.is_relative_to(root)
                    )

    def _writable(self) -> list[Path]:
        return [zone.path for zone in self.zones if zone.mode is ZoneMode.RW]

    def names(self) -> tuple[str, ...]:
        """The protected names in writable zones, as they are now.

        What does not exist yet cannot be held back by them, nor what a process makes again after it moved the folder
        around it elsewhere: that is found afterwards.
        """
        apart = frozenset(str(path) for path in (*self.hidden, *(zone.path for zone in self.zones)))
        imported = map(str, self._importable())
        return (
            *self.protected_scan.names(map(str, self._writable()), apart),
            *self.made(),
            *imported,
        )

    def not_held(self, *, weaker: bool) -> tuple[Path, ...]:
        """The paths that are protected and can be changed all the same, of those in writable zones.

        No mechanism holds a link; one that is ``weaker`` allows everything that lies in a writable folder.
        """
        links = [path for path in map(Path, self.loose) if path.is_symlink()]
        held = [*self.protected, *self._importable()] if weaker else []
        roots = self._writable()
        return (
            *links,
            *(path for path in held if any(path.is_relative_to(root) for root in roots)),
        )

    def _importable(self) -> list[Path]:
        """The modules and packages that there are now in the folders from which forge imports."""
        found: list[Path] = []
        for folder in self.import_folders:
            found += folder.existing()
        return found

    def shared(self, names: Iterable[str], opened: Sequence[Path] = ()) -> tuple[Path, ...]:
        """The protected files that have other names, by which no mechanism holds them.

        ``names`` are those that somebody has looked up; in folders that are ``opened`` only hooks and settings count.
        """
        held = [path for path in (*self.protected, *map(Path, names)) if path not in opened]
        for folder in opened:
            held += hooks_in(folder)
        return tuple(find_shared(held))

    def made(self) -> dict[str, None]:
        """The file that was made in place of an own one that was missing or a link: itself, or a link on its way."""
        made = (
            Path(place) for place, leads in self.loose.items() if _leads(place) not in (None, leads)
        )
        ways = ((*reversed(place.parents), place) for place in made)
        return dict.fromkeys(
            str(next((way for way in each if way.is_symlink()), each[-1])) for each in ways
        )

    def _held(self, names: Sequence[str]) -> Iterator[str]:
        """The names one by one, as long as they are not too many to mount; then the folder in the zone around them."""
        roots = {str(root): str(root).rstrip("/") + "/" for root in self._writable()}
        single = [name for name in names if os.path.dirname(name) in roots]
        deep = [name for name in names if os.path.dirname(name) not in roots]
        yield from (*single, *deep[:PROTECTED_AT_MOST])
        for name in deep[PROTECTED_AT_MOST:]:
            around = max((root for root in roots.values() if name.startswith(root)), key=len)
            yield around + name.removeprefix(around).partition("/")[0]


def zone_mounts(zones: Iterable[Zone]) -> dict[Path, Path]:
    """The folders of zones that can be shown in ``/`` by the zone's name: where nothing has it, or would look there."""
    searched = {Path(entry).parts[1:2] for entry in os.environ.get("PATH", "").split(os.pathsep)}
    names = {zone.path: Path("/", zone.name) for zone in zones if zone.name not in _RESERVED}
    return {
        path: name
        for path, name in names.items()
        if not os.path.lexists(name) and name.parts[1:] not in searched
    }


def zone_names(zones: Sequence[Zone]) -> tuple[str, ...]:
    """The zones that a command finds by name, where the mechanism shows names."""
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
    """The confinement of a worker: no process writes to forge's own folder, nor to any ``.git`` or ``.forge``.

    The homes are hidden but for zones, the working directory, toolchains on PATH and what ``read`` names.
    """
    own = _real(forge_home)
    place = _real(workspace)
    homes = tuple(dict.fromkeys(map(_real, user_homes)))
    search = os.environ.get("PATH", "")
    named = [path for path in map(_real, read) if not path.is_relative_to(own)]
    found = {
        path
        for home, path in find_toolchains(homes, search)
        if not _is_in_another(path, home, homes)
    }
    shown = {*named, *(path for path in found if found.isdisjoint(path.parents))}
    open_zones = tuple(
        replace(zone, mode=ZoneMode.RO) if _is_closed(zone, own) else zone for zone in zones
    )
    protected = tuple(protected)  # it is walked through twice
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
    """Links on the way to a path, and the path itself if it is missing, as far as they are in writable folders."""
    for way in (*reversed(path.parents), path):
        if way.is_symlink() or (way == path and not os.path.lexists(path)):
            place = _real(way.parent) / way.name
            if any(place.is_relative_to(root) for root in writable):
                yield str(place), _leads(str(way))


def _leads(place: str) -> str | None:
    return os.path.realpath(place) if os.path.lexists(place) else None


def _hidden(home: Path, visible: Sequence[Path]) -> Iterator[Path]:
    """The home, unless it is a part of the system, and what is secret in those parts of it that can be seen."""
    secret = {place: _real(place) for place in (home / name for name in (*HIDDEN, FORGE))}
    if not any(home.is_relative_to(folder) for folder in _SYSTEM) and home != Path("/"):
        yield home
        around = _prefix(home)
        seen = tuple(map(_prefix, visible))
        secret = {
            place: real for place, real in secret.items() if _is_visible(place, real, around, seen)
        }
    yield from dict.fromkeys(secret.values())


def _is_in_another(path: Path, home: Path, homes: Iterable[Path]) -> bool:
    """Does it belong to another home, which lies in this one?"""
    return any(
        path.is_relative_to(other)
        for other in homes
        if other != home and other.is_relative_to(home)
    )


def _is_visible(place: Path, real: Path, home: str, visible: tuple[str, ...]) -> bool:
    """Home and visible folders are given as the texts that paths in them begin with."""
    return not _prefix(real).startswith(home) or any(
        _prefix(path).startswith(visible) for path in (place, real)
    )


def _prefix(path: Path) -> str:
    """The beginning of every path that lies there, with a slash at its end."""
    return f"{path}/" if path.name else str(path)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _is_closed(zone: Zone, own: Path) -> bool:
    """May only people write there, or no tool? What a command writes is not asked about file by file."""
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
    """Rules for real paths: a link is not a place, what it leads to is."""
    real = (Path(os.path.realpath(path)) for path in paths)
    yield from (ReachRule(path, reach) for path in real if path.exists())


def hooks_in(folder: Path) -> Iterator[Path]:
    """The hooks and settings in a folder such as ``.git``, existing or not."""
    yield from (folder / name for name in _NAMES)
    with suppress(OSError):
        for tree in (folder / "worktrees").iterdir():
            yield from (tree / name for name in _WORKTREE_NAMES)


class KeptHooks:
    """Files that cannot be mounted while a command runs, since they are links or do not exist, as they were before."""

    def __init__(self, folders: Iterable[Path]) -> None:
        places: list[Path] = []
        for folder in folders:
            if (folder / "objects").is_dir():
                for name in (HOOKS, INFO, MODULES):
                    with suppress(FileExistsError):
                        (folder / name).mkdir()
            places += hooks_in(folder)
        self._before = {
            place: _target(place) for place in places if place.is_symlink() or not place.exists()
        }

    def restore(self) -> list[str]:
        """Put everything back; returns what could not be."""
        failed = []
        for place, target in self._before.items():
            if os.path.lexists(place) != (target is not None) or _target(place) != target:
                try:
                    _restore(place, target)
                except OSError:
                    failed.append(str(place))
        return failed


def _target(place: Path) -> str | None:
    return os.readlink(place) if place.is_symlink() else None


def _restore(place: Path, target: str | None) -> None:
    if os.path.realpath(place.parent) != str(place.parent):
        raise OSError(f"{place.parent} leads elsewhere by now")
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
    if target is not None:
        place.symlink_to(target)
