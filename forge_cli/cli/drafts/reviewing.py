"""Review of a draft on a terminal: a question for each file, and one apply at the end."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence

from forge_cli.cli.drafts.common import notes_of, text_of
from forge_cli.core.text import counted, readable, visible
from forge_cli.engine.runtime.drafting import apply_changes_of, changes_of
from forge_cli.process.signals import in_loop
from forge_cli.sandbox.drafts.changes import ChangedDraft, DraftChange
from forge_cli.sandbox.drafts.draft import SessionDraft, drop_draft
from forge_cli.ui.terminal.console import new_console
from forge_cli.ui.terminal.input import LineReader
from forge_cli.ui.terminal.keys import QuestionLeft

_KEYS = "asreq"
_QUESTION = "[a] take, [s] leave, [r] take the rest, [e] edit, [q] stop > "


def review_draft(changed: ChangedDraft) -> SessionDraft:
    """Review a draft on the terminal, apply the accepted changes, and return the draft."""
    reader = LineReader(new_console())
    taken: list[DraftChange] = []
    units = list(units_of(changed))
    takes_rest = False
    for number, unit in enumerate(units, 1):
        if takes_rest and _can_be_taken(unit):
            taken += unit
            continue
        sys.stderr.write(f"\n{number}/{len(units)}  {readable(text_of(changed, unit))}\n")
        # The last note is the number of changes.
        for note in notes_of(unit)[:-1]:
            sys.stderr.write(f"{visible(note)}\n")
        try:
            answer = _ask(reader, changed, unit)
        except QuestionLeft:
            sys.stderr.write("nothing was applied\n")
            return changed.draft
        # The changes that were taken so far are still applied.
        if answer == "q":
            break
        if answer == "e":
            # The editor may have changed the file in the draft.
            changed = changes_of(changed.draft)
            paths = {each.path for each in unit}
            unit = [each for each in changed.changes if each.path in paths]
        takes_rest = takes_rest or answer == "r"
        if answer == "s":
            continue
        if any(each.conflict for each in unit):
            sys.stderr.write("left in the draft, because it conflicts\n")
        elif answer == "r" and not _can_be_taken(unit):
            sys.stderr.write("left in the draft; review it again and take it with a\n")
        else:
            taken += unit
    if not taken:
        sys.stderr.write("nothing was applied\n")
        return changed.draft
    after = apply_changes_of(changed, _with_folders(changed, taken))
    sys.stderr.write(f"applied {counted(len(taken), 'change')} of the draft {after.id}\n")
    if after.state == "applied":
        drop_draft(after)
    return after


def units_of(changed: ChangedDraft) -> Iterator[list[DraftChange]]:
    """Yield changes to decide on together: the records of git, then each other path.

    A new folder with contents is left out, because each file is applied with its folders.
    """
    records = [each for each in changed.changes if _is_record(each)]
    if records:
        yield records
    for each in changed.changes:
        is_folder = each.change.after is not None and each.change.after.kind == "folder"
        if not _is_record(each) and (not is_folder or _is_empty(changed, each)):
            yield [each]


def _ask(reader: LineReader, changed: ChangedDraft, unit: Sequence[DraftChange]) -> str:
    """Return the chosen key for a unit; with ``e``, after the editor has ended."""
    keys = _KEYS if _can_be_edited(unit) else _KEYS.replace("e", "")
    question = _QUESTION if "e" in keys else _QUESTION.replace("[e] edit, ", "")

    async def ask() -> str:
        if not reader.takes_keys:
            line = await reader.ask(question)
            key = "q" if line is None else line.strip()[:1]
            return key if key in set(keys) else "s"
        return await reader.ask_key(question, means=lambda key: key in keys) or "q"

    answer: str = in_loop(ask)
    if answer == "e" and "e" in keys:
        editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
        source = changed.change_set().source(unit[0].change, "after")
        subprocess.run([*editor, str(source)], check=False)
    return answer


def _can_be_taken(unit: Sequence[DraftChange]) -> bool:
    """Return True if a unit may be taken without being named."""
    return not any(each.protected or each.conflict for each in unit)


def _can_be_edited(unit: Sequence[DraftChange]) -> bool:
    after = unit[0].change.after if len(unit) == 1 else None
    return after is not None and after.kind == "file"


def _is_record(each: DraftChange) -> bool:
    # Hooks and settings of git are protected, and so decided on one by one.
    return ".git" in each.change.parts and each.protected is None


def _is_empty(changed: ChangedDraft, folder: DraftChange) -> bool:
    return not any(
        each.path != folder.path and each.path.is_relative_to(folder.path)
        for each in changed.changes
    )


def _with_folders(changed: ChangedDraft, taken: Sequence[DraftChange]) -> list[DraftChange]:
    """Return the changes with the new folders around them, in the order of the draft."""
    return changed.named(each.path for each in taken)
