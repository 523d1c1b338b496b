"""Full-text search in session logs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, assert_never

from forge_cli.core import events
from forge_cli.core.actions import (
    ApprovalResponse,
    CommandEvent,
    Interrupt,
    ManualToolInvoke,
    UserInput,
)
from forge_cli.core.event_kinds import AnyEvent, OtherEvent
from forge_cli.core.phrases import interrupted_for_people
from forge_cli.core.trial import CommandTried, DraftEvent
from forge_cli.files.regular import read_regular
from forge_cli.record.line import BadLine, Line
from forge_cli.sandbox.secrets import strings_in

EXCERPT_MARGIN = 40
"""Characters of an excerpt before and after a match."""
_ESCAPED = re.compile(r'[^ -~]|["\\]')
"""Characters that JSON may write in another form."""


def find_hits(path: Path, wanted: str) -> Iterator[dict[str, Any]]:
    """Yield the lines of a log that contain a text, given in folded case.

    An unreadable log has none.
    """
    # The longest part of the text that every JSON writes in the same way.
    plain = max(_ESCAPED.split(wanted), key=len).encode()
    with suppress(OSError):
        data = read_regular(path)
        # Most logs do not contain the text, and most lines of the others do not either.
        if not may_contain(data, plain):
            return
        for number, line in enumerate(data.split(b"\n"), 1):
            if may_contain(line, plain) and (found := _excerpt_of(line, wanted)):
                yield {"session": path.stem, "line": number, **found}


def may_contain(data: bytes, plain: bytes) -> bool:
    """Return True if these letters may occur in any case, so that few lines have to be parsed."""
    # Beyond ASCII, folding the case can change letters and lengths, as from one sharp s to "ss".
    return not data.isascii() or plain in data.lower()


def _excerpt_of(data: bytes, wanted: str) -> dict[str, str] | None:
    raw = data.decode(errors="replace").casefold()
    written = json.dumps(wanted, ensure_ascii=False)[1:-1]
    if written not in raw and wanted not in raw:
        return None
    try:
        line = Line.read(data)
        said = next((text for text in _texts(line.event) if wanted in text.casefold()), None)
    except BadLine:
        return None
    if said is None:
        return None
    return {"event": line.type, "excerpt": _excerpt(said, wanted)}


def _texts(event: AnyEvent) -> Iterator[str]:
    """Yield the searchable texts of an event.

    A text that two events share belongs to one of them.
    """
    match event:
        case events.MessageEvent(message=message):
            yield message.text
            for file in message.attachments:
                yield file.name
                if file.media_type.startswith("text/"):
                    yield file.data.decode("utf-8", "replace")
        case (
            events.ToolStarted(tool_name=tool, args=args)
            | ManualToolInvoke(tool_name=tool, args=args)
        ):
            yield f"{tool} {json.dumps(args, ensure_ascii=False)}"
            yield from strings_in(args)
        case events.ToolResult(value=value, error=error, status=status):
            texts = (error or "", value.text(), *strings_in(value.wire()))
            if status == "interrupted":
                yield from map(interrupted_for_people, texts)
            else:
                yield from texts
        case events.ApprovalRequired(request=request):
            yield request.reason
        case ApprovalResponse(decision=decision):
            yield decision.note or ""
        case events.StatusEvent(message=message):
            yield message
        case events.NetworkAccess(host=host):
            yield host
        case CommandTried(changed=changed, summary=summary):
            yield summary or ""
            for each in changed:
                yield each.path
        case events.InputPrompt(prompt=prompt):
            yield prompt
        case UserInput(content=content):
            yield content
        case events.WorkerUpdate(error=error):
            yield error or ""
        case CommandEvent(name=name, args=words):
            yield " ".join((name, *words))
        case events.SessionEnd(result=result):
            yield str(result.get("error") or "")
        case events.SessionUpdate(title=title):
            yield title or ""
        case (
            events.SessionStart()
            | events.ModeChanged()
            | DraftEvent()
            | events.ManualToolsAvailable()
            | events.TurnStart()
            | events.TurnEndEvent()
            | events.ContextUsage()
            | events.ApprovalDecided()
            | events.GrantsEvent()
            | events.Streaming()
            | events.ToolOutput()
            | Interrupt()
            | OtherEvent()
        ):
            pass  # settings and numbers, or parts of a text that another line has completely
        case never:
            assert_never(never)


def _excerpt(text: str, wanted: str) -> str:
    """Return the match with some text around it, on one line."""
    place = max(text.casefold().find(wanted), 0)
    start, end = max(place - EXCERPT_MARGIN, 0), place + len(wanted) + EXCERPT_MARGIN
    words = " ".join(text[start:end].split())
    before = "..." if start else ""
    after = "..." if end < len(text) else ""
    return f"{before}{words}{after}"
