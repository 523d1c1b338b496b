"""Rights to a place: the capability of its zone, and whether someone has to consent."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from forge_cli.core.approval import NEW_ENTRY, PRE_APPROVED, Approval, GrantRule, Verdict
from forge_cli.core.errors import ToolError
from forge_cli.core.zones import Access, Zone, ZoneMode
from forge_cli.sandbox.files.place import NotAFolder, Place, open_for_listing
from forge_cli.sandbox.files.virtual import ParsedPath
from forge_cli.sandbox.loaded import Find, LoadedFiles, fits_pattern, folded_parts
from forge_cli.sandbox.names import folded, lookalike_key, shown
from forge_cli.sandbox.protected import (
    FOLDERS,
    LATER_REASONS,
    TOOLS,
    WORKER_SUFFIX,
    WORKERS,
    is_secret,
    protected_among,
)

USER_EDITS = ("policy", "filesystem", "edits", NEW_ENTRY)
_SAYS = {Approval.PRE_APPROVED: "pre-approves", Approval.BLOCKED: "blocks"}


def require_capability(
    path: ParsedPath, place: Place, access: Access, zones: Sequence[Zone]
) -> None:
    """Raise a ToolError for the model if the place does not allow the access at all."""
    if access.changes and place.zone.mode is ZoneMode.RO:
        raise ToolError(
            f"zone '{place.zone.name}' is read-only, so {path} cannot be changed; "
            f"{_writable(zones)}"
        )
    if place.kind == "special":
        raise ToolError(
            f"{path} is a special file (a pipe, socket or device); only regular files can be used"
        )
    match access:
        case Access.READ:
            _check_file(path, place, "list it instead")
        case Access.WRITE:
            _check_file(path, place, "name a file in it")
        case Access.DELETE:
            _check_deletable(path, place, zones)
        case Access.LIST | Access.INFO:
            if place.kind == "file" and (path.folder or access is Access.LIST):
                raise NotAFolder(f"{path} is a file, not a folder; read it instead")


def _check_file(path: ParsedPath, place: Place, remedy: str) -> None:
    if place.kind == "directory":
        raise ToolError(f"{path} is a folder; {remedy}")
    if path.folder:
        raise ToolError(f"{path} names a folder, not a file; leave out what follows the name")


def _check_deletable(path: ParsedPath, place: Place, zones: Sequence[Zone]) -> None:
    if not place.parts:
        raise ToolError(
            f"{path} is the folder of zone '{place.zone.name}' itself, which cannot be deleted"
        )
    if place.kind != "directory":
        if path.folder and place.info is not None:
            raise NotAFolder(f"{path} is not a folder; leave out what follows the name")
        return
    for zone in zones:
        if zone.path.is_relative_to(place.real):
            raise ToolError(
                f"{path} holds the folder of zone '{zone.name}', so it cannot be deleted"
            )
    with open_for_listing(place.folder, place.name) as folder:
        if os.listdir(folder):
            raise ToolError(f"{path} is a folder that is not empty; delete the files in it first")


def _writable(zones: Sequence[Zone]) -> str:
    names = ", ".join(sorted(f"/{zone.name}" for zone in zones if zone.mode is ZoneMode.RW))
    if names:
        return f"zones that can be written: {names}"
    return "no zone can be written"


def consent_verdict(place: Place, access: Access, own: OwnFiles) -> Verdict:
    """Return the strictest verdict on a place, with every reason for it.

    Reasons beyond the zone, such as a protected name, always ask.
    """
    if not access.changes and not (access is Access.READ and secret_in(place)):
        return _inside(place.zone)
    verdicts = list(_verdicts(place, access, own))
    approval = Approval.strictest(*(verdict.approval for verdict in verdicts))
    decisive = [verdict for verdict in verdicts if verdict.approval is approval]
    grants = decisive[0].grants if len(decisive) == 1 else ()
    return replace(
        decisive[0], reason="; ".join(verdict.reason for verdict in decisive), grants=grants
    )


def _verdicts(place: Place, access: Access, own: OwnFiles) -> Iterator[Verdict]:
    if not access.changes:
        yield _inside(place.zone)
        if access is Access.READ and (name := secret_in(place)):
            yield _ask(f"{shown(name)} may hold secrets", "protected names: .env*")
        return
    yield _zone_verdict(place.zone, access)
    if (protected := protected_in(place)) and asks_for(place.zone, protected[1]):
        name, why = protected
        yield _ask(f"{shown(name)} is a protected name: {why}", "protected names")
    if (found := own.why(place)) and asks_for(place.zone, found[0]):
        yield _ask(*found)
    if access is Access.WRITE:
        yield from _write_verdicts(place)


def _write_verdicts(place: Place) -> Iterator[Verdict]:
    has_others = place.kind == "file" and place.info is not None and place.info.st_nlink > 1
    # In the view of a draft, a write makes a copy, and the other names keep the earlier file.
    if has_others and not place.zone.drafted:
        yield _ask("the file has other names, perhaps outside the zone (hard links)", "hard links")
    if twin := _twin(place):
        yield _ask(
            f"its name looks the same as the existing {shown(twin)}", "names that look alike"
        )


def asks_for(zone: Zone, why: str) -> bool:
    """Return True if a path that is protected for this reason asks in a zone.

    In a draft, only files do that forge obeys or loads while the session runs; the review asks
    about the others.
    """
    return not zone.drafted or why not in LATER_REASONS


def _inside(zone: Zone) -> Verdict:
    rule = None if zone.default else f"sandbox.zones.{zone.name}"
    return Verdict(Approval.PRE_APPROVED, f"inside zone '{zone.name}'", rule, zone.where, by="rule")


def _zone_verdict(zone: Zone, access: Access) -> Verdict:
    write = access is Access.WRITE
    approval = zone.write if write else zone.delete
    where = zone.write_where if write else zone.delete_where
    if approval is Approval.ASK:
        reason = f"{'writing' if write else 'deleting'} in zone '{zone.name}' needs your OK"
    else:
        reason = f"zone '{zone.name}' {_SAYS[approval]} {access.value}"
    if zone.default:
        rule = f"the default zone '{zone.name}'"
    else:
        rule = f"sandbox.zones.{zone.name}.approval.{access.value}"
    return Verdict(
        approval,
        reason,
        rule,
        where or zone.where,
        by="rule",
        grants=((_zone_rule(zone, access),),),
    )


def _zone_rule(zone: Zone, access: Access) -> GrantRule:
    """Return the rule that pre-approves this access in the zone, for a worker or for a person."""
    title = f"{'edits' if access is Access.WRITE else 'deletions'} in zone {zone.name}"
    at = ("sandbox", "zones", zone.name, "approval", access.value)
    entry = {"name": zone.name, "path": ".", "mode": zone.mode.value} if zone.default else None
    if access is not Access.WRITE or zone.write_stated:
        return GrantRule(at, PRE_APPROVED, title, entry=entry)
    return GrantRule(at, PRE_APPROVED, title, USER_EDITS, str(zone.path), entry)


def _ask(reason: str, rule: str) -> Verdict:
    return Verdict(Approval.ASK, reason, rule, by="rule")


def _twin(place: Place) -> str | None:
    """Return another name in the same folder that looks the same as the name to be written."""
    if len(place.missing) >= len(place.parts):
        return None  # the folder of the zone does not exist yet
    # Only the first missing name has neighbours; the folders below it are new.
    wanted = (*place.missing, place.name)[0]
    # A name that looks like an existing one could replace it in the eyes of a person.
    key = lookalike_key(wanted)
    with open_for_listing(place.folder) as folder:
        alike = [
            name for name in os.listdir(folder) if name != wanted and lookalike_key(name) == key
        ]
        return next((name for name in alike if not _is_same_file(place, name, folder)), None)


def _is_same_file(place: Place, name: str, folder: int) -> bool:
    """Return True if the name finds the same file, as another normal form of its name may."""
    if place.info is None:
        return False
    return os.path.samestat(place.info, os.stat(name, dir_fd=folder, follow_symlinks=False))


def secret_in(place: Place) -> str | None:
    """Return the name in a path, or in a link that led there, that may hold secrets."""
    return next((name for name in _names(place) if is_secret(name)), None)


def protected_in(place: Place) -> tuple[str, str] | None:
    """Return the protected name in a path, or in a link that led there, and why it is protected."""
    ways = [(place.zone.path.name, place.parts)]
    ways += [(link.parent.name, (link.name,)) for link in place.links]
    for name, parts in ways:
        if found := protected_among(parts, name):
            return found
    # A zone, or a link, may itself be inside a protected folder such as .git.
    around = list(place.zone.path.parts)
    for link in place.links:
        around += link.parts
    folders = [name for name in around if folded(name) in FOLDERS]
    if folders:
        return protected_among(folders)
    if folded(place.name) == TOOLS and _lies_beside_a_worker(place):
        return place.name, "it may be the code of the worker beside it"
    return None


def _lies_beside_a_worker(place: Place) -> bool:
    if place.missing or not place.parts:
        return False
    with open_for_listing(place.folder) as folder:
        names = map(folded, os.listdir(folder))
        return any(name in WORKERS or name.endswith(WORKER_SUFFIX) for name in names)


def _names(place: Place) -> Iterator[str]:
    yield from place.parts
    yield from (link.name for link in place.links)


class OwnFiles:
    """The worker's own files: changing them changes what the worker is allowed to do.

    A ``*`` in a path stands for any name, also of files that do not exist yet.
    """

    def __init__(self, paths: Iterable[Path], loaded: Find = LoadedFiles) -> None:
        """Protect ``paths``, and the files that ``loaded`` finds at the time of a check."""
        self.loaded = loaded
        given = [Path(os.path.abspath(path)) for path in paths]
        real = [Path(os.path.realpath(path)) for path in given]
        named = dict.fromkeys((*given, *real))
        self._paths = tuple(path for path in named if "*" not in str(path))
        self._folded = {folded_parts(path) for path in self._paths}
        self._patterns = {folded_parts(path) for path in named if "*" in str(path)}

    def why_changed(self, paths: Iterable[Path]) -> dict[Path, str]:
        """Return the real paths among these that ask although no name is protected, and why."""
        loaded = self.loaded()
        found: dict[Path, str] = {}
        for path in paths:
            way = folded_parts(path)
            if self._has(way):
                found[path] = "it is one of the worker's own files"
            elif why := loaded.why([way]):
                found[path] = why
        return found

    def why(self, place: Place) -> tuple[str, str] | None:
        """Return why a place asks, and the rule for it; None if it is not an own or loaded file."""
        if place in self:
            return "it is one of the worker's own files", "protected names: the worker's own files"
        found = self.loaded().why(_ways(place))
        if found:
            return (found, "protected names: the files that forge loads")
        return None

    def __contains__(self, place: Place) -> bool:
        for way in _ways(place):
            if self._has(way) or any(fits_pattern(way, pattern) for pattern in self._patterns):
                return True
        # A hard link to an own file has another path, and the same file behind it.
        return place.info is not None and any(self._is(path, place.info) for path in self._paths)

    def _has(self, way: tuple[str, ...]) -> bool:
        """Return True for an own path, and for everything below one that is a folder."""
        return any(way[: len(own)] == own for own in self._folded)

    @staticmethod
    def _is(path: Path, info: os.stat_result) -> bool:
        try:
            return os.path.samestat(os.stat(path), info)
        except OSError:
            return False


def _ways(place: Place) -> list[tuple[str, ...]]:
    """Return the case-folded parts of a place, and of the links that led there."""
    return [folded_parts(path) for path in (place.real, *place.links)]
