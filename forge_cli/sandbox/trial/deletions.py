"""The consent that zones want before something in them is deleted, for commands: judged on what their copies show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from forge_cli.core.approval import Approval, Verdict
from forge_cli.core.errors import BlockedError, NotAsJudged
from forge_cli.core.processes import Finished
from forge_cli.core.text import visible
from forge_cli.core.zones import Zone
from forge_cli.sandbox.changes.apply import ChangeSet
from forge_cli.sandbox.changes.path_changes import PathChange, is_scratch

SHELL = "shell"


class UnappliedDeletion(NotAsJudged):
    """A command deleted something that needs consent; its changes wait on the copy to be applied or dropped."""

    def __init__(self, reason: str, changes: ChangeSet) -> None:
        super().__init__(reason)
        self.changes = changes
        self.done: Finished | None = None
        """How the command ended, once it has."""


class DeletionRules(Struct, frozen=True):
    """The zones of a worker, and those of its parents, as far as they say themselves what deleting needs."""

    sets: Sequence[Sequence[Zone]]
    """The zones of one worker each: in each the innermost one around a path decides."""

    @property
    def stated(self) -> list[Zone]:
        """The zones in which commands are judged by what they delete."""
        found: dict[str, Zone] = {}
        for zones in self.sets:
            found.update((str(zone.path), zone) for zone in zones if decides(zone))
        return list(found.values())

    @property
    def in_session(self) -> str:
        """Why a line asks that works on no copy."""
        return f"what it deletes in zone '{self.stated[0].name}' cannot be judged: a session works on no copy"

    def unbound(self, problem: str) -> str:
        """The warning that commands are not bound, for the reason ``problem``."""
        zone = self.stated[0]
        says = (
            f"'delete: {zone.delete.value}' of zone '{zone.name}' binds tools only, and no commands"
        )
        return f"{says}: these cannot work on copies here: {problem}"

    def blocked(self, changes: Iterable[PathChange]) -> Verdict | None:
        """The verdict on a command that deleted in a zone which blocks that; None where it did not."""
        found = next(self._deleted(changes, Approval.BLOCKED), None)
        if found is None:
            return None
        path, zone = found
        reason = f"it deletes {_name(path, zone)}, and zone '{zone.name}' blocks delete"
        rule = f"sandbox.zones.{zone.name}.approval.delete"
        return Verdict(Approval.BLOCKED, reason, rule, zone.delete_where or zone.where, by="rule")

    def judge(self, *, asked: bool) -> Callable[[ChangeSet], None] | None:
        """Judge what a command did before it is applied; None where no zone says more than every zone.

        Raise BlockedError for a deletion in a zone that blocks it, and UnappliedDeletion for one in a zone that
        asks, unless a person was ``asked``.
        """
        if not self.stated:
            return None

        def judge(changes: ChangeSet) -> None:
            if blocked := self.blocked(changes.changes):
                raise BlockedError(SHELL, blocked.reason)
            asks = None if asked else next(self._deleted(changes.changes, Approval.ASK), None)
            if asks:
                path, zone = asks
                raise UnappliedDeletion(
                    f"it deletes {_name(path, zone)}, and deleting in zone '{zone.name}' needs your OK",
                    changes,
                )

        return judge

    def _deleted(
        self, changes: Iterable[PathChange], approval: Approval
    ) -> Iterator[tuple[Path, Zone]]:
        """The paths that were deleted in zones which want this for it."""
        if not any(zone.delete is approval for zone in self.stated):
            return
        for path in (change.path for change in changes if _is_deletion(change)):
            yield from ((path, zone) for zone in self._around(path) if zone.delete is approval)

    def _around(self, path: Path) -> Iterator[Zone]:
        """The zones that decide on a path."""
        for zones in self.sets:
            around = [zone for zone in zones if path.is_relative_to(zone.path)]
            innermost = max(around, key=lambda zone: len(zone.path.parts), default=None)
            if innermost and decides(innermost):
                yield innermost


def decides(zone: Zone) -> bool:
    """Whether a zone says more of deletions than every zone does that says nothing."""
    return zone.delete is Approval.BLOCKED or (zone.delete is Approval.ASK and zone.delete_stated)


def _is_deletion(change: PathChange) -> bool:
    """Whether something is gone, or of another kind now; the caches of programs do not count."""
    return (
        change.before is not None
        and change.what in ("deleted", "replaced")
        and not is_scratch(change.parts)
    )


def _name(path: Path, zone: Zone) -> str:
    return visible(f"/{zone.name}/{path.relative_to(zone.path)}")
