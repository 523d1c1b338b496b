"""Undo: restoring the files that a session changed, and finding messages to rewind to."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.calls import ToolCall
from forge_cli.core.errors import ForgeError, ToolError, UsageError
from forge_cli.core.events import ContextUsage, MessageEvent, TurnStart
from forge_cli.core.results import Custom
from forge_cli.core.text import counted
from forge_cli.files.regular import sync_folders_of
from forge_cli.record.changes import ChangedFile, ChangeLog, State, state_of
from forge_cli.record.line import Line
from forge_cli.record.moved import Moved, Whereabouts, find_moved
from forge_cli.record.restoring import (
    failure_reason,
    hold_changed_file,
    move_changed_file,
    parking_place,
    put_back,
    remove_folders,
    remove_made_file,
    restore_file,
)
from forge_cli.record.state import CallState, fold_lines
from forge_cli.sandbox.files.held import HeldFile
from forge_cli.sandbox.files.place import NotAFolder
from forge_cli.sandbox.names import shown

Confirm = Callable[[ChangedFile, str], bool]
"""Returns True to overwrite a file; called with the file and the reason against it."""
Action = Literal["restore", "remove", "move", "nothing"]
"""``move`` is for a file that the session created and whose content returns to its earlier path."""


class Undoing(Struct, frozen=True):
    """The effect of an undo on one file, planned or done."""

    file: ChangedFile
    action: Action
    newer: str | None = None
    """The reason why the present content is not the session's alone."""
    left: str | None = None
    """The reason why the file stays as it is."""
    other: Path | None = None
    """The file that its content comes from, or goes to."""
    now: State = None
    """The present state of its path."""


Before = Callable[[Sequence[Undoing], Whereabouts], None]
"""Called with the plan before anything is changed."""


def find_calls(
    lines: Iterable[Line], *, call: int | None = None, turn: int | None = None
) -> frozenset[str]:
    """Return the IDs of a call of the root worker, or of a turn, and of the calls inside it."""
    state = fold_lines(lines)
    if call is not None:
        _check_number("call", call, state.outer_calls)
        return frozenset(each.call.id for each in state.calls if each.number == call)
    _check_number("turn", turn or 0, state.turns)
    return frozenset(each.call.id for each in state.calls if each.turn == turn)


def _check_number(noun: str, number: int, last: int) -> None:
    if not 1 <= number <= last:
        raise UsageError(
            f"the session has no {noun} {number}", hint=f"it has {counted(last, noun)}"
        )


def plan_undo(log: ChangeLog, calls: Container[str | None] | None = None) -> list[Undoing]:
    """Return the effect of an undo on each file that the session, or ``calls``, changed.

    Created files are deleted before anything is restored, and a folder is restored before its
    content.
    """
    files = sorted(log.changed(calls), key=_order)
    moved = find_moved(log, files, calls)
    return [_plan_file_early(log, file, moved, files) for file in files]


def undo_changes(
    log: ChangeLog,
    confirm: Confirm,
    calls: Container[str | None] | None = None,
    before: Before | None = None,
) -> list[Undoing]:
    """Restore every file that the session, or ``calls``, changed.

    Content without a backup is first parked in a place where no other step can be in its way.
    """
    files = sorted(log.changed(calls), key=_order)
    moved = find_moved(log, files, calls)
    refused: dict[Path, Undoing] = {}
    if before is not None:
        # Planning and undoing ask about the same files, so each answer is kept.
        confirm = _Answers(confirm)
        wanted: list[Undoing] = []
        for file in files:
            plan = _plan_file_early(log, file, moved, files)
            if plan.left:
                refused[file.path] = plan
            elif not plan.newer or confirm(file, plan.newer):
                wanted.append(plan)
        if wanted:
            before(wanted, moved)
    for file in files:
        if file.path not in refused:
            failed = _park(log, file, moved, confirm)
            if failed is not None:
                refused[file.path] = failed
    if refused:
        back = {path: each for path, each in moved.back.items() if path not in refused}
        missing = (
            *moved.missing,
            *(each.file for each in refused.values() if _was_a_file(each.file)),
        )
        moved = replace(moved, back=back, missing=missing)
    done: list[Undoing] = []
    for file in files:
        result = refused.get(file.path)
        if result is None:
            # Planned only now, because the steps before may have changed its folder.
            result = _undo_one(log, _plan_file(log, file, moved), moved, confirm)
        done.append(result)
    emptied = [each.file for each in done if not each.left and each.file.before is None]
    for file in (*emptied, *log.passing(calls)):
        remove_folders(file)
    # On disk before the backups are forgotten, or a power cut could lose both.
    sync_folders_of(file.path for file in (*files, *log.passing(calls)))
    missing_states = {file.before for file in moved.missing}
    restored: list[Path] = []
    for each in done:
        if each.left is None and each.file.after not in missing_states:
            restored.append(each.file.path)
    log.forget(restored, calls)
    return done


