"""Trials: commands that would ask, run on copies without a network before anyone is asked."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Literal

from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.errors import ToolError
from forge_cli.core.processes import Finished
from forge_cli.core.trial import TriedWant
from forge_cli.sandbox.changes.apply import ChangeSet, is_begun
from forge_cli.sandbox.changes.path_changes import ReadUntil, TooManyChanges, UnknownChange
from forge_cli.sandbox.files.consent import OwnFiles
from forge_cli.sandbox.files.place import Identity, identity_of
from forge_cli.sandbox.isolation.isolation import Confined
from forge_cli.sandbox.isolation.temporary import TemporaryCopy
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.processes.command import Wrap
from forge_cli.sandbox.processes.view import session_view
from forge_cli.sandbox.trial import masked
from forge_cli.sandbox.trial.copies import Copies, SocketState, drop_copies, mounted_below
from forge_cli.sandbox.trial.enter import NOT_MOUNTED, NOTHING
from forge_cli.sandbox.trial.masked import Masks, TooManySecrets
from forge_cli.sandbox.trial.view import OUTSIDE, UNSEEN, TrialView, complaints

Run = Callable[[Wrap], Awaitable[Finished]]

UNTRIED = "commands are not tried on a copy first"
LINE_UNTRIED = "this line is not tried on a copy first"
MAX_ATTEMPTS = 3
"""Attempts to try a command whose files another program keeps changing."""
_STAND_INS = "stand-ins"
_REFUSED_SOCKETS: Mapping[SocketState, str] = {
    "there": "is a unix socket",
    "absent": "is a unix socket that does not exist",
    "own": "is a unix socket of its own, which no command may make",
    "unknown": "no command may make",
}
ENDED_AT_NAME = "it was ended there, because it needs the network"
_MOVED = "it may have failed because a folder cannot be moved on a copy"
MAX_PATHS = 50_000
"""Paths that a trial may make, change or delete."""
TOO_MANY = "it made too many files"
_MISSING = (errno.ENOENT, errno.EACCES, errno.EPERM)
"""Errors of a program that meets a folder which a trial hides."""
LISTED = 5
"""Wants of each kind that are listed."""


_SOCKET_PROGRAMS = re.compile(
    r"(?<![\w.-])(?:docker|docker-compose|podman|buildah|nerdctl|ctr|kubectl|minikube|psql|pg_\w+"
    r"|mysql\w*|mariadb\w*|redis-cli|ssh(?:-\w+)?|gpg2?|gpg-\w+|systemctl|journalctl|loginctl"
    r"|busctl|dbus-\w+|tmux|screen|emacsclient|supervisorctl|virsh|lxc|snap|adb|watchman)(?![\w.-])"
)
"""Programs that use unix sockets, for kernels that cannot show which sockets are wanted."""


class NotTried(Exception):
    """A command that was not tried, with the reason."""


class TriedLine(Struct, frozen=True):
    """A tried command: how it ended, what it changed, and what it lacked."""

    done: Finished
    changes: ChangeSet
    wanted: tuple[TriedWant, ...] = ()
    """What it reached for and was refused, but the real command would get."""
    unsure: str | None = None
    """Another reason why the real command may end differently."""
    sockets: tuple[str, ...] = ()
    """Wanted unix sockets that exist here; a yes lets the command use them."""
    temporary: TemporaryCopy | None = None
    """Its copy of the shared ``/tmp``."""
    programs: tuple[str, ...] = ()
    """Paths of the programs that it started, as far as known."""
    commands: tuple[tuple[str, ...], ...] | None = None
    """The words of started programs that were asked for by name; None if some are unknown."""
    has_run: bool = False
    """True for no trial: the command ran with its network, and only its changes wait."""

    @property
    def complete(self) -> bool:
        """True if the real command would do the same."""
        return not self.wanted and self.unsure is None

    @property
    def no_effect(self) -> bool:
        return self.complete and not self.changes.changes

    @property
    def stamp(self) -> str:
        """The identity of what a yes applies, or lets the command use."""
        bound = self.changes.changes if self.complete else self.sockets
        return sha256(repr(bound).encode(errors="surrogateescape")).hexdigest()


def want_of(socket: str, state: SocketState) -> TriedWant:
    """Return the want of a unix socket, which is always refused."""
    return TriedWant("read", socket or "a unix socket", _REFUSED_SOCKETS[state])


def want_of_file(name: str) -> TriedWant:
    """Return the want of a masked file."""
    below_runtime = name == masked.RUNTIME or name.startswith(f"{masked.RUNTIME}/")
    return TriedWant("read", name, UNSEEN if below_runtime else "may hold secrets")


def copies_problem(wrap: Confined) -> str | None:
    """Return why commands cannot work on copies, as far as known beforehand."""
    if wrap.mechanism.name != "bwrap":
        return f"commands are confined by {wrap.mechanism.name}, and copies need bwrap"
    if place := mounted_below([zone.path for zone in wrap.confinement.zones]):
        return f"{shown(str(place))} is a file system of its own inside a zone"
    return None


def may_lack_rename(done: Finished) -> bool:
    """Return True if a command failed because of the copy: it could not rename a folder.

    In a draft, running it for real would fail in the same way.
    """
    if session_view() is not None:
        return False
    said = f"{done.stdout}\n{done.stderr}"
    return bool(done.exit_code) and (
        os.strerror(errno.EXDEV).lower() in said.lower() or "EXDEV" in said
    )


class Trials:
    """The trials of one worker's commands."""

    def __init__(self, wrap: Confined, view: TrialView, *, own: OwnFiles, room: int | None) -> None:
        self._wrap = wrap
        self._own = own
        self._view = view
        self._room = room

    @cached_property
    def problem(self) -> str | None:
        """The reason why nothing can be tried, as far as known beforehand."""
        return copies_problem(self._wrap)

    async def run(
        self,
        argv: Sequence[str],
        folder: Path,
        run: Run,
        *,
        cwd: Path,
        writable: Iterable[Path],
        withheld: Sequence[str] | None = None,
        programs: frozenset[str] = frozenset(),
        seconds: float,
    ) -> TriedLine:
        """Run a command on copies in a folder of its own.

        Files and variables that are ``withheld`` may make it fail; with None, its words and output
        are not searched for what it lacked. The words of ``programs``, names in lower case, are
        recorded. ``seconds`` bounds reading the changes.
        """
        for _ in range(MAX_ATTEMPTS):
            drop_copies(folder)
            if is_begun(folder):
                raise NotTried(
                    f"interrupted changes of the same line are still in {shown(str(folder))}"
                )
            tried = await self._run(argv, folder, run, writable, programs, seconds)
            if tried is not None and withheld is None:
                if may_lack_rename(tried.done):
                    return replace(tried, unsure=_MOVED)
                return tried
            if tried is not None and withheld is not None:
                return self._doubted(tried, argv, cwd, withheld)
        raise NotTried("another program keeps changing the same files")

    async def _room_left(self) -> int | None:
        """Return how many bytes a trial may write; in a draft, what fits into it."""
        view = session_view()
        left = await to_thread.run_sync(view.left) if view else None
        if left is None or (self._room is not None and self._room <= left):
            return self._room
        return max(left, 0)

    async def _run(
        self,
        argv: Sequence[str],
        folder: Path,
        run: Run,
        writable: Iterable[Path],
        programs: frozenset[str],
        seconds: float,
    ) -> TriedLine | None:
        """Make one attempt; return None if another program changed a file in the meantime."""
        with self._masked(folder) as masks:
            confinement = self._wrap.confinement.protecting(self._own.loaded())
            names = confinement.names()
            opened = confinement.opened(writable)
            wrap = replace(
                self._wrap,
                confinement=confinement,
                writable=tuple(opened),
                names=names,
                covers=tuple(masks.rules),
            )
            room = await self._room_left()
            copies = Copies(
                folder,
                wrap,
                network=False,
                room=room,
                paths=MAX_PATHS,
                programs=True,
                names=programs,
                ends_at_name=True,
            )
            if self._wrap.temporary:
                copies.temporary = self._wrap.temporary.copy(folder.name)
            done = await run(copies)
            report, reached, secrets = copies.report(), copies.reached(), masks.opened()
        if report is None and not done.timed_out and done.exceeded is None:
            if done.exit_code == NOT_MOUNTED:
                raise NotTried(
                    done.stderr.strip().removeprefix(f"forge: {NOTHING}: ") or "it did not start"
                )
            raise NotTried("it ended before its effects could be seen")
        view = session_view()
        if view and room != self._room and report and report.exceeded:
            drop_copies(folder)
            raise ToolError(f"it was stopped, and nothing of it was kept: {view.limit}")
        if report and report.too_many:
            return self._with_too_many(done, copies)
        until = ReadUntil(MAX_PATHS, time.monotonic() + seconds)
        try:
            changes = await to_thread.run_sync(lambda: self.marked(copies.read(until=until)))
        except TooManyChanges:
            return self._with_too_many(done, copies)
        except UnknownChange as error:
            raise NotTried(f"its changes cannot be read: {error}") from None
        if copies.is_overtaken(changes):
            return None
        wanted = list(map(want_of_file, secrets))
        if report and report.network:
            places = report.reached[:LISTED] or ["an address that it knows"]
            wanted[:0] = [TriedWant("network", place) for place in places]
        found = reached.sockets[:LISTED] if reached else ()
        # A command that was ended may have been about to show which socket it wants.
        if report and report.ended_at_name:
            found = [each for each in found if each[1] != "unknown"]
        wanted += [want_of(name, state) for name, state in found]
        sockets = tuple(name for name, state in found if state == "there" and name.startswith("/"))
        unsure = None
        if report and not reached:
            unsure = self._unseen(argv[-1])
        if report and report.exceeded:
            unsure = "it was stopped: it wrote more than a trial may"
        elif report and report.ended_at_name:
            unsure = ENDED_AT_NAME
        elif done.timed_out or done.exit_code is None or report is None:
            unsure = "it did not finish"
        commands = None
        if reached and not reached.unlisted:
            commands = tuple(map(tuple, reached.commands))
        return TriedLine(
            done,
            changes,
            tuple(wanted),
            unsure,
            sockets,
            temporary=copies.temporary,
            programs=tuple(reached.programs) if reached else (),
            commands=commands,
        )

    @staticmethod
    def _with_too_many(done: Finished, copies: Copies) -> TriedLine:
        """Return a trial with too many changes to examine, none of which are kept."""
        drop_copies(copies.folder)
        copies.folder.mkdir(mode=0o700, parents=True)
        nothing = ChangeSet(copies.folder, ())
        nothing.save()
        return TriedLine(done, nothing, unsure=TOO_MANY)

    def marked(self, changes: ChangeSet) -> ChangeSet:
        """Return the changes, with reasons for files that forge loads or that are protected."""
        why = {
            **self._shared(changes),
            **self._own.why_changed([change.path for change in changes.changes]),
        }
        marked = []
        for change in changes.changes:
            if change.path in why:
                marked.append(replace(change, loaded=why[change.path]))
        if not marked:
            return changes
        by_key = {change.key: change for change in marked}
        found = replace(
            changes, changes=tuple(by_key.get(change.key, change) for change in changes.changes)
        )
        found.save()
        return found

    def _shared(self, changes: ChangeSet) -> dict[Path, str]:
        """Return the reasons for changes of files that also have a protected name (a hard link)."""
        several: dict[Path, Identity] = {}
        for change in changes.changes:
            if change.before and change.before.kind == "file" and change.after:
                with suppress(OSError):
                    info = os.lstat(change.path)
                    if info.st_nlink > 1:
                        several[change.path] = identity_of(info)
        if not several:
            return {}
        confinement = self._wrap.confinement.protecting(self._own.loaded())
        protected: dict[Identity, Path] = {}
        for path in confinement.shared(confinement.names()):
            with suppress(OSError):
                protected.setdefault(identity_of(os.lstat(path)), path)
        reasons: dict[Path, str] = {}
        for path, identity in several.items():
            if identity in protected:
                other = shown(str(protected[identity]))
                reasons[path] = f"it is another name of {other} (a hard link)"
        return reasons

    def _unseen(self, line: str) -> str | None:
        """Return why a line may have wanted a unix socket, if the kernel cannot show it."""
        if programs := _SOCKET_PROGRAMS.search(line):
            return f"{programs[0]} may have wanted a unix socket, which this machine cannot show"
        if named := next((path for path in self._view.named if path.is_socket()), None):
            return f"it may have wanted {shown(str(named))}, which this machine cannot show"
        return None

    @contextmanager
    def _masked(self, folder: Path) -> Iterator[Masks]:
        with ExitStack() as opened:
            try:
                folder.mkdir(mode=0o700, parents=True)
                secrets = self._view.secrets(self._wrap.confinement.names())
                masks = opened.enter_context(masked.mask_secrets(secrets, folder / _STAND_INS))
            except TooManySecrets as error:
                raise NotTried(str(error)) from None
            except OSError as error:
                raise NotTried(f"no copy can be made: {error.strerror}") from None
            yield masks

    def _doubted(
        self, tried: TriedLine, argv: Sequence[str], cwd: Path, withheld: Sequence[str]
    ) -> TriedLine:
        """Return the trial with what its words and output show that it lacked."""
        done = tried.done
        said = f"{done.stdout}\n{done.stderr}"
        # A command that succeeds may print paths that it never wanted, as `cat /etc/passwd` does.
        doubtful = said if done.exit_code else complaints(said, *_MISSING)
        lacked = dict.fromkeys((*self._view.lacks(argv[-1], cwd), *self._view.lacks(doubtful, cwd)))
        seen = {want.what for want in tried.wanted}
        outside = [
            TriedWant(_kind(path, argv[-1]), path, OUTSIDE) for path in lacked if path not in seen
        ]
        known = {*lacked, *seen}
        outside += [
            want for want in self._view.refuses(argv[-1], said, cwd) if want.what not in known
        ]
        wanted = (*tried.wanted, *outside[:LISTED])
        unsure = tried.unsure
        if unsure is None and done.exit_code:
            silent = [*withheld, *(str(path) for path in self._view.named if not path.is_socket())]
            if may_lack_rename(done):
                unsure = _MOVED
            elif silent:
                names = ", ".join(map(shown, silent[:3]))
                unsure = f"it failed without {names}, which a trial does not have"
        return replace(tried, wanted=wanted, unsure=unsure)


def _kind(path: str, line: str) -> Literal["read", "write"]:
    """Return the access that a line wants to a path: write for a redirection, else read."""
    if any(f">{gap}{path}" in line for gap in ("", " ")):
        return "write"
    return "read"
