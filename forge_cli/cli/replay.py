"""``forge replay``: a session repeated without a model, up to the first difference."""

from __future__ import annotations

from enum import StrEnum
from itertools import chain
from typing import Annotated, TextIO

import typer

from forge_cli.cli.courses import HomeOption, counts, home_folder, summary, workspace_of
from forge_cli.cli.find_worker import find_trusted_worker
from forge_cli.cli.notices import warn
from forge_cli.cli.options import (
    DirectoryOption,
    JsonOption,
    chosen_mode,
    new_app,
)
from forge_cli.cli.output import data_output
from forge_cli.cli.sessions.common import NAMED
from forge_cli.core.approval import ApprovalMode
from forge_cli.core.errors import ExitCode, UsageError
from forge_cli.core.events import ToolResult
from forge_cli.core.results import Diff
from forge_cli.engine.replay.drift import Drift
from forge_cli.engine.replay.recording import Recording, open_recording
from forge_cli.engine.replay.replay import Course, Tools
from forge_cli.engine.runtime.repeat import Repetition, ReplayStopped, worker_of
from forge_cli.process.signals import in_loop, interruptible
from forge_cli.process.stdin import is_interactive
from forge_cli.ui.table import print_json
from forge_cli.ui.terminal.terminal import TerminalUI

app = new_app()

PATCH = "patch.result"
"""The kind of result that apply_patch returns."""


class Which(StrEnum):
    """Values of ``--tools``."""

    live = "live"
    recorded = "recorded"


@app.command()
def replay(
    session: Annotated[
        str, typer.Argument(metavar="SESSION|FILE", help=f"A session, {NAMED}; or a record file.")
    ],
    tools: Annotated[
        Which | None,
        typer.Option(
            "--tools",
            help="Which calls to re-run (live: all, recorded: none). Default: read-only calls.",
        ),
    ] = None,
    worker: Annotated[
        str | None,
        typer.Option("--worker", metavar="WORKER", help="The worker's path, if it has moved."),
    ] = None,
    approval_mode: Annotated[
        ApprovalMode | None,
        typer.Option("--approval-mode", help="Who answers when a call asks; for --tools live."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("-y", help="The same as --approval-mode approve_all.")
    ] = False,
    as_json: JsonOption = False,
    directory: DirectoryOption = None,
    home: HomeOption = None,
) -> None:
    """Replay a session without a model, and show where it differs."""
    mode = chosen_mode(approval_mode, yes)
    if mode and tools is not Which.live:
        raise UsageError("only --tools live asks questions")
    recording = open_recording(session)
    if recording.damage:
        warn(recording.damage)
    moved = worker and find_trusted_worker(worker, interactive=is_interactive())
    repetition = Repetition(
        worker=worker_of(recording, moved),
        recording=recording,
        workspace=workspace_of(recording.workspace, directory),
        tools=Tools(tools.value) if tools else Tools.READ_ONLY,
        mode=mode,
        home=home_folder(home),
    )
    with data_output() as out:
        end = in_loop(carry_out, repetition)
        if (
            isinstance(end, Drift)
            and repetition.tools is Tools.READ_ONLY
            and has_changes(recording)
        ):
            _suggest_recorded(end)
        code = _report(recording, end, as_json, out)
    raise typer.Exit(code)


async def carry_out(repetition: Repetition) -> Course | Drift | ReplayStopped:
    """Repeat a session; a difference or a stop is an outcome, too."""
    interactive = repetition.tools is Tools.LIVE and is_interactive()
    find = repetition.host.renderer
    screen = TerminalUI(
        repetition.bus, trace="quiet", stream_text=False, interactive=interactive, find=find
    )
    with interruptible(repetition.interrupt.interrupt):
        async with screen:
            try:
                return await repetition.go()
            except (Drift, ReplayStopped) as end:
                return end


def has_changes(recording: Recording) -> bool:
    """Return True if the results of the session say that it changed files."""
    for line in chain.from_iterable(part.lines for part in recording.parts):
        event = line.event
        if not isinstance(event, ToolResult) or event.status != "success":
            continue
        if isinstance(event.value, Diff) or getattr(event.value, "kind", "") == PATCH:
            return True
    return False


def _suggest_recorded(drift: Drift) -> None:
    """Suggest ``--tools recorded`` for a differing result, which a later change may explain."""
    if drift.kind == "result":
        remedy = (
            "the changes of the session are not repeated; "
            "--tools recorded takes every result from the record"
        )
        drift.hint = f"{drift.hint}\n  {remedy}" if drift.hint else remedy


def _report(
    recording: Recording, end: Course | Drift | ReplayStopped, as_json: bool, out: TextIO
) -> ExitCode:
    match end:
        case ReplayStopped(exit_code=code):
            return code
        case Drift():
            if as_json:
                print_json(
                    {"session": recording.session, "worker": recording.worker, "drift": end.wire()},
                    out,
                )
                return ExitCode.DRIFT
            raise end
        case Course():
            if as_json:
                data = {
                    "session": recording.session,
                    "worker": recording.worker,
                    "drift": None,
                    **counts(end),
                }
                print_json(data, out)
            else:
                out.write(f"no drift: {summary(end)}\n")
            return ExitCode.DONE
