"""Trials of lines before a question: on copies, kept until they are applied or dropped."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from anyio import to_thread
from msgspec import Struct
from msgspec.structs import asdict, replace

from forge_cli.core.approval import CommandRun, GrantOffer, Risk, Verdict
from forge_cli.core.errors import Stale
from forge_cli.core.media import DisplayHints
from forge_cli.core.processes import Finished
from forge_cli.core.results import Text
from forge_cli.core.text import counted, cut, visible
from forge_cli.core.tool import Args, Preview
from forge_cli.core.trial import CommandTried, TrialExtent, TriedWant, describe_wanted
from forge_cli.files.replace import replace_file
from forge_cli.sandbox.changes.apply import ChangeSet, apply_changes, require_unchanged
from forge_cli.sandbox.changes.path_changes import PathChange, is_scratch
from forge_cli.sandbox.processes.outcome import describe_end
from forge_cli.sandbox.protected import LATER_REASONS
from forge_cli.sandbox.trial.copies import drop_copies
from forge_cli.sandbox.trial.trials import ENDED_AT_NAME, TriedLine
from forge_cli.toolsets.shell.shown import ShownEffect, name_from, show_changes, why_protected

MAX_OUTPUT = 2_000
"""Characters of the output that are shown."""
TOO_MANY_CHANGES = "it changed more than can be shown"
_ALL_POWERFUL = (
    "docker.sock",
    "podman.sock",
    "containerd.sock",
    "crio.sock",
    "libvirt-sock",
    "lxd/unix.socket",
    "snapd.socket",
    "incus/unix.socket",
    "/run/systemd/private",
)
"""Path endings of sockets whose daemons can start any program."""
_TRIED = "tried.json"

Try = Callable[[Path], Awaitable[TriedLine]]
Keep = Callable[[ChangeSet], None]
JudgeTried = Callable[[TriedLine], Verdict | None]
"""Returns the verdict on a line that did something blocked while it was tried."""


def describe(tried: TriedLine, shown: ShownEffect) -> Text:
    """Describe a trial: how it ended, its output, its changes, and their contents."""
    if tried.wanted:
        # Its output and changes without the missing things say nothing about a real run.
        return Text(_state(tried))
    lines = [_state(tried), *_output(tried)]
    if shown.text:
        lines.append(shown.text)
    return Text("\n".join(lines), display=DisplayHints(language="diff"))


def recap(tried: TriedLine, shown: ShownEffect) -> str:
    """Describe the effect of a yes."""
    if tried.sockets and not tried.complete:
        return _recap_of_sockets(tried.sockets)
    if tried.has_run and not tried.complete:
        return "yes runs it a second time, for real; nothing of the first run is kept"
    if not tried.complete:
        return "yes runs it for real; nothing of the trial is kept"
    if not tried.changes.changes:
        return "no effect"
    parts = [f"yes applies {counted(len(tried.changes.changes), 'change')}"]
    if shown.protected:
        parts.append(f"{shown.protected} of protected names")
    if shown.folded:
        folders = counted(len(shown.folded), "new folder")
        parts.append(f"{shown.behind:,} of them in {folders}")
    if shown.unseen:
        parts.append(f"the contents of {counted(shown.unseen, 'file')} are not shown")
    return "; ".join(parts)


def risk_of(tried: TriedLine, shown: ShownEffect) -> Risk:
    """Return the risk of a yes; it is high for protected files and powerful sockets."""
    changes = (change for change in tried.changes.changes if change.key not in shown.records)
    # New times alone do not count: git touches its objects when it reads them.
    obeyed = any(change.what != "times" and why_protected(change) for change in changes)
    if obeyed or any(name.endswith(_ALL_POWERFUL) for name in tried.sockets):
        return "high"
    return "low" if tried.no_effect else "medium"


def _recap_of_sockets(sockets: Sequence[str]) -> str:
    names = ", ".join(map(visible, sockets))
    all_powerful = any(name.endswith(_ALL_POWERFUL) for name in sockets)
    power = ", so that it can do anything on this machine" if all_powerful else ""
    return f"yes runs it for real and lets it use {names}{power}"


def changed_folder(tried: TriedLine, shown: ShownEffect, workspace: Path) -> GrantOffer | None:
    """Return a grant for the smallest folder with all changes, or None if there is none."""
    changes = tried.changes.changes
    if not tried.complete or len(tried.changes.zones) != 1 or shown.protected or shown.records:
        return None
    holding: list[Path] = []
    for change in changes:
        if not change.parts:  # the zone itself
            return None
        holding.append(change.path if _is_folder(change) else change.path.parent)
    path = os.path.commonpath(holding)
    if path == changes[0].zone:
        return None
    return GrantOffer(
        f"changes below {name_from(Path(path), workspace)}/ of tried commands", below=path
    )


def extent_of(tried: TriedLine, shown: ShownEffect) -> TrialExtent | None:
    """Return the changed places, which limit a grant; None for an incomplete trial."""
    if not tried.complete:
        return None
    records = [change for change in tried.changes.changes if change.key in shown.records]
    others = [change for change in tried.changes.changes if change.key not in shown.records]
    gone = {str(change.path) for change in others if change.what in ("deleted", "replaced")}
    folders: set[str] = set()
    for change in others:
        if change.before is None and change.after and change.after.kind == "folder":
            folders.add(str(change.path))
    return TrialExtent(
        paths=frozenset(str(change.path) for change in others if change.after is not None),
        made=frozenset(str(change.path) for change in others if change.before is None),
        deleted=frozenset(gone),
        folders=frozenset(folders),
        repositories=frozenset(str(change.path).rpartition("/.git/")[0] for change in records),
        protected=shown.protected > 0,
        obeyed=any(map(_is_obeyed, others)),
    )


def _is_obeyed(change: PathChange) -> bool:
    reasons = (why_protected(change), change.loaded)
    return any(why is not None and why not in LATER_REASONS for why in reasons)


def lent_sockets(tried: TriedLine) -> TrialExtent | None:
    """Return the sockets that limit a grant; None if the trial lacked anything else."""
    wanted = {want.what for want in tried.wanted}
    if not tried.sockets or wanted != set(tried.sockets):
        return None
    return TrialExtent(sockets=frozenset(tried.sockets))


def _is_folder(change: PathChange) -> bool:
    return all(entry is None or entry.kind == "folder" for entry in (change.before, change.after))


def _state(tried: TriedLine) -> str:
    seconds = f"{tried.done.duration_ms / 1000:.1f} s"
    if tried.wanted:
        wanted = "; ".join(visible(each) for each in describe_wanted(tried.wanted))
        sentence = f"tried on a copy, incomplete after {seconds}: it wanted {wanted}"
    elif tried.has_run:
        end = describe_end(tried.done)
        sentence = f"already ran on a copy: {end} after {seconds}; nothing is applied yet"
    else:
        end = describe_end(tried.done)
        sentence = f"tried on a copy, without network: {end} after {seconds}"
    if tried.unsure and tried.unsure != ENDED_AT_NAME:
        return f"{sentence}\n{tried.unsure}"
    return sentence


def _output(tried: TriedLine) -> list[str]:
    streams = (tried.done.stdout.rstrip("\n"), tried.done.stderr.rstrip("\n"))
    output = "\n".join(filter(None, streams))
    if not output:
        return []
    return [f"  {line}" for line in cut(output, MAX_OUTPUT, "middle").split("\n")]


class KeptTrial(Struct, frozen=True):
    """A trial and its description."""

    tried: TriedLine
    shown: ShownEffect

    @classmethod
    def of(cls, tried: TriedLine, workspace: Path, seconds: float) -> KeptTrial:
        """Describe a trial; one with more changes than can be shown becomes incomplete."""
        shown = show_changes(tried.changes, workspace, seconds)
        if not shown.fits:
            tried = replace(tried, unsure=tried.unsure or TOO_MANY_CHANGES)
        return cls(tried, shown)

    @property
    def stamp(self) -> str | None:
        """The hash of the effect of a yes; None if a yes just runs the line for real."""
        if not self.tried.complete:
            return self.tried.stamp if self.tried.sockets else None
        both = f"{self.tried.stamp} {self.shown.stamp}"
        return sha256(both.encode()).hexdigest()


@dataclass
class KeptTrials:
    """The trials of one worker's lines, each kept until its call has an outcome.

    They are kept in files, so that a parked session finds them again.
    """

    workspace: Path
    seconds: float
    """Seconds for comparing changes before they are shown."""
    base: Path | None
    """The folder of the session for trials; None for a temporary folder."""
    is_edit: Callable[[TriedLine, ShownEffect], bool]
    """Returns True if the mode "accept edits" allows the changes of a trial."""
    may_lend_sockets: Callable[[Args, TriedLine], bool]
    """Returns True if lines like this one may be granted the refused sockets for a session."""
    _known: dict[str, KeptTrial] = field(default_factory=dict)

    @cached_property
    def folder(self) -> Path:
        return self.base or Path(tempfile.mkdtemp(prefix="forge-trial-"))

    def close(self) -> None:
        if "folder" in vars(self) and self.base is None:
            drop_copies(self.folder)

    async def preview(
        self, args: Args, call_id: str, runs: CommandRun, attempt: Try, judge: JudgeTried
    ) -> Preview:
        """Show the effect of a line, tried now or before the session was parked."""
        folder = self.folder / _key(args)
        tried = self._load(folder)
        if tried is None:
            tried = await attempt(folder)
            _save(tried)
        kept = await to_thread.run_sync(KeptTrial.of, tried, self.workspace, self.seconds)
        self._known[folder.name] = kept
        blocked = judge(kept.tried)
        extent = extent_of(kept.tried, kept.shown)
        if extent is not None:
            only_edits = await to_thread.run_sync(self.is_edit, kept.tried, kept.shown)
            extent = replace(extent, only_edits=only_edits)
        elif self.may_lend_sockets(args, kept.tried):
            extent = lent_sockets(kept.tried)
        return Preview(
            describe(kept.tried, kept.shown),
            stamp=kept.stamp,
            recap=recap(kept.tried, kept.shown),
            folded=() if kept.tried.wanted else kept.shown.folded,
            runs=runs,
            tried=told(kept.tried, kept.shown, call_id, blocked),
            blocked=blocked,
            risk=risk_of(kept.tried, kept.shown),
            changed=changed_folder(kept.tried, kept.shown, self.workspace),
            extent=extent,
        )

    def take(self, args: Args, stamp: str | None, keep: Keep | None) -> Finished | None:
        """Apply the approved changes and return how the line ended; None to run it for real."""
        kept = self._known.get(_key(args))
        if kept is None or stamp is None or not kept.tried.complete:
            return None
        if kept.stamp != stamp:
            raise Stale("the changes of the trial are no longer what was shown")
        if kept.tried.changes.changes:
            apply_changes(kept.shown.of(kept.tried.changes), keep)
        if kept.tried.temporary:
            kept.tried.temporary.keep()
        return kept.tried.done

    def take_unshown(self, args: Args, keep: Keep | None) -> Finished | None:
        """Apply the changes of a line that has run, if it was approved without being shown."""
        folder = self.folder / _key(args)
        if folder.name in self._known:  # it was shown
            return None
        tried = self._load(folder)
        if tried is None or not tried.has_run:
            return None
        apply_changes(tried.changes, keep)
        return tried.done

    def keep(self, args: Args, tried: TriedLine) -> None:
        """Keep the changes of a line that ran on a copy, in the folder for its trial."""
        folder = self.folder / _key(args)
        drop_copies(folder)
        tried.changes.folder.rename(folder)
        # Caches are dropped, as those of a trial are.
        kept = [each for each in tried.changes.changes if not is_scratch(each.parts)]
        changes = replace(tried.changes, folder=folder, changes=tuple(kept))
        changes.save()
        _save(replace(tried, changes=changes))

    def has_run(self, args: Args) -> bool:
        """Return True if the line has run already, and only its changes wait for an answer."""
        tried = self._load(self.folder / _key(args))
        return tried is not None and tried.has_run

    def sockets(self, args: Args, stamp: str | None) -> list[Path]:
        """Return the sockets that a line may use because of a yes after its trial."""
        kept = self._known.get(_key(args))
        if kept is None or stamp is None or kept.tried.complete or kept.stamp != stamp:
            return []
        paths = (Path(os.path.realpath(name)) for name in kept.tried.sockets)
        return [path for path in paths if path.is_socket()]

    def forget(self, args: Args) -> None:
        """Drop the trial of a call that has its outcome, even one of an earlier process."""
        kept = self._known.pop(_key(args), None)
        if kept and kept.tried.temporary:
            kept.tried.temporary.drop()
        if self.base or "folder" in vars(self):
            drop_copies(self.folder / _key(args))

    def _load(self, folder: Path) -> TriedLine | None:
        """Return the earlier trial if nothing has changed since."""
        try:
            kept = json.loads((folder / _TRIED).read_bytes())
            changes = ChangeSet.load(folder)
            require_unchanged(changes)
        except (FileNotFoundError, Stale):
            return None
        # Details that were in memory only, and that a parked session does not need.
        kept["done"] = Finished(**{**kept["done"], "appeared": (), "refused": (), "sockets": ()})
        kept["wanted"] = tuple(TriedWant(**each) for each in kept["wanted"])
        kept["sockets"] = tuple(kept.get("sockets", ()))
        kept["programs"] = tuple(kept.get("programs", ()))
        commands = kept.get("commands")
        if commands is not None:
            commands = tuple(map(tuple, commands))
        kept["commands"] = commands
        return TriedLine(changes=changes, **kept)


def _save(tried: TriedLine) -> None:
    kept = {
        "done": asdict(tried.done),
        "wanted": [asdict(each) for each in tried.wanted],
        "unsure": tried.unsure,
        "sockets": tried.sockets,
        "programs": tried.programs,
        "commands": tried.commands,
        "has_run": tried.has_run,
    }
    replace_file(tried.changes.folder / _TRIED, json.dumps(kept), mode=0o600)


def _key(args: Args) -> str:
    return sha256(json.dumps(args, sort_keys=True).encode()).hexdigest()[:32]


def told(
    tried: TriedLine, shown: ShownEffect, call_id: str, blocked: Verdict | None = None
) -> CommandTried:
    """Return the event for the record."""
    outcome = "effects" if tried.complete else "incomplete"
    if tried.no_effect:
        outcome = "noEffect"
    if blocked is not None:
        outcome = "blocked"
    return CommandTried(
        call_id,
        outcome,  # type: ignore[arg-type]
        tried.done.exit_code,
        tried.done.duration_ms,
        shown.changed,
        tried.wanted,
        programs=tried.programs,
        blocked=blocked.reason if blocked else None,
        unsure=tried.unsure,
    )
