"""``forge approvals list``: requests that wait for an answer."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from forge_cli.cli.notices import warn
from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.output import data_output
from forge_cli.cli.sessions.common import NAMED
from forge_cli.core.phrases import has_mark
from forge_cli.core.wire import camel_keys
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.record.log import find_session
from forge_cli.record.pending import Waiting, waiting_requests
from forge_cli.ui.table import print_json
from forge_cli.ui.terminal.console import new_console
from forge_cli.ui.transcript.terminal import draw_request

app = new_app()


@app.command("list")
def list_approvals(
    session: Annotated[
        str | None,
        typer.Argument(
            metavar="SESSION", help=f"Show the requests of one session in full: {NAMED}."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the requests that wait for an answer, of parked and running sessions."""
    only = find_session(session) if session else None
    found = [each for each in waiting_requests(warn) if only is None or each[0].stem == only.stem]
    if as_json:
        print_json([camel_keys(request_row(path.stem, waiting)) for path, waiting in found])
        return
    if not found:
        sys.stderr.write("no requests wait for an answer\n")
    with data_output() as out:
        console = new_console(out)
        find = PluginHost().renderer
        for path, waiting in found:
            draw_request(path.stem, waiting, console, find, whole=only is not None)


def request_row(session: str, waiting: Waiting) -> dict[str, Any]:
    """Return a request as ``--json`` prints it."""
    request = waiting.request
    answer = None
    if waiting.answer is not None:
        answer = {"approved": waiting.answer.approved, "note": waiting.answer.note}
    row: dict[str, Any] = {
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
        "answer": answer,
    }
    if request.provenance:
        row["provenance"] = [each.wire() for each in request.provenance]
    if request.recap:
        row["recap"] = request.recap
    if request.folded:
        row["folded"] = [{"line": each.line, "text": each.text} for each in request.folded]
    return row