def _was_a_file(file: ChangedFile) -> bool:
    """Return True if the path had content that may be elsewhere now.

    Pipes and folders have none.
    """
    return file.before is not None and file.before[0] == "file"


class _Answers:
    """Asks about each file once."""

    def __init__(self, confirm: Confirm) -> None:
        self._confirm = confirm
        self._given: dict[Path, bool] = {}

    def __call__(self, file: ChangedFile, why: str) -> bool:
        if file.path not in self._given:
            self._given[file.path] = self._confirm(file, why)
        return self._given[file.path]


def _order(file: ChangedFile) -> tuple[int, int]:
    """Return a sort key: created files first, and inner ones before outer ones.

    Restored files follow, outer ones first.
    """
    depth = len(file.parts)
    return (0, -depth) if file.before is None else (depth, 0)


def _plan_file_early(
    log: ChangeLog, file: ChangedFile, moved: Whereabouts, files: Iterable[ChangedFile]
) -> Undoing:
    """Plan the undo of a file before anything is done.

    If a folder around the file is restored first, its own path does not exist yet.
    """
    plan = _plan_file(log, file, moved)
    if not plan.left or file.before is None:
        return plan
    restored: set[Path] = set()
    for each in files:
        if each.before == ("directory", "") and each.after != each.before:
            restored.add(each.path)
    for folder in file.path.parents:
        if folder in restored and (folder.is_symlink() or not folder.is_dir()):
            left: str | None = None
            if file.unkept and not log.has(file):
                left = file.unkept
            return Undoing(file, "restore", left=left)
    return plan


def _plan_file(log: ChangeLog, file: ChangedFile, moved: Whereabouts) -> Undoing:
    """Plan the undo of a file by its present state."""
    action: Action = "remove" if file.before is None else "restore"
    if file.before and file.before[0] == "special":
        return Undoing(file, action, left="it was a pipe, which forge does not restore")
    try:
        with hold_changed_file(file) as held:
            plan = _judge(file, held, action, moved, log)
    except NotAFolder:
        plan = Undoing(file, "nothing" if file.before is None else action)
    except (ToolError, OSError) as error:
        return Undoing(file, action, left=failure_reason(error))
    if plan.action == "nothing" or _is_only_mode(file):
        return plan
    if file.path in moved.back:
        return replace(plan, other=moved.back[file.path].file.path)
    if file.unkept and not log.has(file):
        return Undoing(file, action, left=file.unkept)
    return plan


def _judge(
    file: ChangedFile, held: HeldFile, action: Action, moved: Whereabouts, log: ChangeLog
) -> Undoing:
    now = state_of(held)
    target = moved.target_of(file.path)
    found = Undoing(file, action, now=now)
    if target is not None and file.before is None and now in (file.after, None):
        return replace(found, action="move", other=target)
    if now == file.before and not _has_other_mode(file, held):
        return replace(found, action="nothing")
    if now == file.before == file.after:
        return found
    if now not in (file.after, None):
        return replace(found, newer=f"it was changed after the {log.changed_since}")
    if file.others:
        return replace(found, newer="somebody else changed it during the session")
    # Content that returns to its earlier path is not lost when this file goes.
    newer: str | None = None
    if target is None:
        newer = moved.doubt(file, held, now)
    return replace(found, newer=newer)


def _is_only_mode(file: ChangedFile) -> bool:
    return file.before == file.after


def _park(
    log: ChangeLog, file: ChangedFile, moved: Whereabouts, confirm: Confirm
) -> Undoing | None:
    """Park the content that returns to a file; return a result if that fails or is not wanted."""
    if file.path not in moved.back:
        return None
    plan = _plan_file(log, file, moved)
    source = moved.back[file.path]
    if plan.left:
        return plan
    if plan.newer and not confirm(file, plan.newer):
        where = f"; its earlier content is in {shown(str(source.file.path))}"
        return replace(plan, left=plan.newer + where)
    try:
        if not source.is_parked:
            move_changed_file(source.file, parking_place(file))
    except (ForgeError, ToolError, OSError) as error:
        return replace(plan, left=failure_reason(error))
    return None


