"""The sandbox: all access of tools to files, checked on the descriptor that is then used."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.approval import Approval, Verdict
from forge_cli.core.errors import Stale, ToolError
from forge_cli.core.sandbox import SandboxView
from forge_cli.core.zones import Access, Zone
from forge_cli.files.home import user_home
from forge_cli.sandbox.files.consent import OwnFiles, consent_verdict, require_capability
from forge_cli.sandbox.files.operations import FileOperations
from forge_cli.sandbox.files.place import NotAFolder, locate_place, state_of
from forge_cli.sandbox.files.virtual import NoZone, innermost_zone, parse_path, spell_path
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.zones.declared import open_zone, require_distinct
from forge_cli.sandbox.zones.zones import Isolation, require_zone_name
from forge_cli.schema.paths import PathUse

if TYPE_CHECKING:
    from forge_cli.sandbox.files.held import ChangeKeeper, HeldFile
    from forge_cli.sandbox.files.place import FileState, Place
    from forge_cli.sandbox.files.virtual import ParsedPath

_ZONE_LIST = Verdict(Approval.PRE_APPROVED, "the list of zones", by="rule")
_KEYS = frozenset({"keys.json", "mcp-tokens.json", "proofs"})
_DECLARATIONS = {Access.READ: "ReadPath", Access.WRITE: "WritePath", Access.DELETE: "DeletePath"}


class JudgedPath(Struct, frozen=True):
    """A path of a call: its target when it was judged, and the verdict."""

    use: PathUse
    place: str
    """The virtual path of the real file."""
    state: FileState | None
    """The state of the file on disk; None if there was none."""
    verdict: Verdict


class Sandbox(FileOperations):
    """The zones of one worker.

    ``judge`` returns whether someone has to consent; the other methods act. Each of them resolves
    and checks the path again, so that a tree that changed since ``judge`` does not lead outside.
    This object acts without asking for consent. Tools get a ``view`` of it, which checks consent on
    the very place that it opens.
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
        """The home folder of forge, which is not part of a zone around it."""
        self.workspace = workspace
        """The folder that relative paths are relative to."""
        self.no_default = no_default
        """Why the working directory is not a zone by default, and what to do about it."""
        self.protected = tuple(protected)
        self.isolation = isolation or Isolation()
        self.notified: set[str] = set()
        """Notices that the user has already seen, so that other toolsets do not repeat them."""
        self.written: set[str] = set()
        """Real paths that approved calls have held for writing."""
        self.open_changes: Callable[[], ChangeKeeper] | None = None
        self.own = own or OwnFiles(self.protected)

    @classmethod
    def of(cls, zones: Iterable[Zone], *, workspace: Path | str | None = None) -> Sandbox:
        """Return a sandbox for programs; relative zones are in the working directory.

        Writable folders are created.
        """
        folder = Path(workspace or ".").resolve()
        home = user_home()
        placed = [
            replace(zone, name=require_zone_name(zone.name), path=folder / zone.path)
            for zone in zones
        ]
        return cls(
            require_distinct(open_zone(zone, user_home=home) for zone in placed), workspace=folder
        )

    @property
    def zones(self) -> tuple[Zone, ...]:
        """The zones of the worker."""
        return self._zones

    def view(self, judged: Sequence[JudgedPath] = (), *, changes: bool = True) -> CallSandbox:
        """Return the sandbox of one call; places that ask must have been judged for it.

        Without ``changes``, the call can look at those places but not change them.
        """
        return CallSandbox(self, judged, changes=changes)

    def judge(self, path: str, access: Access | str) -> Verdict:
        """Return whether the access needs consent, and why.

        Raise a ToolError if it is impossible.
        """
        return self.judge_use(PathUse(path, access, "file")).verdict

    def judge_use(self, use: PathUse) -> JudgedPath:
        """Resolve a path and judge the access to it; raise a ToolError if it is impossible."""
        asked = self.parse(use.path)
        access = use.access
        if asked.base is None and access in (Access.LIST, Access.INFO):
            return JudgedPath(use, "/", None, _ZONE_LIST)
        try:
            with self._locate(asked, follow=access is not Access.DELETE) as place:
                if use.kind != "file":
                    access = _access_by_kind(place, access)
                require_capability(asked, place, access, self._zones)
                verdict = consent_verdict(place, access, self.own)
                return JudgedPath(use, place.virtual, state_of(place.info), verdict)
        except NotAFolder as nothing:
            # For a question about a path, it is an answer that nothing can be there.
            if access is not Access.INFO:
                raise
            return JudgedPath(
                use, use.path, None, Verdict(Approval.PRE_APPROVED, str(nothing), by="rule")
            )

    def parse(self, path: str) -> ParsedPath:
        """Parse a path as it was written into a zone and a place in it."""
        return parse_path(path, self._zones, self.workspace)

    def resolve(self, path: str, access: Access = Access.INFO) -> str:
        """Return the virtual path of the real file, which need not exist.

        A link to be deleted stays itself.
        """
        asked = self.parse(path)
        if asked.base is None:
            return "/"
        with self._locate(asked, follow=access is not Access.DELETE) as place:
            return place.virtual

    def spell(self, path: str) -> str:
        """Return a path as results show it, by its text alone."""
        return spell_path(self.parse(path), self._zones, self.workspace)

    def hold(
        self,
        path: str,
        access: Access,
        expected: str | None = None,
        *,
        follow: bool = True,
        folders: bool = False,
    ) -> AbstractContextManager[HeldFile]:
        return self.hold_for(None, path, access, expected, follow=follow, folders=folders)

    @contextmanager
    def hold_for(
        self,
        rights: AccessRights | None,
        path: str,
        access: Access,
        expected: str | None = None,
        *,
        follow: bool = True,
        folders: bool = False,
    ) -> Iterator[HeldFile]:
        """Hold a file as ``hold`` does if ``rights`` allow it.

        With None, the caller has checked consent.
        """
        asked = self.parse(path)
        with self._locate(asked, follow=follow and access is not Access.DELETE) as place:
            if folders:
                access = _access_by_kind(place, access)
            require_capability(asked, place, access, self._zones)
            if expected is not None and place.virtual != expected:
                raise _led_elsewhere(asked, expected, place)
            if rights:
                rights.require(asked, place, access)
            # A scan after commands must not remove protected names that a call made with consent.
            if access is Access.WRITE:
                self.written.add(str(place.real))
            from forge_cli.sandbox.files.held import HeldFile

            yield HeldFile(
                asked, place, rights.note_change if rights else _forget_change, self.open_changes
            )

    @contextmanager
    def _locate(self, asked: ParsedPath, *, follow: bool) -> Iterator[Place]:
        """Hold a place until the context ends; errors of the system become errors for the model."""
        if asked.base is None:
            raise ToolError(
                f"{asked} is the list of zones and cannot be used as a file; list it instead"
            )
        try:
            place = locate_place(asked, asked.base, self._zones, through_last=follow)
        except NoZone as error:
            if self.no_default:
                raise NoZone(f"{error}; {self.no_default}") from None
            raise NoZone(str(error)) from None
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
        """The names in each folder that tools do not see: forge's own folder and its key files."""
        if self._home:
            return {self._home.parent: (self._home.name,), self._home: _KEYS}
        return {}

    def hides(self, real: Path) -> bool:
        """Return True for forge's folder except zones inside it, and always for its keys."""
        if self._home is None or not real.is_relative_to(self._home):
            return False
        zone = innermost_zone(real, self._zones)
        is_key = not _KEYS.isdisjoint(real.relative_to(self._home).parts[:1])
        return is_key or zone is None or not zone.path.is_relative_to(self._home)


