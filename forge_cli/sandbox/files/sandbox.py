"""The sandbox: every way by which a tool reaches a file, each checked on the descriptor that it then uses."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.approval import Approval, Verdict
from forge_cli.core.errors import Stale, ToolError
from forge_cli.core.sandbox import FileInfo, FileKind, FolderEntry, SandboxView
from forge_cli.core.text import visible
from forge_cli.core.zones import Access, Zone
from forge_cli.files.home import user_home
from forge_cli.sandbox.files.consent import OwnFiles, check, consent
from forge_cli.sandbox.files.place import NotAFolder, kind_of, locate, open_for_listing, state_of
from forge_cli.sandbox.files.virtual import NoZone, innermost_zone, parse, spell, virtual
from forge_cli.sandbox.names import shown, unusable
from forge_cli.sandbox.zones.declared import distinct, open_zone
from forge_cli.sandbox.zones.zones import Isolation, checked_name
from forge_cli.schema.paths import PathUse

if TYPE_CHECKING:
    from forge_cli.sandbox.files.held import ChangeKeeper, HeldFile
    from forge_cli.sandbox.files.place import FileState, Place
    from forge_cli.sandbox.files.virtual import ParsedPath
    from forge_cli.schema.toolset import ToolsetEnv

T = TypeVar("T")
_ZONE_LIST = Verdict(Approval.PRE_APPROVED, "the list of zones", by="rule")
_KEYS = frozenset({"keys.json", "mcp-tokens.json", "proofs"})
_DECLARATIONS = {Access.READ: "ReadPath", Access.WRITE: "WritePath", Access.DELETE: "DeletePath"}


class JudgedPath(Struct, frozen=True):
    """A path of a call, the place that it led to when it was judged, and what zone and protected names say of it."""

    use: PathUse
    place: str
    """The virtual path of the real file."""
    state: FileState | None
    """The content on disk; None where there was none."""
    verdict: Verdict


class ListedName(NamedTuple):
    """A name in a folder, and what it leads to; ``enters`` for a folder that is there itself, not by a link."""

    name: str
    kind: FileKind
    enters: bool = False


class Sandbox:
    """The zones of one worker.

    ``judge`` says whether somebody has to consent; the other methods act. Each of them walks to the file again and
    checks the capability again, so a tree that changed since ``judge`` does not lead outside. This object acts without
    asking for consent: tools get a ``view`` of it, which checks consent on the very place that it opens.
    """

    def __init__(
        self,
        zones: Iterable[Zone],
        *,
        workspace: Path | None = None,
        protected: Iterable[Path] = (),
        isolation: Isolation | None = None,
        own: OwnFiles | None = None,
        no_default: str | None = None,
        home: Path | None = None,
    ) -> None:
        self._zones = tuple(zones)
        self._home = Path(os.path.realpath(home)) if home else None
        """forge's own folder, which is not part of a zone around it."""
        self.workspace = workspace
        """The folder in which relative paths begin."""
        self.no_default = no_default
        """Why the working directory is not a zone, where it would be one elsewhere, and what to do."""
        self.protected = tuple(protected)
        self.isolation = isolation or Isolation()
        self.notified: set[str] = set()
        """Notices that the user has seen and need not get from every toolset."""
        self.written: set[str] = set()
        """Real paths that calls have held for writing, with consent."""
        self.open_changes: Callable[[], ChangeKeeper] | None = None
        self.own = own or OwnFiles(self.protected)

    @classmethod
    def of(cls, zones: Iterable[Zone], *, workspace: Path | str | None = None) -> Sandbox:
        """For programs: zones whose paths are relative to the working directory; folders to write in are made."""
        folder, home = Path(workspace or ".").resolve(), user_home()
        placed = [replace(zone, name=checked_name(zone.name), path=folder / zone.path) for zone in zones]
        return cls(distinct(open_zone(zone, user_home=home) for zone in placed), workspace=folder)

    @property
    def zones(self) -> tuple[Zone, ...]:
        """The zones of the worker."""
        return self._zones

    def view(self, judged: Sequence[JudgedPath] = (), *, changes: bool = True) -> CallSandbox:
        """The sandbox as one call gets it: what asks is done only at the places that were judged for this call.

        Without ``changes`` those places can be looked at, and not yet changed.
        """
        return CallSandbox(self, judged, changes=changes)

    def without_consent(self) -> Sandbox:
        """The sandbox that asks nobody, to take back what a call has done with consent."""
        return self

    def judge(self, path: str, access: Access | str) -> Verdict:
        """Whether the access needs consent, and why; a ToolError when it is not possible at all."""
        return self.judge_use(PathUse(path, access, "file")).verdict

    def judge_use(self, use: PathUse) -> JudgedPath:
        """Walk to the place that a path means, and judge the access there; a ToolError when it is not possible."""
        asked, access = self.parse(use.path), use.access
        if asked.base is None and access in (Access.LIST, Access.INFO):
            return JudgedPath(use, "/", None, _ZONE_LIST)
        try:
            with self._locate(asked, follow=access is not Access.DELETE) as place:
                access = access if use.kind == "file" else _access_by_kind(place, access)
                check(asked, place, access, self._zones)
                verdict = consent(place, access, self.own)
                return JudgedPath(use, place.virtual, state_of(place.info), verdict)
        except NotAFolder as nothing:
            if access is not Access.INFO:
                raise
            return JudgedPath(use, use.path, None, Verdict(Approval.PRE_APPROVED, str(nothing), by="rule"))

    def parse(self, path: str) -> ParsedPath:
        """A path as it was written, understood: its zone, and the place in it."""
        return parse(path, self._zones, self.workspace)

    def resolve(self, path: str, access: Access = Access.INFO) -> str:
        """The virtual path of the real file, existing or not; a link that is to be deleted stays itself."""
        asked = self.parse(path)
        if asked.base is None:
            return "/"
        with self._locate(asked, follow=access is not Access.DELETE) as place:
            return place.virtual

    def spell(self, path: str) -> str:
        """A path as results name it, by its text alone: relative to the working directory below that, else virtual."""
        return spell(self.parse(path), self._zones, self.workspace)

    def real(self, path: str, access: Access | str = Access.READ) -> Path:
        """The path on the host, for a child process; a path to be read may be a folder."""
        with self.hold(path, Access(access), folders=True) as held:
            return held.place.real

    def exists(self, path: str) -> bool:
        """Is there a file or folder of this path, in a zone that may be read?"""
        if self.parse(path).base is None:
            return True
        try:
            with self.hold(path, Access.INFO) as held:
                return held.kind is not None
        except NotAFolder:
            return False

    def stat(self, path: str, *, follow: bool = True) -> FileInfo:
        """The entry that a path leads to; without ``follow`` a link at its end is described itself."""
        if self.parse(path).base is None:
            return FileInfo("/", "/", "directory", 0, 0.0)
        with self.hold(path, Access.INFO, follow=follow) as held:
            return held.info()

    def list(self, path: str) -> list[FolderEntry]:
        """The entries of a folder, sorted; ``/`` holds the zones."""
        if self.parse(path).base is None:
            return sorted(FolderEntry(zone.name, "directory") for zone in self._zones)
        return sorted(self._entries(path, self._entry), key=attrgetter("name", "kind"))

    def list_names(self, path: str) -> Sequence[ListedName]:
        """The same without sizes, for many folders: no file is looked at where the folder says what it is."""
        if self.parse(path).base is None:
            return sorted(ListedName(zone.name, "directory", enters=True) for zone in self._zones)
        return sorted(self._entries(path, self._name))

    def _entries(self, path: str, make: Callable[[Place, os.DirEntry[str]], T | None]) -> Sequence[T]:
        with self.hold(path, Access.LIST) as held:
            if held.place.info is None:
                raise ToolError(f"{shown(path)} does not exist")
            listing = open_for_listing(held.place.folder, held.place.name)
            hidden = self.hidden.get(held.place.real, ())
            with listing as folder, os.scandir(folder) as found:
                entries = (entry for entry in found if entry.name not in hidden)
                return [made for entry in entries if (made := make(held.place, entry)) is not None]

    def read_bytes(self, path: str, *, limit: int | None = None, expected: str | None = None) -> bytes:
        """The content of a regular file, or its first ``limit`` bytes; a very large one is not read as a whole."""
        with self.hold(path, Access.READ, expected) as held:
            return held.read(limit)

    def digest(self, path: str) -> str:
        """Another one after any change of a file; of equal content the same, unless the file is very large."""
        with self.hold(path, Access.READ) as held:
            return held.digest()

    def attributes(self, path: str) -> os.stat_result | None:
        """The attributes of a file: its mode, and who owns it; None where there is no file."""
        with self.hold(path, Access.INFO) as held:
            return held.place.info if held.kind == "file" else None

    def write_bytes(
        self, path: str, data: bytes, *, expected: str | None = None, like: os.stat_result | None = None
    ) -> None:
        """Replace a file as a whole, or make it, with the folders above it.

        A file that is replaced keeps its mode; with ``like`` it gets another's, those of ``attributes``.
        """
        with self.hold(path, Access.WRITE, expected) as held:
            held.write(data, like)

    def delete(self, path: str, *, expected: str | None = None) -> None:
        """Delete a file, a link (never what it leads to), or an empty folder."""
        with self.hold(path, Access.DELETE, expected) as held:
            held.delete()

    @contextmanager
    def hold(
        self, path: str, access: Access, expected: str | None = None, *, follow: bool = True, folders: bool = False
    ) -> Iterator[HeldFile]:
        """Hold what a path leads to for one access that its zone is capable of; ``Stale`` if it is not ``expected``.

        With ``folders`` a path to be read may be a folder; without ``follow`` a link at its end is held itself.
        """
        asked = self.parse(path)
        with self._locate(asked, follow=follow and access is not Access.DELETE) as place:
            access = _access_by_kind(place, access) if folders else access
            check(asked, place, access, self._zones)
            if expected is not None and place.virtual != expected:
                raise Stale(f"{asked} led to {shown(expected)} when it was judged, and to {shown(place.virtual)} now")
            self._check_consent(asked, place, access)
            if access is Access.WRITE:
                self.written.add(str(place.real))
            from forge_cli.sandbox.files.held import HeldFile

            yield HeldFile(asked, place, self._changed, self.open_changes)

    def _check_consent(self, asked: ParsedPath, place: Place, access: Access) -> None:
        """The owner of this object has checked consent; CallSandbox checks it here."""

    def _changed(self, place: Place, info: os.stat_result | None) -> None:
        """Called after a change, with what is there now."""

    @contextmanager
    def _locate(self, asked: ParsedPath, *, follow: bool) -> Iterator[Place]:
        """Hold a place until the end; what the system refuses is told to the model."""
        if asked.base is None:
            raise ToolError(f"{asked} is the list of zones and cannot be used as a file; list it instead")
        try:
            place = locate(asked, asked.base, self._zones, through_last=follow)
        except NoZone as error:
            raise NoZone(f"{error}; {self.no_default}" if self.no_default else str(error)) from None
        except OSError as error:
            raise _unusable(asked, error) from error
        try:
            if self.hides(place.real):
                raise ToolError(f"{asked} is in forge's own folder, which is not part of a zone")
            yield place
        except OSError as error:
            raise _unusable(asked, error) from error
        finally:
            os.close(place.folder)

    @property
    def hidden(self) -> Mapping[Path, Collection[str]]:
        """By folder, the names in it that are not there for tools: forge's own folder, and its files of keys."""
        return {self._home.parent: (self._home.name,), self._home: _KEYS} if self._home else {}

    def hides(self, real: Path) -> bool:
        """Is it in forge's own folder, outside of zones that lie in there, or one of its files of keys?"""
        if self._home is None or not real.is_relative_to(self._home):
            return False
        zone = innermost_zone(real, self._zones)
        is_key = not _KEYS.isdisjoint(real.relative_to(self._home).parts[:1])
        return is_key or zone is None or not zone.path.is_relative_to(self._home)

    def _entry(self, place: Place, entry: os.DirEntry[str]) -> FolderEntry | None:
        try:
            info = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return None
        kind, size = kind_of(info.st_mode), info.st_size
        if kind == "link":
            kind, size = self._link_target(place, entry.name)
        name = visible(entry.name) if unusable(entry.name) else entry.name
        return FolderEntry(name, kind, size if kind == "file" else 0)

    def _name(self, place: Place, entry: os.DirEntry[str]) -> ListedName | None:
        name, usable = entry.name, not unusable(entry.name)
        shown_name = name if usable else visible(name)
        if entry.is_file(follow_symlinks=False):
            return ListedName(shown_name, "file")
        if entry.is_dir(follow_symlinks=False):
            return ListedName(shown_name, "directory", enters=usable)
        found = self._entry(place, entry)
        return ListedName(found.name, found.kind) if found else None

    def _link_target(self, place: Place, name: str) -> tuple[FileKind, int]:
        try:
            found = self.stat(virtual(place.zone, (*place.parts, name)))
        except ToolError:
            return "link", 0
        return found.kind, found.size


