"""The decisions of sessions as a table for auditors: each call that reached a verdict, who decided, by what rule."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator

from forge_cli.core.events import ApprovalDecided, ApprovalRequired, ToolResult, ToolStarted
from forge_cli.record.line import BadLine, Line

COLUMNS = (
    *("time", "session", "worker", "depth", "seq", "tool", "call", "input", "verdict", "approved", "by", "rule"),
    *("where", "reason", "cached", "via", "fingerprint", "status"),
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def decisions_csv(sessions: Iterable[Iterable[Line]]) -> str:
    """A header, and a row for each decision, in the order in which they were taken."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for lines in sessions:
        writer.writerows({key: _cell(value) for key, value in row.items()} for row in _rows(list(lines)))
    return text.getvalue()


def _rows(lines: list[Line]) -> Iterator[dict[str, object]]:
    started: dict[tuple[str, str], ToolStarted] = {}
    asked: dict[tuple[str, str], str | None] = {}
    ended = {
        (line.data.get("delegation", ""), event.tool_call_id): event.status
        for line in lines
        if isinstance(event := _event(line), ToolResult)
    }
    for line in lines:
        event, who = _event(line), str(line.data.get("delegation", ""))
        if isinstance(event, ToolStarted):
            started[who, event.tool_call_id] = event
        elif isinstance(event, ApprovalRequired):
            asked[who, event.request.tool_call_id] = event.request.fingerprint
        elif isinstance(event, ApprovalDecided):
            call = started.get((who, event.tool_call_id))
            yield {
                **{key: line.data.get(key, "") for key in ("time", "session", "worker", "depth", "seq")},
                "tool": call.tool_name if call else "",
                "call": event.tool_call_id,
                "input": json.dumps(dict(call.args), ensure_ascii=False) if call else "",
                **{
                    key: getattr(event, key) for key in ("verdict", "approved", "by", "rule", "reason", "cached", "via")
                },
                "where": str(event.where) if event.where else "",
                "fingerprint": event.fingerprint or asked.get((who, event.tool_call_id)),
                "status": ended.get((who, event.tool_call_id), ""),
            }


def _event(line: Line) -> object:
    try:
        return line.event
    except BadLine:  # told by whoever reads the log
        return None


def _cell(value: object) -> str:
    """Text that a spreadsheet takes for text."""
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
