"""A session at a glance: a few lines of its log say what it was about and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forge_cli.core.errors import Mark
from forge_cli.core.events import (
    AnyEvent,
    ApprovalResponse,
    MessageEvent,
    SessionEnd,
    SessionStart,
    SessionUpdate,
    ToolResult,
    TurnEndEvent,
)
from forge_cli.files.places import cannot_read, whole_file
from forge_cli.files.regular import read_regular
from forge_cli.record.line import BadLine, Line, beginning, beginning_at_root, line_at
from forge_cli.record.lock import holder

_TURN, _CALL = beginning(TurnEndEvent), beginning(ToolResult)
_START = beginning_at_root(SessionStart)
_TITLE = beginning_at_root(SessionUpdate, ', "title": ')
_MODEL = beginning_at_root(SessionUpdate, ', "model": ')
_TASK = beginning_at_root(MessageEvent, ', "message": {"role": "user"')


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
    title: str = ""
    """What the model or the person calls it."""


def overview(path: Path) -> Overview:
    """A session at a glance; WorkerError for one that cannot be read."""
    return with_holder(path, read_overview(path))


def with_holder(path: Path, seen: Overview) -> Overview:
    """The overview of a session as of now: who works on it is not in its log."""
    pid = holder(path)
    return replace(seen, pid=pid, status="running") if pid else seen


def read_overview(path: Path) -> Overview:
    """Read the log of a session here and there; what is in between is not looked at."""
    try:
        data = read_regular(path)
    except OSError as error:
        raise cannot_read(path, error, "the session ") from None
    end = data.rfind(b"\n") + 1
    if not end:
        raise whole_file(path, "the session is empty")
    first = Line.read(data[: data.find(b"\n")], Mark(str(path)))
    started, said = _event(line_at(data, data.rfind(_START)) or first), _event(line_at(data, data.find(_TASK)))
    start = started if isinstance(started, SessionStart) else SessionStart("", "", "")
    titled, changed = _update(data, _TITLE), _update(data, _MODEL, data.rfind(_START))
    result, last = _last(data, end)
    status = result.get("status")
    return Overview(
        session=path.stem,
        started=first.time,
        ended=last.time if last else "",
        worker=first.worker,
        status=status if isinstance(status, str) and status else "interrupted",
        turns=data.count(_TURN),
        tool_calls=data.count(_CALL),
        task=said.message.text if isinstance(said, MessageEvent) else "",
        model=changed.model or start.model,
        workspace=start.workspace,
        worker_file=start.worker_file,
        pid=None,
        waits=status in (None, "parked"),
        title=titled.title or "",
    )


def _update(data: bytes, beginning: bytes, after: int = 0) -> SessionUpdate:
    """The last line of this kind, if there is one after a place."""
    place = data.rfind(beginning, max(0, after))
    found = _event(line_at(data, place))
    return found if isinstance(found, SessionUpdate) else SessionUpdate()


def _event(line: Line | None) -> AnyEvent | None:
    """What a line says; nothing, where somebody changed it."""
    try:
        return line.event if line else None
    except BadLine:
        return None


def _last(data: bytes, end: int) -> tuple[Mapping[str, Any], Line | None]:
    """How it ended, and its last line; answers that came later do not change the end."""
    last = None
    while end > 0:
        line = line_at(data, end - 1)
        last = last or line
        if line is None or line.type != ApprovalResponse.type:
            ended = _event(line)
            return ended.result if isinstance(ended, SessionEnd) else {}, last
        end = data.rfind(b"\n", 0, end - 1) + 1
    return {}, last
