"""Restoring what a session changed, unless somebody changed it since, and going back to a message of the person."""

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
"""Whether to overwrite a file all the same; gets it, and why one might not want to."""
Action = Literal["restore", "remove", "move", "nothing"]
"""``move`` is for a file that the session made, and that goes back to where its content was."""


class Undoing(Struct, frozen=True):
    """One file: what would be done to it, or was, and why not."""

    file: ChangedFile
    action: Action
    newer: str | None = None
    """Why what is there now is not the session's alone."""
    left: str | None = None
    """Why it is left as it is."""
    other: Path | None = None
    """The file that its content is moved back from, or to."""
    now: State = None
    """The state of its path."""


Before = Callable[[Sequence[Undoing], Whereabouts], None]
"""Gets what will be done, before anything is."""


def find_calls(
    lines: Iterable[Line], *, call: int | None = None, turn: int | None = None
) -> frozenset[str]:
    """The ids of one call of the root worker, or of all calls of a turn, with all that were made inside of them."""
    state = fold_lines(lines)
    wanted, number, last = (
        ("turn", turn or 0, state.turns) if call is None else ("call", call, state.outer_calls)
    )
    if not 1 <= number <= last:
        raise UsageError(
            f"the session has no {wanted} {number}", hint=f"it has {counted(last, wanted)}"
        )
    return frozenset(
        each.call.id
        for each in state.calls
        if number == (each.turn if call is None else each.number)
    )


def plan_undo(log: ChangeLog, calls: Container[str | None] | None = None) -> list[Undoing]:
    """Return what undoing would do to each file that the session changed, or these calls of it, the last one first.

    What was made goes before anything comes back, and a folder comes back before what lies in it.
    """
    files = sorted(log.changed(calls), key=_order)
    moved = find_moved(log, files, calls)
    return [_look_ahead(log, file, moved, files) for file in files]


def undo_changes(
    log: ChangeLog,
    confirm: Confirm,
    calls: Container[str | None] | None = None,
    before: Before | None = None,
) -> list[Undoing]:
    """Restore every file that the session changed, or these calls of it.

    Content that was not kept is first moved from where the session has moved it to a place where it waits: nothing else
    that is undone can be in its way, nor it in the way of others.
    """
    files = sorted(log.changed(calls), key=_order)
    moved = find_moved(log, files, calls)
    refused: dict[Path, Undoing] = {}
    if before is not None:
        answers = _Answers(confirm)
        plans = [_look_ahead(log, file, moved, files) for file in files]
        wanted = [
            each
            for each in plans
            if not each.left and (not each.newer or answers(each.file, each.newer))
        ]
        if wanted:
            before(wanted, moved)
        confirm = answers
        refused = {each.file.path: each for each in plans if each.left}
    for file in files:
        if file.path not in refused and (plan := _park(log, file, moved, confirm)) is not None:
            refused[file.path] = plan
    if refused:
        back = {path: each for path, each in moved.back.items() if path not in refused}
        missing = (
            *moved.missing,
            *(each.file for each in refused.values() if _was_a_file(each.file)),
        )
        moved = replace(moved, back=back, missing=missing)
    done = [
        refused.get(file.path) or _undo_one(log, _look(log, file, moved), moved, confirm)
        for file in files
    ]
    emptied = [each.file for each in done if not each.left and each.file.before is None]
    for file in (*emptied, *log.passing(calls)):
        remove_folders(file)
    sync_folders_of(file.path for file in (*files, *log.passing(calls)))
    missing_states = {file.before for file in moved.missing}
    restored = (each.file for each in done if each.left is None)
    log.forget((file.path for file in restored if file.after not in missing_states), calls)
    return done


def _was_a_file(file: ChangedFile) -> bool:
    """Whether there was content that could be elsewhere now; pipes and folders have none."""
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
    """Sort what was made first, from the inside out; what comes back follows, from the outside in."""
    depth = len(file.parts)
    return (0, -depth) if file.before is None else (depth, 0)


