"""``forge tools suggest``: commands that workers call again and again, which could become a tool."""

from __future__ import annotations

import sys

from forge_cli.cli.options import JsonOption, new_app
from forge_cli.core.text import counted
from forge_cli.record.log import session_files
from forge_cli.record.sequences import SESSIONS, TIMES, SessionReader, find_repeated
from forge_cli.sandbox.secrets import own_redactor
from forge_cli.ui.table import print_json, print_table

app = new_app()

MOST_SESSIONS = 500
MOST_BYTES = 64 * 1024 * 1024
MOST_ROWS = 50


@app.command()
def suggest(as_json: JsonOption = False) -> None:
    """Name shell commands that recur in your sessions.

    What was called one after another at least 3 times in at least 2 sessions, the longest sequences first. Nothing is
    sent anywhere, and nothing is made.
    """
    files = session_files()
    reader = SessionReader(MOST_BYTES)
    found = find_repeated(reader.runs(files[:MOST_SESSIONS]))[:MOST_ROWS]
    if reader.read < len(files):
        sys.stderr.write(
            f"only the last {reader.read} of {counted(len(files), 'session')} were read\n"
        )
    redactor = own_redactor()
    commands = [[redactor.redact_text(command) for command in each.commands] for each in found]
    rows = [{"count": each.count, "sessions": each.sessions} for each in found]
    if as_json:
        print_json([{**row, "commands": each} for row, each in zip(rows, commands, strict=True)])
    elif rows:
        shown = [
            {**row, "commands": " ; ".join(each)} for row, each in zip(rows, commands, strict=True)
        ]
        print_table(["count", "sessions", "commands"], shown)
    else:
        sys.stderr.write(f"no commands recur {TIMES} times in {SESSIONS} sessions\n")
