"""Consent for deletions by commands, judged by the changes on their copies."""

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
    """A deletion that needs consent; the changes wait on the copy to be applied or dropped."""

    def __init__(self, reason: str, changes: ChangeSet) -> None:
        super().__init__(reason)
        self.changes = changes
        self.done: Finished | None = None
        """The end of the command, once it has ended."""


class DeletionRules(Struct, frozen=True):
    """The zones of a worker and its parents that state rules for deletions."""

    sets: Sequence[Sequence[Zone]]
    """The zones of each worker; the innermost one around a path decides."""

    @property
    def stated(self) -> list[Zone]:
        """The zones whose rules bind commands."""
        found: dict[str, Zone] = {}
        for zones in self.sets:
            for zone in zones:
                if decides(zone):
                    found[str(zone.path)] = zone
        return list(found.values())

    @property
    def in_session(self) -> str:
        """The reason why a session asks, since it has no copy."""
        name = self.stated[0].name
        return f"deletions in zone '{name}' cannot be judged: a session has no copy"

    def unbound(self, problem: str) -> str:
        """Return the warning that commands are not bound, with the reason ``problem``."""
        zone = self.stated[0]
        rule = f"'delete: {zone.delete.value}' of zone '{zone.name}'"
        return f"{rule} binds tools only, not commands, which have no copies here: {problem}"

    def blocked(self, changes: Iterable[PathChange]) -> Verdict | None:
        """Return the verdict on a command with a deletion that a zone blocks, else None."""
        found = next(self._deleted(changes, Approval.BLOCKED), None)
        if found is None:
            return None
        path, zone = found
        reason = f"it deletes {_name(path, zone)}, and zone '{zone.name}' blocks deletions"
        rule = f"sandbox.zones.{zone.name}.approval.delete"
        return Verdict(Approval.BLOCKED, reason, rule, zone.delete_where or zone.where, by="rule")

    def judge(self, *, asked: bool) -> Callable[[ChangeSet], None] | None:
        """Return a check of the changes of a command, or None if no zone states a rule.

        The check raises BlockedError for a deletion that a zone blocks. It raises UnappliedDeletion
        for one that asks, unless a person was ``asked``.
        """
        if not self.stated:
            return None

        def judge(changes: ChangeSet) -> None:
            if blocked := self.blocked(changes.changes):
                raise BlockedError(SHELL, blocked.reason)
            asks = None if asked else next(self._deleted(changes.changes, Approval.ASK), None)
            if asks:
                path, zone = asks
                reason = f"deleting in zone '{zone.name}' needs your OK"
                raise UnappliedDeletion(f"it deletes {_name(path, zone)}, and {reason}", changes)

        return judge

    def _deleted(
        self, changes: Iterable[PathChange], approval: Approval
    ) -> Iterator[tuple[Path, Zone]]:
        """Yield the deleted paths in zones with this rule."""
        if not any(zone.delete is approval for zone in self.stated):
            return
        for change in changes:
            if _is_deletion(change):
                for zone in self._around(change.path):
                    if zone.delete is approval:
                        yield change.path, zone

    def _around(self, path: Path) -> Iterator[Zone]:
        """Yield the zones whose rule applies to a path."""
        for zones in self.sets:
            around = [zone for zone in zones if path.is_relative_to(zone.path)]
            innermost = max(around, key=lambda zone: len(zone.path.parts), default=None)
            if innermost and decides(innermost):
                yield innermost


def decides(zone: Zone) -> bool:
    """Return True if a zone's rule for deletions binds commands; an unstated default does not."""
    return zone.delete is Approval.BLOCKED or (zone.delete is Approval.ASK and zone.delete_stated)


def _is_deletion(change: PathChange) -> bool:
    """Return True if a path is gone or was replaced by another kind; caches do not count."""
    return (
        change.before is not None
        and change.what in ("deleted", "replaced")
        and not is_scratch(change.parts)
    )


def _name(path: Path, zone: Zone) -> str:
    return visible(f"/{zone.name}/{path.relative_to(zone.path)}")
