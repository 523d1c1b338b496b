"""The commands ``undo`` and ``rewind``: restore files, and return to an earlier message."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from forge_cli.core.approval import Effect
from forge_cli.core.calls import ToolCall
from forge_cli.core.errors import StatusLevel, UsageError
from forge_cli.core.events import StatusEvent
from forge_cli.core.text import cut, visible
from forge_cli.engine.gate.steps import Caller, Refusal
from forge_cli.record.caches import short_name, split_caches
from forge_cli.record.changes import ChangedFile, ChangeLog
from forge_cli.record.log import read_readable
from forge_cli.record.redo import plan_redo, redo_changes, undo_with_redo
from forge_cli.record.resume import read_past
from forge_cli.record.undo import (
    SaidMessage,
    Undoing,
    calls_since,
    find_calls,
    plan_undo,
    said_messages,
)

if TYPE_CHECKING:
    from forge_cli.engine.runtime.reopening import CurrentWorker

_DONE = {
    "restore": "restored",
    "remove": "removed",
    "move": "moved back",
    "nothing": "was as before",
}
_WOULD = {
    "restore": "would be restored",
    "remove": "would be removed",
    "move": "would be moved back",
    "nothing": "is as before",
}
_MAX_SHOWN = 60
"""Characters of a message or a call."""
_MAX_NAMED = 5
"""Calls that a warning names."""


class GoingBack:
    """The commands ``undo`` and ``rewind``, which report each file."""

    def __init__(self, current: CurrentWorker) -> None:
        self._current = current
        self._left = set[tuple[Path, str | None]]()
        """Files that could not be undone, with their last call; the next ``undo`` skips them."""

    def _say(self, sentence: str, level: StatusLevel = "info") -> None:
        self._current.bus.emit(StatusEvent(level, sentence))

    @property
    def _changes(self) -> ChangeLog:
        session = self._current.opened.wiring.session
        if session is None or session.open_changes is None:
            raise UsageError("this session is not kept, so it cannot be undone")
        return session.open_changes()

    @property
    def _log(self) -> Path:
        """The log of the session; in a draft, the backups are elsewhere."""
        session = self._current.opened.wiring.session
        if session is None or session.log is None:
            raise UsageError("this session is not kept, so it cannot be undone")
        return session.log.path

    async def rewind(self, args: Sequence[str]) -> None:
        """Return to a message: restore the files before it, and forget everything after it."""
        log = self._changes
        lines = read_readable(self._log).lines
        said = said_messages(lines)
        if not args:
            self._list_messages(said)
            return
        number = " ".join(args)
        if not (number.isascii() and number.isdecimal() and 1 <= int(number) <= len(said)):
            raise UsageError(
                f"there is no message '{visible(number)}'", hint="/rewind alone lists them"
            )
        message = said[int(number) - 1]
        since = calls_since(lines, message.seq)
        self._say_each(self._undo(log, since.ids), only_list=False)
        await self._say_not_undone(since.unknown)
        before = read_past(line for line in lines if line.seq < message.seq)
        self._current.opened.loop.forget(before.messages, message.seq)
        self._say(f"back to before message {number}: {_beginning(message.text)}")

    def _say_each(self, found: Iterable[Undoing], only_list: bool) -> None:
        """Report each file, but the caches of programs by their folders only."""
        workspace = self._workspace
        rows, caches = split_caches(found, workspace)
        for each in rows:
            self._say(_describe(each, workspace, only_list), "warning" if each.left else "info")
        for same in caches:
            done = (_WOULD if only_list else _DONE)[same.action]
            self._say(f"caches {done}: {same.names(workspace)}")

    @property
    def _workspace(self) -> Path:
        return self._current.opened.folder.workspace.resolve()

    async def _say_not_undone(self, calls: Iterable[ToolCall]) -> None:
        if left := [call for call in calls if await self._may_do_more(call)]:
            what = "these may have done more than change files, which is not undone"
            self._say(f"{what}: {_name_calls(left)}", "warning")

    def _list_messages(self, said: Sequence[SaidMessage]) -> None:
        for number, message in enumerate(said, 1):
            self._say(f"{number}. {_beginning(message.text)}")
        if said:
            self._say("/rewind N goes back to one of them")
        else:
            self._say("nothing has been said yet")

    async def _may_do_more(self, call: ToolCall) -> bool:
        """Return True if a call may have had effects that cannot be undone, such as network."""
        judge = self._current.opened.loop.guard.judge
        try:
            judged = await judge.verdict(call, Caller.MODEL)
        except Refusal:  # the tool no longer exists
            return True
        effects = judged.tool.effects
        only_files = effects is not None and effects <= {Effect.READ, Effect.WRITE}
        return not (only_files or judged.tool.delegates or judged.verdict.risk == "low")

    def _undo(self, log: ChangeLog, calls: Container[str | None] | None) -> list[Undoing]:
        done, lost = undo_with_redo(log, _leave, calls)
        for file in lost:
            name = short_name(file.path, self._workspace)
            self._say(f"/undo --redo will not bring back {name}: {file.unkept}", "warning")
        return done

    def _redo(self, log: ChangeLog, *, only_list: bool) -> None:
        found = plan_redo(log) if only_list else redo_changes(log, _leave)
        self._say_each(found, only_list)
        if not only_list:
            self._left.clear()
        if not found:
            self._say("nothing to redo: no undo is kept")

    async def undo(self, args: Sequence[str]) -> None:
        log = self._changes
        only_list = "--list" in args
        args = [arg for arg in args if arg != "--list"]
        if args == ["--redo"]:
            self._redo(log, only_list=only_list)
            return
        calls = self._undone_calls(args, log)
        found = plan_undo(log, calls) if only_list else self._undo(log, calls)
        self._say_each(found, only_list)
        if not only_list:
            self._left |= {(each.file.path, each.file.call) for each in found if each.left}
            if any(each.left and each.newer for each in found):
                later = f"forge undo {self._log.stem}"
                self._say(
                    f"/undo again continues with earlier changes; '{later}' asks about each file, "
                    "once the conversation has ended"
                )
        if not found:
            self._say("nothing to undo: no change is kept")
        unknown = calls_since(read_readable(self._log).lines, 0).unknown
        await self._say_not_undone(call for call in unknown if calls is None or call.id in calls)

    def _undone_calls(self, args: Sequence[str], log: ChangeLog) -> Container[str | None] | None:
        """Return the calls to undo, or None for all."""
        match args:
            case []:
                return self._last_changes(log)
            case ["--all"]:
                return None
            case [("--call" | "--turn") as kind, number] if number.isascii() and number.isdecimal():
                # As ``call=N`` or ``turn=N``.
                return find_calls(read_readable(self._log).lines, **{kind[2:]: int(number)})
        hint = "/undo [--list] [--all | --call N | --turn N | --redo]"
        problem = f"undo takes one of --all, --call N, --turn N and --redo, not '{' '.join(args)}'"
        raise UsageError(problem, hint=hint)

    def _last_changes(self, log: ChangeLog) -> Container[str | None] | None:
        """Return the calls since the last message that changed something not yet undone."""
        lines = read_readable(self._log).lines
        since = (calls_since(lines, message.seq).ids for message in reversed(said_messages(lines)))
        tried = self._left
        for ids in since:
            if {(each.path, each.call) for each in log.changed(ids)} - tried:
                return ids
        return None


def _leave(file: ChangedFile, why: str) -> bool:
    # a conversation does not ask about each file, so newer content is kept
    return False


def _beginning(text: str) -> str:
    return cut(" ".join(text.split()), _MAX_SHOWN, "end")


def _name_calls(calls: Sequence[ToolCall]) -> str:
    named: list[str] = []
    for call in calls[:_MAX_NAMED]:
        named.append(f"{call.name} {_beginning(' '.join(map(str, call.args.values())))}")
    if len(calls) > _MAX_NAMED:
        named.append(f"and {len(calls) - _MAX_NAMED} more")
    return "; ".join(named)


def _describe(undoing: Undoing, workspace: Path, only_list: bool) -> str:
    name = short_name(undoing.file.path, workspace)
    if undoing.left:
        return f"{name} is left as it is: {undoing.left}"
    newer = f", but {undoing.newer}" if undoing.newer else ""
    return f"{name} {(_WOULD if only_list else _DONE)[undoing.action]}{newer}"
