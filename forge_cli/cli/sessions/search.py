"""``forge sessions search``: where something was said or called."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.table import print_json, print_table
from forge_cli.core.errors import UsageError
from forge_cli.core.results import from_wire
from forge_cli.core.signature import JsonObject
from forge_cli.record.log import parse_line, session_files

app = new_app()

AROUND = 40
"""Characters of an excerpt before and after what was found."""


@app.command()
def search(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to look for; small and capital letters are alike.")],
    as_json: JsonOption = False,
) -> None:
    """Look for TEXT in what was said, in calls and in their results."""
    if not text:
        raise UsageError("there is nothing to look for", hint="forge sessions search TEXT")
    rows = [row for path in session_files() for row in _hits(path, text.casefold())]
    if as_json:
        print_json(rows)
    else:
        print_table(["session", "line", "event", "excerpt"], rows)


def _hits(path: Path, wanted: str) -> Iterator[dict[str, Any]]:
    """The lines that have it; most are passed over without being parsed."""
    written = json.dumps(wanted, ensure_ascii=False)[1:-1]
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError:
        return
    for number, data in enumerate(lines, 1):
        raw = data.decode(errors="replace").casefold()
        if written not in raw and wanted not in raw:
            continue
        line = parse_line(data)
        said = next((text for text in _texts(line) if wanted in text.casefold()), None) if line else None
        if line and said is not None:
            found = {"line": number, "event": line["type"], "excerpt": _excerpt(said, wanted)}
            yield {"session": path.stem, **found}


def _texts(line: JsonObject) -> Iterator[str]:
    """What can be found in an event; what is said in two of them counts in one."""
    match line:
        case {"type": "message", "message": {"content": str() as content, **rest}}:
            yield content
            files = rest.get("attachments")
            for file in files if isinstance(files, list) else ():
                yield from (str(file[key]) for key in ("name", "text") if isinstance(file, dict) and key in file)
        case {"type": "toolStarted" | "manualToolInvoke", "toolName": str() as tool}:
            yield f"{tool} {json.dumps(line.get('args'), ensure_ascii=False)}"
            yield from _strings(line.get("args"))
        case {"type": "toolResult"}:
            yield str(line.get("error", ""))
            yield str(from_wire(line.get("value")).text())
            yield from _strings(line.get("value"))
        case {
            "type": "approvalRequired" | "approvalResponse" | "status" | "inputPrompt" | "userInput" | "workerUpdate"
        }:
            keys = ("reason", "note", "message", "prompt", "content", "error")
            yield from (str(line[key]) for key in keys if key in line)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def _excerpt(text: str, wanted: str) -> str:
    """What was found with a little around it, in one line."""
    place = max(text.casefold().find(wanted), 0)
    start, end = max(place - AROUND, 0), place + len(wanted) + AROUND
    words = " ".join(text[start:end].split())
    return f"{'...' if start else ''}{words}{'...' if end < len(text) else ''}"
