"""Review of a draft on a terminal: a question for each step, and one apply at the end."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from forge_cli.cli.drafts.common import conflict_text, notes_of
from forge_cli.cli.drafts.units import ShownUnit, folders_around, show_unit, units_of
from forge_cli.core.text import counted, readable, visible
from forge_cli.engine.runtime.drafting import apply_changes_of, changes_of
from forge_cli.process.signals import in_loop
from forge_cli.sandbox.drafts.changes import ChangedDraft, DraftChange
from forge_cli.sandbox.drafts.conflicts import ConflictChoice, merge_of, settle_conflicts
from forge_cli.sandbox.drafts.draft import SessionDraft, drop_applied
from forge_cli.sandbox.drafts.hunks import FileHunks
from forge_cli.ui.terminal.console import new_console
from forge_cli.ui.terminal.input import LineReader
from forge_cli.ui.terminal.keys import QuestionLeft
from forge_cli.ui.terminal.render import render_view
from forge_cli.ui.views import View

_LABELS = {
    "a": "take",
    "m": "merge",
    "d": "take the draft's",
    "s": "leave",
    "h": "hunks",
    "e": "edit",
    "r": "rest",
    "t": "message",
    "q": "stop",
}


class ReviewOutcome(Struct, frozen=True):
    """The end of a review."""

    draft: SessionDraft
    applied: Sequence[DraftChange] = ()
    message: str = ""
    """A message for the model: the review stops, and begins again after the answer."""


class _Stopped(Exception):
    """The review ends before its last step; with a message, nothing is applied."""

    def __init__(self, message: str = "") -> None:
        super().__init__("stopped")
        self.message = message


def review_draft(changed: ChangedDraft, *, can_talk: bool = False) -> ReviewOutcome:
    """Review a draft on the terminal, and apply the accepted changes.

    With ``can_talk``, the person can send a message to the model instead.
    """
    return _Review(changed, can_talk=can_talk).run()


class _Review:
    """The state of a review: the draft as it is now, and the changes that were taken."""

    def __init__(self, changed: ChangedDraft, *, can_talk: bool) -> None:
        self._changed = changed
        self._new_folders = changed.new_folders()
        self._can_talk = can_talk
        self._console = new_console()
        self._reader = LineReader(self._console)
        self._taken: list[DraftChange] = []
        self._settled: list[DraftChange] = []
        """Conflicts in which the person took the file of the draft."""
        self._shown: set[Path] = set()
        """New folders that a step has shown."""

    def run(self) -> ReviewOutcome:
        try:
            self._ask_for_all(list(units_of(self._changed)))
        except _Stopped as stopped:
            if stopped.message:
                return ReviewOutcome(self._changed.draft, message=stopped.message)
        except QuestionLeft:
            self._taken.clear()
        return self._apply()

    def _apply(self) -> ReviewOutcome:
        draft = self._changed.draft
        if not self._taken:
            self._say(f"nothing was applied; forge drafts review {draft.id} begins again")
            return ReviewOutcome(draft)
        if self._settled:
            settle_conflicts(self._changed, self._settled, ConflictChoice.DRAFT)
            self._read_again()
            now = {each.path: each for each in self._changed.changes}
            # A file that was changed again since it was shown is in conflict again.
            settled = {each.path for each in self._settled}
            self._taken = [now[each.path] if each.path in settled else each for each in self._taken]
        folders = folders_around(self._new_folders, self._taken)
        paths = {each.path: each for each in (*folders, *self._taken)}
        order = [paths[each.path] for each in self._changed.changes if each.path in paths]
        after = apply_changes_of(self._changed, order)
        self._say(f"applied {counted(len(order), 'change')} of the draft {after.id}")
        if after.state == "applied":
            drop_applied(after)
        return ReviewOutcome(after, order)

    def _ask_for_all(self, units: Sequence[Sequence[DraftChange]]) -> None:
        is_rest_decided = False
        for number, unit in enumerate(units):
            if is_rest_decided and self._show(unit).belongs_to_rest:
                continue
            key = self._ask_for(unit, f"{number + 1}/{len(units)}")
            if key == "r":
                is_rest_decided = True
                self._ask_for_rest(units[number:])

    def _ask_for_rest(self, units: Sequence[Sequence[DraftChange]]) -> None:
        """Show all that follows, and take it after one more question."""
        rest: list[ShownUnit] = []
        for unit in units:
            shown = self._show(unit)
            if shown.belongs_to_rest:
                # The first one is on the screen already.
                if rest:
                    self._draw(shown)
                rest.append(shown)
        key = "a"
        if len(rest) > 1:
            key = self._ask_key("as", f"{counted(len(rest), 'step')} above: ")
        if key == "a":
            for shown in rest:
                self._taken += shown.changes

    def _ask_for(self, unit: Sequence[DraftChange], place: str) -> str:
        """Show a step and carry out the answer; return its key."""
        while True:
            shown = self._show(unit)
            self._draw(shown, place)
            key = self._ask_key(self._keys_of(shown))
            match key:
                case "a":
                    self._taken += shown.changes
                case "d":
                    self._settled += shown.changes
                    self._taken += shown.changes
                case "m":
                    settle_conflicts(self._changed, shown.changes, ConflictChoice.MERGE)
                    self._read_again()
                    paths = {each.path for each in unit}
                    unit = [each for each in self._changed.changes if each.path in paths]
                    if not unit:
                        return key
                    continue
                case "h":
                    self._ask_for_hunks(shown)
                case "e":
                    unit = self._edit(shown)
                    if not unit:
                        self._say("now the file is as it was before")
                        return key
                    continue
                case "t":
                    if message := self._ask_message():
                        raise _Stopped(message)
                    continue
                case "q":
                    raise _Stopped
            return key

    def _keys_of(self, shown: ShownUnit) -> str:
        keys = "s"
        if shown.can_be_taken:
            keys = "as"
            if shown.has_parts:
                keys += "h"
        elif shown.is_conflict:
            keys = "ds"
            merge = merge_of(self._changed, shown.changes[0])
            if merge is not None and not merge.overlaps:
                keys = "mds"
        if shown.is_text:
            keys += "e"
        if shown.belongs_to_rest:
            keys += "r"
        return keys + ("tq" if self._can_talk else "q")

    def _ask_for_hunks(self, shown: ShownUnit) -> None:
        """Ask for the mode and for each hunk; what is left stays in the draft."""
        [each] = shown.changes
        source = self._changed.change_set().source(each.change, "after")
        hunks = FileHunks.of(each.path.read_bytes(), source.read_bytes())
        before, after = each.change.before, each.change.after
        takes_mode = False
        if shown.has_mode and before and after:
            modes = f"mode {before.mode:o} to {after.mode:o}"
            if before.owner != after.owner:
                owners = [":".join(map(str, side.owner)) for side in (before, after)]
                modes += f", owner {' to '.join(owners)}"
            takes_mode = self._ask_key("as", f"{modes}: ") == "a"
        taken: set[int] = set()
        for number, lines in enumerate(hunks.shown):
            self._draw_difference("\n".join(lines))
            if self._ask_key("as", f"hunk {number + 1}/{len(hunks.shown)}: ") == "a":
                taken.add(number)
        is_whole = len(taken) == len(hunks.shown) and takes_mode == shown.has_mode
        if is_whole:
            self._taken.append(each)
        elif taken or takes_mode:
            content = hunks.taken(taken)
            self._taken.append(self._changed.part_of(each, content, takes_mode=takes_mode))

    def _edit(self, shown: ShownUnit) -> list[DraftChange]:
        """Edit a file of the draft in ``$EDITOR``, and return its change as it is then."""
        [each] = shown.changes
        source = self._changed.change_set().source(each.change, "after")
        editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
        # Beside the file itself, the editor's own files would become changes of the draft.
        with TemporaryDirectory(prefix="forge-edit-") as folder:
            copy = Path(folder, each.path.name)
            copy.write_bytes(source.read_bytes())
            try:
                code = subprocess.run([*editor, str(copy)], check=False).returncode
            except OSError as error:
                self._say(f"{editor[0]} cannot be started: {error.strerror}; set EDITOR")
                return [each]
            if code:
                self._say(f"{editor[0]} ended with exit code {code}; the file is as it was")
                return [each]
            content = copy.read_bytes()
        if content != source.read_bytes():
            source.write_bytes(content)  # in place, so that mode, owner and attributes stay
        self._read_again()
        return [other for other in self._changed.changes if other.path == each.path]

    def _read_again(self) -> None:
        self._changed = changes_of(self._changed.draft)
        self._new_folders = self._changed.new_folders()

    def _ask_message(self) -> str:
        """Return a message for the model, or an empty text to go back."""

        async def ask() -> str | None:
            return await self._reader.ask("message to the model (Enter: back) > ")

        try:
            return (in_loop(ask) or "").strip()
        except QuestionLeft as left:
            if left.leaves_all:
                raise
            return ""

    def _ask_key(self, keys: str, about: str = "") -> str:
        """Return one of these keys; the end of the input leaves the review."""
        labels = " ".join(f"[{key}] {_LABELS[key]}" for key in _LABELS if key in keys)
        question = f"{about}{labels} > "

        async def ask() -> str | None:
            if self._reader.takes_keys:
                return await self._reader.ask_key(question, means=lambda key: key in set(keys))
            while (line := await self._reader.ask(question)) is not None:
                if line.strip() and line.strip() in set(keys):
                    return line.strip()
            return None

        answer: str | None = in_loop(ask)
        if answer is None:
            raise QuestionLeft
        return answer

    def _show(self, unit: Sequence[DraftChange]) -> ShownUnit:
        folders = folders_around(self._new_folders, unit)
        return show_unit(self._changed, unit, folders, self._shown)

    def _draw(self, shown: ShownUnit, place: str = "") -> None:
        self._say("")
        indent = " " * (len(place) + 2) if place else ""
        for number, row in enumerate(shown.rows):
            self._say(f"{place}  {row}" if place and not number else f"{indent}{row}")
        if shown.difference:
            self._draw_difference(shown.difference)
        if shown.is_conflict:
            self._say(readable(conflict_text(self._changed, shown.changes[0])))
        self._shown.update(each.path for each in shown.folders)
        # The last note is the number of changes.
        for note in notes_of(shown.applied)[:-1]:
            self._say(visible(note))
        if shown.unseen:
            paths = shlex.join(str(each.path) for each in shown.changes[:1])
            self._say(f"{shown.unseen}; forge drafts apply {self._changed.draft.id} {paths}")

    def _draw_difference(self, text: str) -> None:
        self._console.print(render_view(View("diff", text, exact=True), lines=None), end="")

    def _say(self, text: str) -> None:
        sys.stderr.write(f"{text}\n")
