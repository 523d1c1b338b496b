"""``forge approvals list``: every request that waits for an answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from forge_cli.cli.notices import warn
from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.output import data_output
from forge_cli.cli.table import print_json
from forge_cli.core.errors import ForgeError
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.record.log import read_session
from forge_cli.record.open import check_log
from forge_cli.record.overview import Overview, SessionIndex
from forge_cli.record.pending import Waiting, may_be_asking, open_requests, requests_of
from forge_cli.record.proof import Proofs
from forge_cli.record.resume import read_past
from forge_cli.sandbox.secrets import has_mark
from forge_cli.ui.terminal.console import new_console
from forge_cli.ui.transcript.terminal import draw_request

app = new_app()


@app.command("list")
def list_approvals(as_json: JsonOption = False) -> None:
    """List the requests that wait for an answer, of parked sessions and of those at work."""
    rows = [request_row(path.stem, waiting) for path, waiting in waiting_requests()]
    if as_json:
        print_json(rows)
        return
    with data_output() as out:
        console, find = new_console(out), PluginHost().renderer
        for row in rows:
            draw_request(row, console, find)


def waiting_requests(warn: Callable[[str], None] = warn) -> list[tuple[Path, Waiting]]:
    """The requests of all sessions, each with its log.

    A session that cannot be resumed has none that could be answered, and that is said.
    """
    with SessionIndex() as index:
        found = [(path, seen.pid) for path, seen in index.readable() if _may_wait(path, seen)]
    return [(path, waiting) for path, pid in found for waiting in _requests(path, pid, warn)]


def _may_wait(path: Path, seen: Overview) -> bool:
    """Could it be waiting for an answer, parked or at work?"""
    return may_be_asking(path) if seen.pid else seen.waits


def _requests(path: Path, pid: int | None, warn: Callable[[str], None]) -> list[Waiting]:
    try:
        log = read_session(path)
        check_log(log)
        if pid:
            return [replace(each, pid=pid) for each in open_requests(log.lines)]
        return requests_of(read_past(log.lines, void=Proofs(path).unproven(log.lines)), log.lines)
    except ForgeError as error:
        warn(str(error).partition("\n")[0])
        return []


def request_row(session: str, waiting: Waiting) -> dict[str, Any]:
    """One request as ``--json`` prints it."""
    request, answer = waiting.request, waiting.answer
    return {
        "session": session,
        "request": waiting.id,
        "worker": " > ".join(waiting.path),
        "tool": request.tool_name,
        "args": request.args,
        "reason": request.reason,
        "risk": request.risk,
        "rule": request.rule,
        "where": str(request.where) if request.where else None,
        "preview": request.preview.wire() if request.preview else None,
        "distribution": request.distribution,
        "time": waiting.time,
        "pid": waiting.pid,
        "held_secret": has_mark(dict(request.args)),
        "answer": {"approved": answer.approved, "note": answer.note} if answer is not None else None,
        **({"recap": request.recap} if request.recap else {}),
    }
