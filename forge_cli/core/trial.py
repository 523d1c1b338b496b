"""Results of trials: the changes of a command on copies of the zones, and its missing access."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from typing import ClassVar, Literal

from msgspec import Struct

from forge_cli.core.events import Event
from forge_cli.core.text import visible
from forge_cli.core.wire import OnWire

_NAMED_CHANGES = 3


class TriedChange(OnWire, frozen=True):
    """A path that a trial changed, relative to the working directory if it is below it."""

    path: str
    change: Literal["created", "changed", "deleted", "renamed", "mode"]
    bytes: int = 0
    """The size of the file; for a deleted file its former size."""
    renamed_from: str | None = None
    """The path of a deleted file with the same content, which is among the changes as well."""
    mode: str | None = None
    """The applied mode in octal digits, if it changes or is not the default of new files."""


class TriedWant(OnWire, frozen=True):
    """Something that a trial tried to use, but could not."""

    kind: Literal["network", "read", "write"]
    what: str
    """A host and port, or a path, as far as known."""
    why: str | None = None
    """Why the trial could not use it."""


class TrialExtent(Struct, frozen=True):
    """The effects of a trial, with which later trials are compared under a grant."""

    paths: frozenset[str] = frozenset()
    """All paths that exist afterwards, except internal files of git."""
    made: frozenset[str] = frozenset()
    """Paths that did not exist before."""
    deleted: frozenset[str] = frozenset()
    """Paths that no longer exist, or exist as another kind of file."""
    folders: frozenset[str] = frozenset()
    """New folders, each with everything in it."""
    repositories: frozenset[str] = frozenset()
    """Git repositories whose history changed."""
    protected: bool = False
    """True if a protected name changed; such changes are applied unasked only in a draft."""
    obeyed: bool = False
    """True if a file changed that forge obeys or loads while the session runs."""
    only_edits: bool = False
    """True if only ordinary files in zones were made, changed or moved, as for "accept edits"."""

    sockets: frozenset[str] = frozenset()
    """Unix sockets that the trial was refused; a yes runs the command with them."""

    @property
    def complete(self) -> bool:
        """True if the trial showed every effect, so that a yes applies them."""
        return not self.sockets

    @property
    def limits(self) -> str:
        """The end of an offer's text: the conditions under which the grant covers later trials."""
        if self.sockets:
            return f", using {', '.join(sorted(map(visible, self.sockets)))}"
        return ", on a copy; it asks if anything else changes"

    def lies_within(self, granted: TrialExtent) -> bool:
        """Return True if ``granted`` names everything that was changed or deleted."""
        if self.protected:
            return False
        is_named = (
            self.deleted <= granted.deleted
            and self.repositories <= granted.repositories
            and self.sockets <= granted.sockets
        )
        return is_named and all(
            path in granted.paths or _is_below(path, granted.folders) for path in self.paths
        )

    def __or__(self, other: TrialExtent) -> TrialExtent:
        """Return an extent with the effects of both."""
        return TrialExtent(
            self.paths | other.paths,
            self.made | other.made,
            self.deleted | other.deleted,
            self.folders | other.folders,
            self.repositories | other.repositories,
            sockets=self.sockets | other.sockets,
        )


def _is_below(path: str, folders: frozenset[str]) -> bool:
    above = path.split("/")[:-1]
    return any("/".join(above[:length]) in folders for length in range(1, len(above) + 1))


def describe_wanted(wanted: Iterable[TriedWant]) -> list[str]:
    """Describe the missing access of a trial for people: network first, then each path."""
    remote: list[str] = []
    local: list[str] = []
    paths: list[str] = []
    for each in wanted:
        if each.kind != "network":
            paths.append(f"{each.what}, which {each.why}" if each.why else each.what)
        elif each.what.startswith("127."):
            local.append(each.what)
        else:
            remote.append(each.what)
    described = [f"the network ({', '.join(remote)})"] if remote else []
    if local:
        described.append(f"a server on this machine ({', '.join(local)})")
    return described + paths


class DraftCheck(OnWire, frozen=True):
    """The result of the command that checked a draft."""

    command: str
    exit_code: int | None
    """None if the command could not be started or was stopped."""
    output: str
    """The last lines of its output."""

    @property
    def passed(self) -> bool:
        return self.exit_code == 0

    def problem(self) -> str:
        """Return the reason of a failure, with the last lines of the output."""
        ended = "did not end" if self.exit_code is None else f"ended with {self.exit_code}"
        return f"the check '{self.command}' {ended}\n{self.output}".rstrip()