def _look_ahead(
    log: ChangeLog, file: ChangedFile, moved: Whereabouts, files: Iterable[ChangedFile]
) -> Undoing:
    """Look at a file before anything is done: where a folder around it comes back, there is nothing at its path yet."""
    plan = _look(log, file, moved)
    if not plan.left or file.before is None:
        return plan
    around = {
        each.path
        for each in files
        if each.before == ("directory", "") and each.after != each.before
    }
    if any(
        path in around and (path.is_symlink() or not path.is_dir()) for path in file.path.parents
    ):
        return Undoing(
            file, "restore", left=file.unkept if file.unkept and not log.has(file) else None
        )
    return plan


def _look(log: ChangeLog, file: ChangedFile, moved: Whereabouts) -> Undoing:
    """Look at what undoing would do to a file, by what is there now."""
    action: Action = "remove" if file.before is None else "restore"
    if file.before and file.before[0] == "special":
        return Undoing(file, action, left="it was a pipe, and these are not made again")
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
    return replace(found, newer=None if target else moved.doubt(file, held, now))


def _is_only_mode(file: ChangedFile) -> bool:
    return file.before == file.after


def _park(
    log: ChangeLog, file: ChangedFile, moved: Whereabouts, confirm: Confirm
) -> Undoing | None:
    """Move the content that a file gets back to where it waits; the result if that is not possible, or not wanted."""
    if file.path not in moved.back:
        return None
    plan = _look(log, file, moved)
    source = moved.back[file.path]
    if plan.left:
        return plan
    if plan.newer and not confirm(file, plan.newer):
        where = f"; what it was is in {shown(str(source.file.path))}"
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
    """Move content from where it waits to its path, and where that is not possible to where it was."""
    parked = moved.file if moved.is_parked else parking_place(plan.file)
    try:
        put_back(parked, plan.file)
    except (ForgeError, ToolError, OSError) as error:
        left = f"{failure_reason(error)}; what it was is in {shown(str(_put_aside(parked, moved).path))}"
        return replace(plan, left=left)
    return plan


def _put_aside(parked: ChangedFile, moved: Moved) -> ChangedFile:
    """Move content that cannot come back to where the session had moved it, or leave it where it waits."""
    if not moved.is_parked:
        with suppress(ForgeError, ToolError, OSError):
            move_changed_file(parked, moved.file)
            return moved.file
    return parked


def _has_other_mode(file: ChangedFile, held: HeldFile) -> bool:
    """Return True if a command changed the mode, and it still differs."""
    info = held.place.info
    return (
        file.after_mode not in (None, file.mode)
        and info is not None
        and info.st_mode & 0o7777 != file.mode
    )


_OF_COMMANDS = frozenset({"shell.result", "shell.session", "executable.run"})
"""Kinds of results."""


class SaidMessage(Struct, frozen=True):
    """A message of the person, and the number of the line with which it begins."""

    seq: int
    text: str


def said_messages(lines: Iterable[Line]) -> list[SaidMessage]:
    """Every message that gave the worker something to do, but for those that were taken back."""
    found: list[SaidMessage] = []
    said: SaidMessage | None = None
    for line in lines:
        match line.event if line.delegation is None else None:
            case MessageEvent(message=message, summary_of=None) if message.role == "user":
                said = SaidMessage(said.seq if said else line.seq, message.text)
            case TurnStart(turn=turn):
                found += [said] if said and turn == 1 else []
                said = None
            case ContextUsage(rewound=int() as seq):
                found = [each for each in found if each.seq < seq]
    return found


class CallsSince(Struct, frozen=True):
    """The calls that were taken up from a line on, child workers and calls of tools included."""

    ids: frozenset[str]
    unknown: tuple[ToolCall, ...]
    """Those that somebody allowed, and that were not tried first: they may have done more than change files."""


def calls_since(lines: Iterable[Line], seq: int) -> CallsSince:
    calls = [each for each in fold_lines(lines).calls if each.started and each.started.seq >= seq]
    unknown = tuple(replace(each.call, parent=None) for each in calls if _is_unknown(each))
    return CallsSince(frozenset(each.call.id for each in calls), unknown)


def commands_for_real(lines: Iterable[Line], calls: Container[str | None] | None) -> int:
    """How many of these calls, or of all, were commands that may have done more than change files."""
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
    """Return True if rule sets alone cover a command, so that nobody has to be warned of what else it may have done."""
    value = state.result.value if state.result else None
    return (
        isinstance(value, Custom)
        and isinstance(value.data, Mapping)
        and value.data.get("ofSets") is True
    )
