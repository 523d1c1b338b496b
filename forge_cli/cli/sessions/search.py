"""``forge sessions search``: where something was said or called."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, assert_never

import typer

from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.sessions.common import shorten_ids
from forge_cli.cli.table import Column, print_json, print_table
from forge_cli.core.errors import UsageError
from forge_cli.core.events import (
    AnyEvent,
    ApprovalDecided,
    ApprovalRequired,
    ApprovalResponse,
    CommandEvent,
    ContextUsage,
    GrantsEvent,
    InputPrompt,
    Interrupt,
    ManualToolInvoke,
    ManualToolsAvailable,
    MessageEvent,
    ModeChanged,
    NetworkAccess,
    OtherEvent,
    SessionEnd,
    SessionStart,
    SessionUpdate,
    StatusEvent,
    Streaming,
    ToolOutput,
    ToolResult,
    ToolStarted,
    TurnEndEvent,
    TurnStart,
    UserInput,
    WorkerUpdate,
)
from forge_cli.record.line import BadLine, Line
from forge_cli.record.search import Candidate, search_sessions

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
    wanted = text.casefold()
    rows = [row for path, lines in search_sessions(wanted) for row in find_hits(path, lines, wanted)]
    if as_json:
        print_json(rows)
    else:
        excerpt = Column("excerpt", room=40, seek=" ".join(text.split()))
        print_table([Column("session"), Column("line", drop=2), Column("event", drop=1), excerpt], shorten_ids(rows))


def find_hits(path: Path, lines: Iterable[Candidate], wanted: str) -> Iterator[dict[str, Any]]:
    """Those of some lines of a log that have it."""
    written = json.dumps(wanted, ensure_ascii=False)[1:-1]
    for number, data in lines:
        raw = data.decode(errors="replace").casefold()
        if written not in raw and wanted not in raw:
            continue
        try:
            line = Line.read(data)
            said = next((text for text in _texts(line.event) if wanted in text.casefold()), None)
        except BadLine:
            continue
        if said is not None:
            found = {"line": number, "event": line.type, "excerpt": _excerpt(said, wanted)}
            yield {"session": path.stem, **found}


def _texts(event: AnyEvent) -> Iterator[str]:
    """What can be found in an event; what is said in two of them counts in one."""
    match event:
        case MessageEvent(message=message):
            yield message.text
            for file in message.attachments:
                yield file.name
                if file.media_type.startswith("text/"):
                    yield file.data.decode("utf-8", "replace")
        case ToolStarted(tool_name=tool, args=args) | ManualToolInvoke(tool_name=tool, args=args):
            yield f"{tool} {json.dumps(args, ensure_ascii=False)}"
            yield from _strings(args)
        case ToolResult(value=value, error=error):
            yield error or ""
            yield value.text()
            yield from _strings(value.wire())
        case ApprovalRequired(request=request):
            yield request.reason
        case ApprovalResponse(decision=decision):
            yield decision.note or ""
        case StatusEvent(message=message):
            yield message
        case NetworkAccess(host=host):
            yield host
        case InputPrompt(prompt=prompt):
            yield prompt
        case UserInput(content=content):
            yield content
        case WorkerUpdate(error=error):
            yield error or ""
        case CommandEvent(name=name, args=words):
            yield " ".join((name, *words))
        case SessionStart() | SessionEnd() | TurnStart() | TurnEndEvent() | Streaming() | ToolOutput() | ContextUsage():
            return
        case SessionUpdate(title=title):
            yield title or ""
        case ApprovalDecided() | GrantsEvent() | ModeChanged() | ManualToolsAvailable() | Interrupt() | OtherEvent():
            return
        case _:
            assert_never(event)


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