class DraftEvent(Event, frozen=True):
    """The state of a draft when it opens, or at the end of its session."""

    type: ClassVar[str] = "draft"
    id: str
    state: Literal["open", "ready", "applied", "dropped"]
    changes: tuple[TriedChange, ...] = ()
    conflicts: tuple[str, ...] = ()
    """Paths that changed outside of the draft since it began."""
    check: DraftCheck | None = None
    """The result of ``--check``, if it was run."""
    attempts: tuple[str, ...] | None = None
    """The IDs of all drafts of the same task, if it was attempted several times."""

    def sentence(self) -> str:
        """Return the event as a line for people."""
        if self.state == "open":
            return f"draft {self.id}: changes go into the draft"
        changes = f"{len(self.changes)} change{'' if len(self.changes) == 1 else 's'}"
        return f"draft {self.id}: {changes}, {self.state}"


class CommandTried(Event, frozen=True):
    """A call was tried before a person was asked: a command on copies, or a tool with ``apply``."""

    type: ClassVar[str] = "trial"
    tool_call_id: str
    outcome: Literal["noEffect", "effects", "incomplete", "blocked"]
    """The outcome of the trial.

    ``incomplete``: it lacked something that the real command has, so a yes runs the command again.
    ``blocked``: it started a command that a rule blocks.
    """
    exit_code: int | None
    duration_ms: int
    changed: tuple[TriedChange, ...] = ()
    """Changed paths, protected names first."""
    wanted: tuple[TriedWant, ...] = ()
    applied: bool = False
    """True if the changes have been applied to the zones."""
    programs: tuple[str, ...] = ()
    """Paths of the programs that it started, as far as known."""
    blocked: str | None = None
    """The command that a rule blocks, and the rule."""
    unsure: str | None = None
    """Why the real command may behave differently."""
    summary: str | None = None
    """The size of the changes of a tool with ``apply``, whose ``changed`` is empty."""

    def sentence(self) -> str:
        """Return the event as one line for people."""
        if self.applied:
            return f"applied: {self.summary or _describe_changes(self.changed)}"
        if self.blocked:
            return f"tried: {self.blocked}"
        found = "no effect"
        if self.outcome != "noEffect":
            lacked = [f"it wanted {each}" for each in describe_wanted(self.wanted)]
            if self.unsure:
                lacked.append(self.unsure)
            found = "; ".join(lacked) or self.summary or f"changes: {len(self.changed)}"
        if self.summary is not None:
            return f"tried: {found} ({self.duration_ms / 1000:.1f} s)"
        return f"tried: {found} (exit code {self.exit_code}, {self.duration_ms / 1000:.1f} s)"


def _describe_changes(changes: Sequence[TriedChange]) -> str:
    """Name the first changes and count the rest; a moved file or a full folder counts as one."""
    moved = {change.renamed_from for change in changes if change.renamed_from}
    shown = [change for change in changes if change.change != "deleted" or change.path not in moved]
    folders = _full_folders(shown)
    shown = [change for change in shown if _highest_around(change, folders) is None]
    words = [
        _describe_change(change, folders.get(change.path, 0)) for change in shown[:_NAMED_CHANGES]
    ]
    if len(shown) > _NAMED_CHANGES:
        words.append(f"{len(shown) - _NAMED_CHANGES} more")
    return ", ".join(words)


def _full_folders(changes: Sequence[TriedChange]) -> dict[str, int]:
    """Return how many paths each top folder has that was made or deleted with several paths."""
    tops = {change.path: change for change in changes if change.change in ("created", "deleted")}
    counts: Counter[str] = Counter()
    mixed: set[str] = set()
    for change in changes:
        top = _highest_around(change, tops)
        if top is None:
            continue
        counts[top] += 1
        # A folder with changes of several kinds cannot be described by one verb.
        if tops[top].change != change.change:
            mixed.add(top)
    return {
        top: count for top, count in counts.items() if count >= _NAMED_CHANGES and top not in mixed
    }


def _highest_around(change: TriedChange, folders: Container[str]) -> str | None:
    """Return the highest of these folders that contains the path; None without one."""
    parts = change.path.split("/")
    above = ("/".join(parts[:length]) for length in range(1, len(parts)))
    return next((folder for folder in above if folder in folders), None)


def _describe_change(change: TriedChange, inside: int) -> str:
    if change.renamed_from:
        return f"moved {change.renamed_from} to {change.path}"
    words = {"created": "made", "mode": "changed the mode or time of"}
    more = f" with {inside} paths in it" if inside else ""
    return f"{words.get(change.change, change.change)} {change.path}{more}"