def _undo_one(log: ChangeLog, plan: Undoing, moved: Whereabouts, confirm: Confirm) -> Undoing:
    file = plan.file
    if plan.left:
        return plan
    if plan.action in ("nothing", "move"):
        remove_folders(file)
        return plan
    if file.path in moved.back:
        return _put_back(plan, moved.back[file.path])
    if plan.newer and not confirm(file, plan.newer):
        return replace(plan, left=plan.newer)
    try:
        if file.before:
            restore_file(file, *file.before, log)
        else:
            remove_made_file(file)
    except (ForgeError, ToolError, OSError) as error:
        return replace(plan, left=failure_reason(error))
    return plan


def _put_back(plan: Undoing, moved: Moved) -> Undoing:
    """Move parked content to its path; if that fails, back to where it was."""
    parked = parking_place(plan.file)
    if moved.is_parked:
        parked = moved.file
    try:
        put_back(parked, plan.file)
    except (ForgeError, ToolError, OSError) as error:
        place = shown(str(_put_aside(parked, moved).path))
        left = f"{failure_reason(error)}; its earlier content is in {place}"
        return replace(plan, left=left)
    return plan


def _put_aside(parked: ChangedFile, moved: Moved) -> ChangedFile:
    """Move parked content back to where the session had moved it, or leave it parked."""
    if not moved.is_parked:
        with suppress(ForgeError, ToolError, OSError):
            move_changed_file(parked, moved.file)
            return moved.file
    return parked


def _has_other_mode(file: ChangedFile, held: HeldFile) -> bool:
    """Return True if a command changed the mode and it still differs."""
    info = held.place.info
    return (
        file.after_mode not in (None, file.mode)
        and info is not None
        and info.st_mode & 0o7777 != file.mode
    )


_OF_COMMANDS = frozenset({"shell.result", "shell.session", "executable.run"})
"""The kinds of results that come from commands."""


class SaidMessage(Struct, frozen=True):
    """A user message, with the number of its first line."""

    seq: int
    text: str


def said_messages(lines: Iterable[Line]) -> list[SaidMessage]:
    """Return every user message that started a turn, except those that were rewound."""
    found: list[SaidMessage] = []
    said: SaidMessage | None = None
    for line in lines:
        match line.event if line.delegation is None else None:
            case MessageEvent(message=message, summary_of=None) if message.role == "user":
                said = SaidMessage(said.seq if said else line.seq, message.text)
            case TurnStart(turn=turn):
                if said and turn == 1:
                    found.append(said)
                said = None
            case ContextUsage(rewound=int() as seq):
                found = [each for each in found if each.seq < seq]
    return found


class CallsSince(Struct, frozen=True):
    """The calls that started after a line, including those of child workers and tools."""

    ids: frozenset[str]
    unknown: tuple[ToolCall, ...]
    """Calls that were approved and not tried on a copy: they may have done more than change files.
    """


def calls_since(lines: Iterable[Line], seq: int) -> CallsSince:
    """Return the calls that started in a line or after it."""
    calls = [each for each in fold_lines(lines).calls if each.started and each.started.seq >= seq]
    unknown = tuple(replace(each.call, parent=None) for each in calls if _is_unknown(each))
    return CallsSince(frozenset(each.call.id for each in calls), unknown)


def count_untried_commands(lines: Iterable[Line], calls: Container[str | None] | None) -> int:
    """Return the number of commands in ``calls``, or of all, that may have had other effects."""
    found = (each for each in fold_lines(lines).calls if calls is None or each.call.id in calls)
    return sum(_is_unknown(each) and _is_command(each) for each in found)


def _is_command(state: CallState) -> bool:
    value = state.result.value if state.result else None
    return isinstance(value, Custom) and value.kind in _OF_COMMANDS


def _is_unknown(state: CallState) -> bool:
    was_tried = state.tried is not None and state.tried.outcome != "incomplete"
    return (
        state.decided is not None
        and state.decided.event.approved
        and not (was_tried or _is_of_sets(state))
    )


def _is_of_sets(state: CallState) -> bool:
    """Return True if rule sets alone allowed a command, which then needs no warning."""
    value = state.result.value if state.result else None
    return (
        isinstance(value, Custom)
        and isinstance(value.data, Mapping)
        and value.data.get("ofSets") is True
    )
