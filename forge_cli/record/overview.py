"""A session at a glance: a few lines of its log say what it was about and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.signature import JsonObject
from forge_cli.record.lock import holder
from forge_cli.record.log import parse_line

_TURN, _CALL = b', "type": "turnEnd", "turn": ', b', "type": "toolResult", "toolCallId": '
_START = b'"depth": 0, "type": "sessionStart"'
_TASK = b'"depth": 0, "type": "message", "message": {"role": "user"'


@dataclass(frozen=True)
class Overview:
    """What ``forge sessions list`` shows of a session; ``status`` is that of its result, or ``running``."""

    session: str
    started: str
    ended: str
    worker: str
    status: str
    turns: int
    tool_calls: int
    task: str
    model: str
    workspace: str
    worker_file: str | None
    pid: int | None
    """The process that works on it right now."""
    waits: bool
    """May requests be pending in it? True when it was parked, or ended without a word."""


def overview(path: Path) -> Overview:
    """Read the log of a session here and there; what is in between is not looked at."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise WorkerError(Mark(str(path)), f"the session cannot be read: {error.strerror}") from None
    end = data.rfind(b"\n") + 1
    first = _line_at(data, 0) if end else None
    if first is None:
        problem = "the session is empty" if not end else "this is no line of a session"
        raise WorkerError(Mark(str(path)), problem)
    start, task = _line_at(data, data.rfind(_START)) or first, _line_at(data, data.find(_TASK))
    result, last = _last(data, end)
    pid = holder(path)
    return Overview(
        session=path.stem,
        started=_text(first.get("time")),
        ended=_text(last.get("time") if last else None),
        worker=_text(first.get("worker")),
        status="running" if pid else _text(result.get("status")) or "interrupted",
        turns=data.count(_TURN),
        tool_calls=data.count(_CALL),
        task=_text(task["message"].get("content")) if task else "",
        model=_text(start.get("model")),
        workspace=_text(start.get("workspace")),
        worker_file=_text(start.get("workerFile")) or None,
        pid=pid,
        waits=result.get("status") in (None, "parked"),
    )


def _line_at(data: bytes, place: int) -> JsonObject | None:
    """The line around a place of the log."""
    if place < 0:
        return None
    end = data.find(b"\n", place)
    return parse_line(data[data.rfind(b"\n", 0, place) + 1 : end]) if end >= 0 else None


def _last(data: bytes, end: int) -> tuple[JsonObject, JsonObject | None]:
    """How it ended, and its last line; answers that came later do not change the end."""
    last = None
    while end > 0:
        begin = data.rfind(b"\n", 0, end - 1) + 1
        line = parse_line(data[begin : end - 1])
        last = last or line
        if line is None or line["type"] != "approvalResponse":
            result = line.get("result") if line and line["type"] == "sessionEnd" else None
            return result if isinstance(result, dict) else {}, last
        end = begin
    return {}, last


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
