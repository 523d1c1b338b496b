"""Trying a line before anybody is asked: on copies, kept until it is applied or dropped, with a report of it."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Literal

from msgspec.structs import asdict

from forge_cli.core.approval import CommandRun, GrantOffer
from forge_cli.core.errors import Stale
from forge_cli.core.media import DisplayHints
from forge_cli.core.processes import Finished
from forge_cli.core.results import Text
from forge_cli.core.text import counted, cut, visible
from forge_cli.core.tool import Args, Preview
from forge_cli.core.trial import CommandTried, TrialExtent, TriedChange, TriedWant, describe_wanted
from forge_cli.files.difference import unified_diff
from forge_cli.files.replace import replace_file
from forge_cli.sandbox.processes.outcome import describe_end
from forge_cli.sandbox.protected import protected_among
from forge_cli.sandbox.trial.apply import ChangeSet, apply, check
from forge_cli.sandbox.trial.changes import Entry, PathChange, What
from forge_cli.sandbox.trial.copies import drop
from forge_cli.sandbox.trial.trials import Tried

LISTED, DIFFED, DIFF_BYTES, OUTPUT = 100, 20, 64_000, 2_000
"""Changes that are listed, files that are compared, bytes of each, and characters of the output that are shown."""

_RECORDS = frozenset(
    {"COMMIT_EDITMSG", "FETCH_HEAD", "HEAD", "ORIG_HEAD", "index", "logs", "objects", "packed-refs", "refs"}
)
"""Folders in which git keeps the history; nothing of it is run, unlike hooks and what the config names."""
_CHANGES: Mapping[What, Literal["created", "changed", "deleted", "mode"]] = {
    "made": "created",
    "changed": "changed",
    "replaced": "changed",
    "deleted": "deleted",
    "mode": "mode",
    "times": "mode",
    "linked": "mode",
}
_TRIED = "tried.json"
KEPT_IN_EVENT = 100
"""Changes that are named in the record."""

Try = Callable[[Path], Awaitable[Tried]]
Keep = Callable[[ChangeSet], None]


def describe(tried: Tried, workspace: Path) -> Text:
    """All of it as one text: first how it ended and what it said, then the changes, protected names first."""
    lines = [_state(tried), *_said(tried), *list_changes(tried, workspace, LISTED)]
    changes = [change for change in _in_order(tried) if not _record(change)]
    for change in changes[:DIFFED]:
        lines += ["", *difference] if (difference := _difference(tried, change, workspace)) else []
    return Text("\n".join(lines), display=DisplayHints(language="diff"))


def recap(tried: Tried) -> str:
    """The meaning of a yes."""
    if tried.complete:
        return f"yes applies {counted(len(tried.changes.changes), 'change')}" if tried.changes.changes else "no effect"
    return "yes runs it for real; nothing of the trial is kept"


def list_changes(tried: Tried, workspace: Path, at_most: int) -> Iterator[str]:
    """A line for each change; all that git wrote into its own records is one."""
    changes = _in_order(tried)
    records = {change.path: record for change in changes if (record := _record(change))}
    others = [change for change in changes if change.path not in records]
    for change in others[:at_most]:
        yield _line(change, workspace)
    if len(others) > at_most:
        yield f"and {len(others) - at_most} more"
    if records:
        yield f"git      {counted(len(records), 'change')} in its records ({', '.join(sorted(set(records.values())))})"


def changed_paths(tried: Tried, workspace: Path) -> Iterator[TriedChange]:
    """The same for programs; a file that is gone and another with its size and times is one that was renamed."""
    changes = _in_order(tried)
    gone = {_looks(change.before): change for change in changes if change.after is None and change.before}
    came = Counter(_looks(change.after) for change in changes if change.before is None and change.after)
    sources = {key: change for key, change in gone.items() if key and came[key] == 1}
    for change in changes:
        path, entry = _shown(change.path, workspace), change.after or change.before
        size = entry.size if entry else 0
        if change.after is None and sources.get(_looks(change.before)) is change:
            continue
        source = sources.get(_looks(change.after)) if change.before is None else None
        if source:
            yield TriedChange(path, "renamed", size, _shown(source.path, workspace))
        else:
            yield TriedChange(path, _CHANGES[change.what], size)


def _looks(entry: Entry | None) -> tuple[int, int, int] | str:
    """By which a file is known again under another name; nothing for what is not a file."""
    return (entry.size, entry.modified, entry.mode) if entry and entry.kind == "file" else ""


def changed_folder(tried: Tried, workspace: Path) -> GrantOffer | None:
    """The smallest folder that holds all changes; never a zone itself, nor where a protected name is among them."""
    changes = tried.changes.changes
    if not tried.complete or len(tried.changes.zones) != 1 or any(map(_why_protected, changes)):
        return None
    holding = [change.path if _is_folder(change) else change.path.parent for change in changes if change.parts]
    path = os.path.commonpath(holding) if len(holding) == len(changes) else changes[0].zone
    if path == changes[0].zone:
        return None
    return GrantOffer(f"changes below {_shown(Path(path), workspace)}/ of tried commands", below=path)


def extent_of(tried: Tried) -> TrialExtent | None:
    """Return the places that a trial changed, which bound what a grant of it allows; None if it was incomplete."""
    if not tried.complete:
        return None
    records = [change for change in tried.changes.changes if _record(change)]
    others = [change for change in tried.changes.changes if not _record(change)]
    gone = {str(change.path) for change in others if change.what in ("deleted", "replaced")}
    made = (change for change in others if change.before is None and change.after and change.after.kind == "folder")
    return TrialExtent(
        paths=frozenset(str(change.path) for change in others if change.after is not None),
        deleted=frozenset(gone),
        folders=frozenset(str(change.path) for change in made),
        repositories=frozenset(str(change.path).rpartition("/.git/")[0] for change in records),
        protected=any(map(_why_protected, others)),
    )


def _is_folder(change: PathChange) -> bool:
    return all(entry is None or entry.kind == "folder" for entry in (change.before, change.after))


def _state(tried: Tried) -> str:
    done = tried.done
    ended = f"tried on a copy, without network: {describe_end(done)} after {done.duration_ms / 1000:.1f} s"
    wanted = f"\nit wanted {'; '.join(visible(each) for each in describe_wanted(tried.wanted))}" if tried.wanted else ""
    return f"{ended}{wanted}{f'{chr(10)}{tried.unsure}' if tried.unsure else ''}"


def _said(tried: Tried) -> list[str]:
    said = "\n".join(filter(None, (tried.done.stdout.rstrip("\n"), tried.done.stderr.rstrip("\n"))))
    return [f"  {line}" for line in cut(said, OUTPUT, "middle").split("\n")] if said else []


def _in_order(tried: Tried) -> list[PathChange]:
    return sorted(tried.changes.changes, key=lambda change: (_why_protected(change) is None, change.parts))


def _why_protected(change: PathChange) -> str | None:
    found = protected_among(change.parts)
    return found and found[1]


def _record(change: PathChange) -> str | None:
    """The records of git that a change belongs to; None for all else, what names another store of objects included."""
    _, git, inside = "/".join(("", *change.parts)).rpartition("/.git/")
    first = inside.partition("/")[0]
    return first if git and first in _RECORDS and not inside.startswith("objects/info/") else None


def _line(change: PathChange, workspace: Path) -> str:
    before, after = change.before, change.after
    name = _name(change, workspace)
    what: str = change.what
    more = ""
    if what == "mode" and before and after:
        more = f" ({before.mode:o} to {after.mode:o})"
    elif after and after.kind == "link":
        more = f" (link to {after.detail})"
    elif after and after.kind == "file" and what in ("made", "changed", "replaced"):
        more = f" ({counted(after.size, 'byte')})"
    elif after and after.kind == "pipe":
        more = " (pipe)"
    protected = f" PROTECTED: {why}" if (why := _why_protected(change)) else ""
    return visible(f"{what:<8} {name}{more}{protected}")


def _name(change: PathChange, workspace: Path) -> str:
    name, kind = _shown(change.path, workspace), (change.after or change.before)
    return f"{name}/" if kind and kind.kind == "folder" else name


def _shown(path: Path, workspace: Path) -> str:
    return os.path.relpath(path, workspace) if path.is_relative_to(workspace) else str(path)


def _difference(tried: Tried, change: PathChange, workspace: Path) -> Sequence[str]:
    """The unified diff of a file of text; nothing for others."""
    texts = [_text(tried, change, side) for side in ("before", "after")]
    before, after = texts
    if before is None or after is None or before == after:
        return ()
    name = _name(change, workspace)
    old, new = (name if entry else "/dev/null" for entry in (change.before, change.after))
    return unified_diff(before, after, old, new)


def _text(tried: Tried, change: PathChange, side: str) -> str | None:
    """The text of a file before or after; None for what is not text, or too much of it."""
    entry = change.before if side == "before" else change.after
    if entry is None:
        return ""
    if entry.kind != "file" or entry.size > DIFF_BYTES:
        return None
    path = change.path if side == "before" else tried.changes.source(change, "after")
    try:
        data = path.read_bytes()
        return None if b"\0" in data else data.decode()
    except (OSError, UnicodeDecodeError):
        return None


@dataclass
class KeptTrials:
    """The trials of one worker's lines; one is kept until its call has an outcome, also while the session is parked."""

    workspace: Path
    base: Path | None
    """The place where the session keeps them; without one they end with the process."""
    _known: dict[str, Tried] = field(default_factory=dict)

    @cached_property
    def folder(self) -> Path:
        return self.base or Path(tempfile.mkdtemp(prefix="forge-trial-"))

    def close(self) -> None:
        if "folder" in vars(self) and self.base is None:
            drop(self.folder)

    async def preview(self, args: Args, call_id: str, runs: CommandRun, attempt: Try) -> Preview:
        """The effect of a line when it was tried, now or before the session was parked."""
        folder = self.folder / _key(args)
        tried = self._load(folder)
        if tried is None:
            tried = await attempt(folder)
            _save(tried)
        self._known[folder.name] = tried
        return Preview(
            describe(tried, self.workspace),
            stamp=tried.stamp if tried.complete else None,
            recap=recap(tried),
            runs=runs,
            tried=told(tried, call_id, self.workspace),
            changed=changed_folder(tried, self.workspace),
            extent=extent_of(tried),
        )

    def take(self, args: Args, stamp: str | None, keep: Keep | None) -> Finished | None:
        """Apply what was tried and approved, and give how it ended; None where the line is to run for real."""
        tried = self._known.get(_key(args))
        if tried is None or stamp is None or not tried.complete:
            return None
        if tried.stamp != stamp:
            raise Stale("what was tried is not there any more")
        if tried.changes.changes:
            apply(tried.changes, keep)
        return tried.done

    def forget(self, args: Args) -> None:
        """The call has its outcome; one that was parked may have been tried by an earlier process."""
        self._known.pop(_key(args), None)
        if self.base or "folder" in vars(self):
            drop(self.folder / _key(args))

    def _load(self, folder: Path) -> Tried | None:
        """The earlier trial, if nothing has changed since."""
        try:
            kept = json.loads((folder / _TRIED).read_bytes())
            changes = ChangeSet.load(folder)
            check(changes)
        except (FileNotFoundError, Stale):
            return None
        kept["done"] = Finished(**{**kept["done"], "appeared": (), "refused": ()})
        return Tried(changes=changes, **{**kept, "wanted": tuple(TriedWant(**each) for each in kept["wanted"])})


def _save(tried: Tried) -> None:
    kept = {"done": asdict(tried.done), "wanted": [asdict(each) for each in tried.wanted], "unsure": tried.unsure}
    replace_file(tried.changes.folder / _TRIED, json.dumps(kept), mode=0o600)


def _key(args: Args) -> str:
    return sha256(json.dumps(args, sort_keys=True).encode()).hexdigest()[:32]


def told(tried: Tried, call_id: str, workspace: Path) -> CommandTried:
    """The event for the record."""
    outcome = "noEffect" if tried.no_effect else "effects" if tried.complete else "incomplete"
    return CommandTried(
        call_id,
        outcome,  # type: ignore[arg-type]
        tried.done.exit_code,
        tried.done.duration_ms,
        tuple(changed_paths(tried, workspace))[:KEPT_IN_EVENT],
        tried.wanted,
        unsure=tried.unsure,
    )
