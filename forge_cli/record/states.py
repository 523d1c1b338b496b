"""The state of each session for people: what it does, waits for, or came to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from forge_cli.core.errors import ForgeError
from forge_cli.core.events import ToolResult, ToolStarted
from forge_cli.core.text import cut
from forge_cli.record.line import Line
from forge_cli.record.log import read_readable
from forge_cli.record.pending import may_be_asking, open_requests
from forge_cli.record.places import lock_holder, session_file
from forge_cli.record.runs import BackgroundRun, background_run, background_runs
from forge_cli.sandbox.drafts.draft import all_drafts

State = Literal["working", "asks", "ready", "parked", "done", "failed"]
MAX_NOW = 60
"""Characters of the description of the current work."""
QUEUED = "waits for another session to end"


def ready_drafts() -> dict[str, str]:
    """Return the drafts that wait for a review, by session."""
    return {each.session: each.id for each in all_drafts() if each.state == "ready"}


def add_states(rows: list[dict[str, Any]]) -> None:
    """Add ``state`` and ``now`` to rows of sessions."""
    drafts = ready_drafts()
    for row in rows:
        if "error" in row:
            continue
        row["now"] = ""
        if row["pid"]:
            row["state"], row["now"] = live_state(session_file(row["session"]))
            run = background_run(row["session"])
            if run and run.queued:
                row["now"] = QUEUED
        else:
            row["state"] = ended_state(row["status"], has_draft=row["session"] in drafts)


def ended_state(status: str, *, has_draft: bool) -> State:
    """Return the state of a session that no process works on."""
    if status == "parked":
        return "parked"
    if has_draft:
        return "ready"
    return "done" if status == "completed" else "failed"


def live_state(path: Path) -> tuple[State, str]:
    """Return the state of a running session, and what it does now."""
    try:
        lines = read_readable(path).lines
    except ForgeError:
        return "working", ""
    if may_be_asking(path) and (waiting := open_requests(lines)):
        request = waiting[-1].request
        return "asks", cut(f"{request.tool_name}: {request.reason}", MAX_NOW, "end")
    return "working", _current_work(lines)


def _current_work(lines: tuple[Line, ...]) -> str:
    """Return the calls that run, or that the model is thinking."""
    running: dict[str, str] = {}
    for line in lines:
        call = str(line.data.get("toolCallId"))
        if line.type == ToolStarted.type:
            args = line.data.get("args")
            first = next(iter(args.values()), "") if isinstance(args, dict) else ""
            running[call] = f"{line.data.get('toolName')} {first}".strip()
        elif line.type == ToolResult.type:
            running.pop(call, None)
        elif line.type == "sessionStart":
            running.clear()
    if not running:
        return "thinking"
    return cut("; ".join(" ".join(each.split()) for each in running.values()), MAX_NOW, "end")


def rows_without_log(is_known: Callable[[str], bool]) -> list[dict[str, Any]]:
    """Return rows of sessions in the background that have not begun, or failed to begin."""
    rows: list[dict[str, Any]] = []
    for run in background_runs().values():
        if not is_known(run.session) and not run.log.exists():
            rows.append(_row_of(run))
    return rows


def _row_of(run: BackgroundRun) -> dict[str, Any]:
    pid = lock_holder(run.log)
    return {
        "session": run.session,
        "started": run.started,
        "ended": run.started,
        "worker": run.worker,
        "status": "running" if pid else "failed",
        "turns": 0,
        "tool_calls": 0,
        "task": run.task,
        "model": "",
        "workspace": run.folder,
        "worker_file": None,
        "pid": pid,
        "title": "",
        "batch": None,
        "cost": None,
        "state": "working" if pid else "failed",
        "now": QUEUED if pid and run.queued else "",
    }
