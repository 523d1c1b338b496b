"""A session at a glance, from a few lines of its log, and an index of all sessions beside the logs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from forge_cli.core import events
from forge_cli.core.actions import ApprovalResponse
from forge_cli.core.errors import ForgeError, Mark, WorkerError
from forge_cli.core.event_kinds import AnyEvent
from forge_cli.core.text import counted
from forge_cli.core.wire import Unreadable, clean_text, read, wire
from forge_cli.files.cache import StampedCache
from forge_cli.files.places import cannot_read, whole_file
from forge_cli.files.regular import read_regular
from forge_cli.record.line import BadLine, Line
from forge_cli.record.log import beginning_at_root, line_at, line_prefix, session_files
from forge_cli.record.places import lock_holder, sessions_folder

if TYPE_CHECKING:
    from forge_cli.files.worker import Worker

_TURN, _CALL = beginning_at_root(events.TurnStart), line_prefix(events.ToolStarted)
_START, _END = beginning_at_root(events.SessionStart), beginning_at_root(events.SessionEnd)
_TITLE = beginning_at_root(events.SessionUpdate, ', "title": ')
_MODEL = beginning_at_root(events.SessionUpdate, ', "model": ')
_SAID = beginning_at_root(events.MessageEvent)
_TASK = beginning_at_root(events.MessageEvent, ', "message": {"role": "user"')
INDEX = ".index.json"
FORMAT = 3
"""Changes when the overview of the same log would be another one."""
TEXT_MAX = 10_000
"""Characters of a task that are kept; a session with a longer one is read each time."""


class Overview(Struct, frozen=True):
    """The row of a session in ``forge sessions list``; ``status`` is that of its result, or ``running``."""

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
    """The name that the model or the person gave it."""
    batch: str | None = None
    """The file of the results, where it is an item of a batch."""


def session_overview(path: Path) -> Overview:
    """A session at a glance, with who works on it, which is not in its log; WorkerError where it cannot be read."""
    return _with_holder(path, read_overview(path))


def _with_holder(path: Path, seen: Overview) -> Overview:
    pid = lock_holder(path)
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
    started, said = (
        _event(line_at(data, data.rfind(_START)) or first),
        _event(line_at(data, data.find(_TASK))),
    )
    start = started if isinstance(started, events.SessionStart) else events.SessionStart("", "", "")
    titled, changed = _update(data, _TITLE), _update(data, _MODEL, data.rfind(_START))
    result, last = _last(data, end)
    earlier = data.rfind(_END)
    if not result and earlier > max(
        data.rfind(_TURN), data.rfind(_SAID)
    ):  # it was resumed, and nothing was said
        ended = _event(line_at(data, earlier))
        result = (
            ended.result
            if isinstance(ended, events.SessionEnd) and ended.result.get("status") != "parked"
            else {}
        )
    status = result.get("status")
    return Overview(
        session=path.stem,
        started=first.time,
        ended=last.time if last else "",
        worker=first.worker,
        status=status if isinstance(status, str) and status else "interrupted",
        turns=data.count(_TURN),
        tool_calls=_count_calls(data),
        task=said.message.text if isinstance(said, events.MessageEvent) else "",
        model=changed.model or start.model,
        workspace=start.workspace,
        worker_file=start.worker_file,
        pid=None,
        waits=status in (None, "parked"),
        title=titled.title or "",
        batch=start.batch,
    )


def _update(data: bytes, beginning: bytes, after: int = 0) -> events.SessionUpdate:
    """The last line of this kind, if there is one after a place."""
    place = data.rfind(beginning, max(0, after))
    found = _event(line_at(data, place))
    return found if isinstance(found, events.SessionUpdate) else events.SessionUpdate()


def _count_calls(data: bytes) -> int:
    """As ``SessionState.tool_calls`` does."""
    started = (
        _event(line_at(data, found.start())) for found in re.finditer(re.escape(_CALL), data)
    )
    return sum(
        isinstance(event, events.ToolStarted) and event.parent_call_id is None for event in started
    )


def _event(line: Line | None) -> AnyEvent | None:
    """The event of a line; none where somebody changed it."""
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
            return ended.result if isinstance(ended, events.SessionEnd) else {}, last
        end = data.rfind(b"\n", 0, end - 1) + 1
    return {}, last


@contextmanager
def session_index() -> Iterator[Callable[[Path], Overview]]:
    """Yield ``session_overview`` for many sessions: logs that have not changed since are not read again."""
    folder = sessions_folder()
    with StampedCache(folder / INDEX) as index:
        yield partial(_indexed, index)
        with suppress(OSError):  # sessions that are gone are forgotten
            index.retain(os.listdir(folder))


def _indexed(index: StampedCache, path: Path) -> Overview:
    try:
        status = path.stat()
    except OSError as problem:
        raise cannot_read(path, problem, "the session ") from None
    # taken before the log is read: one that grows meanwhile has another stamp the next time
    stamp = f"{FORMAT} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"
    try:
        seen = read(Overview, index.find(path.name, stamp))
    except Unreadable:
        seen = read_overview(path)
        if len(seen.task) + len(seen.title) <= TEXT_MAX:
            index.put(path.name, stamp, wire(seen))
    return _with_holder(path, seen)


def readable_sessions() -> Iterator[tuple[Path, Overview]]:
    """Every session that can be read, with its log; the one that was worked on last first."""
    with session_index() as look:
        for path in session_files():
            with suppress(ForgeError):
                yield path, look(path)


def session_row(path: Path, look: Callable[[Path], Overview]) -> dict[str, Any] | None:
    """One session; one that cannot be read is a row with ``error``, one that is gone by now is none."""
    try:
        seen = {**asdict(look(path))}
    except WorkerError as error:
        return {"session": path.stem, "error": error.message} if path.exists() else None
    del seen["waits"]
    return seen


def fold_batches(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for all items of a batch, in the place of the last one."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row.get("batch") or row["session"], []).append(row)
    return [_fold(group) if group[0].get("batch") else group[0] for group in groups.values()]


def _fold(items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    first = items[0]
    states = [item["status"] for item in items]
    same = len(set(states)) == 1
    return {
        **first,
        "status": states[0] if same else f"{states.count('completed')} of {len(items)} completed",
        "turns": sum(item["turns"] for item in items),
        "tool_calls": sum(item["tool_calls"] for item in items),
        "title": f"batch {Path(first['batch']).name}: {counted(len(items), 'item')}",
    }


def last_below(folder: Path) -> Path:
    """The session that was worked on last in this folder, or below it."""
    for path, seen in readable_sessions():
        if Path(seen.workspace).is_relative_to(folder):
            return path
    hint = "forge sessions list --all shows those of other folders; name one, or 'last'"
    raise WorkerError(None, f"there is no session of {folder} yet", hint=hint)


def last_session(
    worker: Worker, workspace: Path, warn: Callable[[str], None] = lambda sentence: None
) -> Path:
    """The session that this worker worked on last in this folder; failing that, in one that is gone, as if it moved."""
    moved: tuple[Path, str] | None = None
    here = clean_text(str(workspace))
    for path, seen in readable_sessions():
        if seen.model in (
            events.CLIENTS,
            events.OTHER_TOOLS,
        ):  # nothing was said in it that could be resumed
            continue
        if seen.worker == worker.name and seen.workspace == here:
            return path
        if seen.worker == worker.name and moved is None and not Path(seen.workspace).exists():
            moved = path, seen.workspace
    if moved:
        warn(f"resuming the session {moved[0].stem} of {moved[1]}, which is no longer there")
        return moved[0]
    hint = "leave -c out to start one, or name one with -r; forge sessions list shows them"
    raise WorkerError(None, f"'{worker.name}' has no session in {workspace}", hint=hint)