def _led_elsewhere(asked: ParsedPath, before: str, place: Place) -> Stale:
    now = shown(place.virtual)
    return Stale(f"{asked} led to {shown(before)} when it was judged, and to {now} now")


def _unusable(asked: ParsedPath, error: OSError) -> ToolError:
    return ToolError(f"{asked} cannot be used: {error.strerror or error}")


def worker_sandbox(view: SandboxView | FileOperations) -> Sandbox:
    """Return the worker's sandbox behind a view; it acts without asking for consent."""
    if isinstance(view, CallSandbox):
        return view.sandbox
    if isinstance(view, Sandbox):
        return view
    raise TypeError(f"{view!r} is not a sandbox")


def file_operations(view: SandboxView) -> FileOperations:
    """Return the view as forge's own type, with methods that third-party tools lack."""
    if not isinstance(view, FileOperations):
        raise TypeError(f"{view!r} is not a sandbox")
    return view


def _forget_change(place: Place, info: os.stat_result | None) -> None:
    """Ignore a change: without a call, there are no rights to extend."""


def _access_by_kind(place: Place, access: Access) -> Access:
    """Return LIST for reading a folder, else the access itself."""
    if access is Access.READ and place.kind == "directory":
        return Access.LIST
    return access


class CallSandbox(FileOperations):
    """The sandbox of one call, which checks consent for each access to the place it opens.

    Pre-approved accesses pass. An access that asks passes only at a place that was judged for this
    call, while the same file is there. If the file has changed, the call is ``Stale`` and is judged
    again. Undeclared paths are refused.
    """

    def __init__(self, sandbox: Sandbox, judged: Sequence[JudgedPath], *, changes: bool) -> None:
        """Grant the judged places; without ``changes``, they can only be read."""
        self.sandbox = sandbox
        """The worker's sandbox, which acts without asking for consent."""
        self._rights = AccessRights(sandbox, judged, changes=changes)

    @property
    def zones(self) -> tuple[Zone, ...]:
        return self.sandbox.zones

    @property
    def hidden(self) -> Mapping[Path, Collection[str]]:
        return self.sandbox.hidden

    def judge(self, path: str, access: Access | str) -> Verdict:
        return self.sandbox.judge(path, access)

    def parse(self, path: str) -> ParsedPath:
        return self.sandbox.parse(path)

    def spell(self, path: str) -> str:
        return self.sandbox.spell(path)

    def resolve(self, path: str, access: Access = Access.INFO) -> str:
        return self.sandbox.resolve(path, access)

    def hold(
        self,
        path: str,
        access: Access,
        expected: str | None = None,
        *,
        follow: bool = True,
        folders: bool = False,
    ) -> AbstractContextManager[HeldFile]:
        return self.sandbox.hold_for(
            self._rights, path, access, expected, follow=follow, folders=folders
        )


