"""``forge undo``: restores the files that a session changed."""

from __future__ import annotations

import os
import sys
from collections.abc import Container
from pathlib import Path
from typing import Annotated

import typer

from forge_cli.cli.notices import ask, warn
from forge_cli.cli.options import JsonOption, new_app
from forge_cli.core.errors import ExitCode, UsageError
from forge_cli.core.text import counted, visible
from forge_cli.process.stdin import is_interactive
from forge_cli.record.caches import short_name, split_caches
from forge_cli.record.changes import ChangedFile, ChangeLog, change_log
from forge_cli.record.leftovers import drop_unfinished
from forge_cli.record.log import find_own_session, read_readable
from forge_cli.record.overview import last_below
from forge_cli.record.places import lock_log, unlock_log
from forge_cli.record.redo import plan_redo, redo_changes, undo_with_redo
from forge_cli.record.undo import Undoing, count_untried_commands, find_calls, plan_undo
from forge_cli.sandbox.trial.left import finish_trials
from forge_cli.ui.table import print_json

app = new_app()

_DONE = {"restore": "restored", "remove": "removed", "move": "moved", "nothing": "unchanged"}


@app.command("undo")
def undo_session(
    session: Annotated[
        str | None,
        typer.Argument(
            metavar="SESSION",
            help="By id, a part of the id, or last. Default: the last of this folder.",
        ),
    ] = None,
    call: Annotated[
        int | None, typer.Option("--call", metavar="N", help="Only the changes of its Nth call.")
    ] = None,
    turn: Annotated[
        int | None, typer.Option("--turn", metavar="N", help="Only the changes of its Nth turn.")
    ] = None,
    only_list: Annotated[
        bool, typer.Option("--list", help="Only list what would be restored.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--redo", help="Redo what the last undo took back.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Restore the files that a session changed.

    Covers changes by file tools and by commands, unless a file was changed again since. Effects of
    commands over the network or outside of the zones are not undone. --redo repeats what the last
    undo of the session took back. The exit code is 1 if a file was not restored.
    """
    if again and not call is turn is None:  # if either was given
        raise UsageError(
            "--redo reverts the whole last undo, so it cannot be combined with --call or --turn"
        )
    if call is not None and turn is not None:
        raise UsageError("only one of --call and --turn may be given")
    path = find_own_session(session) if session else last_below(Path.cwd())
    lines = read_readable(path).lines
    if call is turn is None:
        calls = None
    else:
        calls = find_calls(lines, call=call, turn=turn)
    log = change_log(path.stem)
    held = lock_log(path, hint="end that process, or wait for it; in its conversation, use /undo")
    try:
        finish_trials(path.parent, lambda _, sentence: warn(sentence))
        drop_unfinished(path)
        if again:
            found, lost = _redo(log, only_list)
        else:
            found, lost = _undo(log, calls, only_list)
    finally:
        unlock_log(path, held)
    if as_json:
        print_json([_row(each) for each in found])
    else:
        here = Path(os.path.realpath("."))
        rows, caches = split_caches(found, here)
        for each in rows:
            sys.stdout.write(f"{_line(each, only_list)}\n")
        for same in caches:
            word = same.action if only_list else _DONE[same.action]
            sys.stdout.write(f"{word:<9} caches: {same.names(here)}\n")
    left = sum(each.left is not None for each in found)
    if not found:
        what, kept = ("redo", "undo") if again else ("undo", "change")
        warn(f"nothing to {what} in the session {path.stem}: no {kept} is kept")
    for file in lost:
        warn(f"forge undo --redo will not bring back {_name(file)}: {visible(file.unkept or '')}")
    ran = 0 if again else count_untried_commands(lines, calls)
    if ran:
        warn(f"not undone: other effects of {counted(ran, 'command')}, such as over the network")
    if left and not only_list:
        as_before = "it is" if left == 1 else "they are"
        sys.stderr.write(f"forge: {counted(left, 'file')} of {len(found)} left as {as_before}\n")
        raise typer.Exit(ExitCode.FAILED)


def _undo(
    log: ChangeLog, calls: Container[str | None] | None, only_list: bool
) -> tuple[list[Undoing], list[ChangedFile]]:
    if only_list:
        return plan_undo(log, calls), []
    return undo_with_redo(log, _confirm, calls)


def _redo(log: ChangeLog, only_list: bool) -> tuple[list[Undoing], list[ChangedFile]]:
    if only_list:
        return plan_redo(log), []
    return redo_changes(log, _confirm), []


def _row(undoing: Undoing) -> dict[str, str | None]:
    reason = undoing.left or undoing.newer
    return {
        "path": str(undoing.file.path),
        "action": undoing.action,
        "left": undoing.left,
        "reason": reason,
    }


def _line(undoing: Undoing, only_list: bool) -> str:
    name = _name(undoing.file)
    if undoing.left:
        return f"left      {name}: {visible(undoing.left)}"
    word = undoing.action if only_list else _DONE[undoing.action]
    if only_list and undoing.newer:
        return f"{word:<9} {name}: {visible(undoing.newer)}; you are asked"
    if undoing.action == "move" and undoing.other:
        return f"{word:<9} {name}: back to {_shown(undoing.other)}"
    return f"{word:<9} {name}"


def _name(file: ChangedFile) -> str:
    return _shown(file.path)


def _shown(path: Path) -> str:
    here = Path(os.path.realpath("."))
    return visible(short_name(path, here))


def _confirm(file: ChangedFile, why: str) -> bool:
    """Ask before newer content is overwritten; return False if nobody can be asked."""
    if not is_interactive():
        return False
    question = "Remove it" if file.before is None else "Overwrite it"
    return ask(f"{_name(file)}: {visible(why)}. {question}? [y]es, [n]o > ").lower() in ("y", "yes")
