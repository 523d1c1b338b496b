"""Trying a line before anybody is asked: on copies of the zones, and kept until it is applied or dropped."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from forge_cli.core.approval import CommandRun
from forge_cli.core.errors import Stale
from forge_cli.core.events import CommandTried, TriedWant
from forge_cli.core.processes import Finished
from forge_cli.core.tool import Args, Preview
from forge_cli.files.replace import replace_file
from forge_cli.sandbox.trial.apply import ChangeSet, apply, check
from forge_cli.sandbox.trial.copies import drop
from forge_cli.sandbox.trial.trials import Tried
from forge_cli.toolsets.shell.facts import changed_folder, changed_paths, describe, recap

_TRIED = "tried.json"
KEPT_IN_EVENT = 100
"""Changes that are named in the record."""

Try = Callable[[Path], Awaitable[Tried]]
Keep = Callable[[ChangeSet], None]


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
    kept = {"done": vars(tried.done), "wanted": [vars(each) for each in tried.wanted], "unsure": tried.unsure}
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