def _unusable(asked: ParsedPath, error: OSError) -> ToolError:
    return ToolError(f"{asked} cannot be used: {error.strerror or error}")


def whole_sandbox(view: SandboxView) -> Sandbox:
    """The sandbox of a call with all that it can do, which is more than third-party tools are promised."""
    if not isinstance(view, Sandbox):
        raise TypeError(f"{view!r} is not a sandbox")
    return view


def full_sandbox(env: ToolsetEnv) -> Sandbox:
    """The whole sandbox behind a toolset's view of it, for built-in toolsets."""
    return whole_sandbox(env.sandbox)


def _access_by_kind(place: Place, access: Access) -> Access:
    """To read a folder is to list it."""
    return Access.LIST if access is Access.READ and place.kind == "directory" else access


class CallSandbox(Sandbox):
    """The sandbox as one call gets it: consent is checked on the very place that is opened, for each access.

    What is pre-approved there is done. What asks is done at a place that was judged for this call, while the same file
    is there: elsewhere the call is ``Stale`` and judged again, and a path that the call did not declare is refused.
    """

    def __init__(self, around: Sandbox, judged: Sequence[JudgedPath], *, changes: bool) -> None:
        super().__init__(
            around.zones,
            workspace=around.workspace,
            protected=around.protected,
            isolation=around.isolation,
            own=around.own,
            no_default=around.no_default,
            home=around._home,
        )
        self._around = around
        self.notified, self.written, self.open_changes = around.notified, around.written, around.open_changes
        self._places = {path.use.path: path.place for path in judged if path.use.access in _DECLARATIONS}
        self._granted: dict[str, tuple[FileState | None, set[Access]]] = {}
        for path in judged:
            accesses = {Access.READ, path.use.access} if changes else {Access.READ}
            self._granted.setdefault(path.place, (path.state, set()))[1].update(accesses)

    def without_consent(self) -> Sandbox:
        return self._around

    def _check_consent(self, asked: ParsedPath, place: Place, access: Access) -> None:
        declared = self._places.get(asked.text)
        if declared not in (None, place.virtual):
            raise Stale(f"{asked} led to {shown(declared)} when it was judged, and to {shown(place.virtual)} now")
        if access not in _DECLARATIONS:
            return
        verdict = consent(place, access, self.own)
        if verdict.approval is Approval.PRE_APPROVED:
            return
        state, accesses = self._granted.get(place.virtual, (None, set[Access]()))
        if access not in accesses:
            raise ToolError(
                f"{asked} was not touched: {verdict.reason}, and the call did not declare it; "
                f"declare the argument as {_DECLARATIONS[access]}, or name the path in touches"
            )
        if state != state_of(place.info):
            raise Stale(f"{asked} has changed since it was judged")

    def _changed(self, place: Place, info: os.stat_result | None) -> None:
        """Grant the call what it made itself."""
        if place.virtual in self._granted:
            self._granted[place.virtual] = (state_of(info), self._granted[place.virtual][1])
