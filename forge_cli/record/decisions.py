"""The decisions of sessions as a table for auditors: each call that reached a verdict, who decided, by what rule."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress

from forge_cli.core.events import ApprovalDecided
from forge_cli.record.line import BadLine, Line
from forge_cli.record.state import CallState, SessionState

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
        writer.writerows({key: _cell(value) for key, value in row.items()} for row in _rows(lines))
    return text.getvalue()


def _rows(lines: Iterable[Line]) -> Iterator[dict[str, object]]:
    state, found = SessionState(), list[tuple[Line, ApprovalDecided, CallState | None]]()
    for line in lines:
        with suppress(BadLine):  # reported where the log is read
            call = state.take(line)
            if isinstance(line.event, ApprovalDecided):
                found.append((line, line.event, call))
    for line, event, call in found:
        asked = call.asked.event.request.fingerprint if call and call.asked else None
        yield {
            **{key: line.data.get(key, "") for key in ("time", "session", "worker", "depth", "seq")},
            "tool": call.call.name if call else "",
            "call": event.tool_call_id,
            "input": json.dumps(call.call.args, ensure_ascii=False) if call else "",
            **{key: getattr(event, key) for key in ("verdict", "approved", "by", "rule", "reason", "cached", "via")},
            "where": str(event.where) if event.where else "",
            "fingerprint": event.fingerprint or asked,
            "status": call.result.status if call and call.result else "",
        }


def _cell(value: object) -> str:
    """Text that a spreadsheet takes for text."""
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
