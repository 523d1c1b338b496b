"""The result of a trial: what a command did on copies of the zones, and what it reached for in vain."""

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
    """A path that a trial changed, as it is from the working directory, or whole where it lies elsewhere."""

    path: str
    change: Literal["created", "changed", "deleted", "renamed", "mode"]
    bytes: int = 0
    """The size of a file, for a deleted one what it was."""
    renamed_from: str | None = None
    """The path of a file with the same contents that is gone, which is among the changes as well."""
    mode: str | None = None
    """The mode that is applied, in octal digits, where it changes or is not that of every new file."""


class TriedWant(OnWire, frozen=True):
    """Something that a trial reached for in vain."""

    kind: Literal["network", "read", "write"]
    what: str
    """A host and port, or a path, as far as it is known."""
    why: str | None = None
    """The reason that keeps a trial from it."""


class TrialExtent(Struct, frozen=True):
    """The effects of a trial that bound what a grant of it allows: a later trial is compared with them."""

    paths: frozenset[str] = frozenset()
    """All that is there afterwards, but for records of git."""
    made: frozenset[str] = frozenset()
    """The paths that were not there before."""
    deleted: frozenset[str] = frozenset()
    """All that was there before and is gone, or is something of another kind now."""
    folders: frozenset[str] = frozenset()
    """Folders that were made, with all that is below them."""
    repositories: frozenset[str] = frozenset()
    """Repositories of git whose history changed."""
    protected: bool = False
    """True if a protected name is among the changes: these are never applied unasked."""
    only_edits: bool = False
    """True if ordinary files in zones were made, changed or moved, and nothing else, as "accept edits" allows."""

    sockets: frozenset[str] = frozenset()
    """Unix sockets that an incomplete trial was refused: a yes lets the command use them, and runs it for real."""

    @property
    def complete(self) -> bool:
        """Return True if the trial showed everything, so that a yes applies it."""
        return not self.sockets

    @property
    def limits(self) -> str:
        """The end of the text of an offer: when a grant of this trial covers a later one."""
        if self.sockets:
            return f", using {', '.join(sorted(map(visible, self.sockets)))}"
        return ", on a copy; it asks if anything else changes"

    def lies_within(self, granted: TrialExtent) -> bool:
        """Return True if nothing was changed or deleted that the granted extent does not name."""
        if (
            self.protected
            or not self.deleted <= granted.deleted
            or not self.repositories <= granted.repositories
        ):
            return False
        if not self.sockets <= granted.sockets:
            return False
        return all(path in granted.paths or _is_below(path, granted.folders) for path in self.paths)

    def __or__(self, other: TrialExtent) -> TrialExtent:
        """Return an extent that has the places of both."""
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
    """Describe what a trial reached for in vain, for people: places of the network together, then each path."""
    places = {True: list[str](), False: list[str]()}
    paths = []
    for each in wanted:
        if each.kind == "network":
            places[each.what.startswith("127.")].append(each.what)
        else:
            paths.append(f"{each.what}, which {each.why}" if each.why else each.what)
    titles = {False: "the network", True: "a server on this machine"}
    return [
        *(f"{title} ({', '.join(places[here])})" for here, title in titles.items() if places[here]),
        *paths,
    ]


class CommandTried(Event, frozen=True):
    """A command was done on copies of the zones, before anybody was asked."""

    type: ClassVar[str] = "trial"
    tool_call_id: str
    outcome: Literal["noEffect", "effects", "incomplete", "blocked"]
    """``incomplete`` where it lacked something that the command would have, so that a yes runs it for real;
    ``blocked`` where it started a command that a rule blocks."""
    exit_code: int | None
    duration_ms: int
    changed: tuple[TriedChange, ...] = ()
    """Protected names first."""
    wanted: tuple[TriedWant, ...] = ()
    applied: bool = False
    """True if the zones have the changes by now."""
    programs: tuple[str, ...] = ()
    """Paths of the programs that it started, as far as that is known."""
    blocked: str | None = None
    """The command that a rule blocks, and the rule."""
    unsure: str | None = None
    """Why it may have ended otherwise than the command would."""

    def sentence(self) -> str:
        """The event as a line for people."""
        if self.applied:
            return f"applied: {_describe_changes(self.changed)}"
        if self.blocked:
            return f"tried: {self.blocked}"
        lacked = [
            *(f"it wanted {each}" for each in describe_wanted(self.wanted)),
            *filter(None, [self.unsure]),
        ]
        found = (
            "no effect"
            if self.outcome == "noEffect"
            else "; ".join(lacked) or f"changes: {len(self.changed)}"
        )
        return f"tried: {found} (exit code {self.exit_code}, {self.duration_ms / 1000:.1f} s)"


def _describe_changes(changes: Sequence[TriedChange]) -> str:
    """Name the first changes, and count the others; a file that was moved is one, as is a folder with much in it."""
    moved = {change.renamed_from for change in changes if change.renamed_from}
    told = [change for change in changes if change.change != "deleted" or change.path not in moved]
    folders = _full_folders(told)
    shown = [change for change in told if _highest_around(change, folders) is None]
    words = [
        _describe_change(change, folders.get(change.path, 0)) for change in shown[:_NAMED_CHANGES]
    ]
    if len(shown) > _NAMED_CHANGES:
        words.append(f"{len(shown) - _NAMED_CHANGES} more")
    return ", ".join(words)


def _full_folders(changes: Sequence[TriedChange]) -> dict[str, int]:
    """How much is in each folder that was made or deleted with more than a few things: the highest of each."""
    tops = {change.path: change for change in changes if change.change in ("created", "deleted")}
    counts: Counter[str] = Counter()
    mixed: set[str] = set()
    for change in changes:
        top = _highest_around(change, tops)
        if top is None:
            continue
        counts[top] += 1
        if tops[top].change != change.change:
            mixed.add(top)
    return {
        top: count for top, count in counts.items() if count >= _NAMED_CHANGES and top not in mixed
    }


def _highest_around(change: TriedChange, folders: Container[str]) -> str | None:
    """The highest of these folders that a path lies in."""
    parts = change.path.split("/")
    above = ("/".join(parts[:length]) for length in range(1, len(parts)))
    return next((folder for folder in above if folder in folders), None)


def _describe_change(change: TriedChange, inside: int) -> str:
    if change.renamed_from:
        return f"moved {change.renamed_from} to {change.path}"
    words = {"created": "made", "mode": "changed the mode or time of"}
    more = f" with {inside} paths in it" if inside else ""
    return f"{words.get(change.change, change.change)} {change.path}{more}"
