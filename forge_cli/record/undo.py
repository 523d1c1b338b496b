"""Restoring what a session changed, unless somebody changed it since, and going back to a message of the person."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.calls import ToolCall
from forge_cli.core.errors import ForgeError, ToolError, UsageError
from forge_cli.core.events import ContextUsage, MessageEvent, TurnStart
from forge_cli.core.results import Custom
from forge_cli.core.text import counted
from forge_cli.core.zones import Access, Zone, ZoneMode
from forge_cli.record.changes import ChangedFile, ChangeLog, state_of
from forge_cli.record.line import Line
from forge_cli.record.state import CallState, fold
from forge_cli.sandbox.files.held import HeldFile
from forge_cli.sandbox.files.place import make_parent
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.sandbox.files.virtual import virtual

Confirm = Callable[[ChangedFile, str], bool]
"""Whether to overwrite a file all the same; gets it, and why one might not want to."""
Action = Literal["restore", "remove", "nothing"]


class Undoing(Struct, frozen=True):
    """One file: what would be done to it, or was, and why not."""

    file: ChangedFile
    action: Action
    newer: str | None = None
    """Why what is there now is not the session's alone."""
    left: str | None = None
    """Why it is left as it is."""


def find_calls(lines: Iterable[Line], *, call: int | None = None, turn: int | None = None) -> frozenset[str]:
    """The ids of one call of the root worker, or of all calls of a turn, with all that were made inside of them."""
    state = fold(lines)
    wanted, number, last = ("turn", turn or 0, state.turns) if call is None else ("call", call, state.outer_calls)
    if not 1 <= number <= last:
        raise UsageError(f"the session has no {wanted} {number}", hint=f"it has {counted(last, wanted)}")
    return frozenset(each.call.id for each in state.calls if number == (each.turn if call is None else each.number))


def look(file: ChangedFile) -> Undoing:
    """Look at what undoing would do to a file, by what is there now."""
    action: Action = "remove" if file.before is None else "restore"
    if file.unkept:
        return Undoing(file, action, left=file.unkept)
    if file.before and file.before[0] == "special":
        return Undoing(file, action, left="it was a pipe, and these are not made again")
    try:
        with _held(file, Access.INFO) as held:
            return _judge(file, held, action)
    except (ToolError, OSError) as error:
        return Undoing(file, action, left=str(error))


def undo(log: ChangeLog, confirm: Confirm, calls: Container[str | None] | None = None) -> list[Undoing]:
    """Restore every file that the session changed, or these calls of it, the last change first.

    What was made goes before anything comes back, and a folder comes back before what lies in it.
    """
    last_first = log.changed(calls)[::-1]
    last_first.sort(key=lambda file: 0 if file.before is None else len(file.parts))
    done = [_undo_one(log, look(file), confirm) for file in last_first]
    log.forget((each.file.path for each in done if each.left is None), calls)
    return done


def _judge(file: ChangedFile, held: HeldFile, action: Action) -> Undoing:
    now = state_of(held)
    if now == file.before and not _has_other_mode(file, held):
        return Undoing(file, "nothing")
    if now == file.before == file.after:
        return Undoing(file, action)
    if now not in (file.after, None):
        return Undoing(file, action, newer="it was changed after the session")
    if file.others:
        return Undoing(file, action, newer="somebody else changed it during the session")
    return Undoing(file, action)


def _undo_one(log: ChangeLog, plan: Undoing, confirm: Confirm) -> Undoing:
    file = plan.file
    if plan.left:
        return plan
    if plan.action == "nothing":
        _remove_folders(file)
        return plan
    if plan.newer and not confirm(file, plan.newer):
        return Undoing(file, plan.action, plan.newer, left=plan.newer)
    try:
        if file.before:
            _restore(file, *file.before, log)
        else:
            with _held(file, Access.DELETE) as held:
                held.delete()
            _remove_folders(file)
    except (ForgeError, ToolError, OSError) as error:
        return Undoing(file, plan.action, plan.newer, left=str(error))
    return plan


def _has_other_mode(file: ChangedFile, held: HeldFile) -> bool:
    """Did a command change the mode, which is not back?"""
    info = held.place.info
    return file.after_mode not in (None, file.mode) and info is not None and info.st_mode & 0o7777 != file.mode


def _restore(file: ChangedFile, kind: str, detail: str, log: ChangeLog) -> None:
    with _held(file, Access.INFO) as held:
        if state_of(held) == file.before:
            os.chmod(held.place.name, file.mode, dir_fd=held.place.folder)
            return
        gives_way = held.kind == "directory" and kind != "directory"
    if gives_way:
        with _held(file, Access.DELETE) as held:
            held.delete()
    with _held(file, Access.WRITE if kind == "file" else Access.DELETE) as held:
        if kind == "file":
            with log.kept(file, detail) as data:
                held.restore(data, file.attributes)
            return
        if held.kind is not None:
            held.delete()
        with make_parent(held.place) as folder:
            if kind == "link":
                os.symlink(detail, held.place.name, dir_fd=folder)
            else:
                os.mkdir(held.place.name, dir_fd=folder)
                os.chmod(held.place.name, file.mode, dir_fd=folder)


def _remove_folders(file: ChangedFile) -> None:
    """Delete the folders that the session made for a file, if nothing is in them."""
    for folder in list(file.path.parents)[: file.made]:
        with suppress(ToolError, OSError):
            _sandbox(file).delete(str(folder))


@contextmanager
def _held(file: ChangedFile, access: Access) -> Iterator[HeldFile]:
    """The very place that the session changed: a path that leads elsewhere by now is refused."""
    if os.path.realpath(file.zone) != file.zone:
        raise ToolError(f"{file.zone} leads elsewhere now")
    sandbox = _sandbox(file)
    with sandbox.hold(str(file.path), access, virtual(sandbox.zones[0], file.parts), follow=False) as held:
        yield held


def _sandbox(file: ChangedFile) -> Sandbox:
    return Sandbox([Zone("forge-undo", Path(file.zone), ZoneMode.RW)])


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
    calls = [each for each in fold(lines).calls if each.started and each.started.seq >= seq]
    unknown = tuple(replace(each.call, parent=None) for each in calls if _is_unknown(each))
    return CallsSince(frozenset(each.call.id for each in calls), unknown)


def commands_for_real(lines: Iterable[Line], calls: Container[str | None] | None) -> int:
    """How many of these calls, or of all, were commands that may have done more than change files."""
    found = (each for each in fold(lines).calls if calls is None or each.call.id in calls)
    return sum(_is_unknown(each) and _is_command(each) for each in found)


def _is_command(state: CallState) -> bool:
    value = state.result.value if state.result else None
    return isinstance(value, Custom) and value.kind in _OF_COMMANDS


def _is_unknown(state: CallState) -> bool:
    was_tried = state.tried is not None and state.tried.outcome != "incomplete"
    return state.decided is not None and state.decided.event.approved and not was_tried