class AccessRights:
    """The rights of one call: to places that were judged for it, and to what needs no consent."""

    def __init__(self, sandbox: Sandbox, judged: Sequence[JudgedPath], *, changes: bool) -> None:
        """Grant each judged place its access, or without ``changes`` only reading."""
        self._sandbox = sandbox
        self._changes = changes
        self._places: dict[str, str] = {}
        self._granted: dict[str, set[Access]] = {}
        self._states: dict[str, FileState | None] = {}
        """The state of each granted place when it was judged, or as the call itself left it."""
        for path in judged:
            if path.use.access in _DECLARATIONS:
                self._places[path.use.path] = path.place
            # Two paths may lead to one file: its first state counts, and both accesses.
            self._states.setdefault(path.place, path.state)
            granted = self._granted.setdefault(path.place, {Access.READ})
            if changes:
                granted.add(path.use.access)

    def require(self, asked: ParsedPath, place: Place, access: Access) -> None:
        """Raise a ToolError if the call lacks this right, or Stale if the place has changed."""
        declared = self._places.get(asked.text)
        if declared is not None and declared != place.virtual:
            raise _led_elsewhere(asked, declared, place)
        if access.changes and not self._changes:
            raise ToolError(f"{asked} was not touched: a check or a preview of a call only looks")
        if access not in _DECLARATIONS:
            return
        verdict = consent_verdict(place, access, self._sandbox.own)
        if verdict.approval is Approval.PRE_APPROVED:
            return
        if access not in self._granted.get(place.virtual, ()):
            raise ToolError(
                f"{asked} was not touched: {verdict.reason}, and the call did not declare it; "
                f"declare the argument as {_DECLARATIONS[access]}, or name the path in touches"
            )
        if self._states[place.virtual] != state_of(place.info):
            raise Stale(f"{asked} has changed since it was judged")

    def note_change(self, place: Place, info: os.stat_result | None) -> None:
        """Update the state of a place that the call itself changed."""
        if place.virtual in self._granted:
            self._states[place.virtual] = state_of(info)
