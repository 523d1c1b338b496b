"""Overviews of sessions from a few lines of each log, and a cached index of all of them."""

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
_TURN_END = line_prefix(events.TurnEndEvent)
_START, _END = beginning_at_root(events.SessionStart), beginning_at_root(events.SessionEnd)
_TITLE = beginning_at_root(events.SessionUpdate, ', "title": ')
_MODEL = beginning_at_root(events.SessionUpdate, ', "model": ')
_SAID = beginning_at_root(events.MessageEvent)
_TASK = beginning_at_root(events.MessageEvent, ', "message": {"role": "user"')
INDEX = ".index.json"
FORMAT = 4
"""The version of cached overviews; a new one discards them."""
MAX_TEXT = 10_000
"""The most characters of a task in the index; a session with a longer one is read each time."""


class Overview(Struct, frozen=True):
    """The row of a session in ``forge sessions list``.

    ``status`` is that of its result, or ``running``.
    """

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
    """The process that is using it."""
    waits: bool
    """True if requests may be pending: it was parked, or it has no end."""
    title: str = ""
    """The name that the model or the user gave it."""
    batch: str | None = None
    """The results file, if the session is an item of a batch."""
    cost: float | None = None
    """Dollars, if the price of each turn is known."""


def session_overview(path: Path) -> Overview:
    """Return the overview of a session and the process that uses it.

    Raise WorkerError if the log is unreadable.
    """
    return _with_holder(path, read_overview(path))


def _with_holder(path: Path, seen: Overview) -> Overview:
    pid = lock_holder(path)
    if not pid:
        return seen
    return replace(seen, pid=pid, status="running")


def read_overview(path: Path) -> Overview:
    """Return the overview of a session from a few lines of its log."""
    try:
        data = read_regular(path)
    except OSError as error:
        raise cannot_read(path, error, "the session ") from None
    end = data.rfind(b"\n") + 1
    if not end:
        raise whole_file(path, "the session is empty")
    first = Line.read(data[: data.find(b"\n")], Mark(str(path)))
    start = _event(line_at(data, data.rfind(_START)) or first)
    if not isinstance(start, events.SessionStart):
        start = events.SessionStart("", "", "")
    said = _event(line_at(data, data.find(_TASK)))
    titled = _update(data, _TITLE)
    # A model that was chosen before the session was resumed no longer counts.
    changed = _update(data, _MODEL, data.rfind(_START))
    result, last = _last(data, end)
    earlier = data.rfind(_END)
    if not result and earlier > max(data.rfind(_TURN), data.rfind(_SAID)):
        # It was resumed without a message, so its earlier end still counts.
        ended = _event(line_at(data, earlier))
        if isinstance(ended, events.SessionEnd) and ended.result.get("status") != "parked":
            result = ended.result
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
        # An item of a batch is shown with its batch.
        batch=start.batch,
        cost=_cost(data),
    )


def _update(data: bytes, beginning: bytes, after: int = 0) -> events.SessionUpdate:
    """Return the last update of this kind after an offset, or an empty one."""
    place = data.rfind(beginning, max(0, after))
    found = _event(line_at(data, place))
    if isinstance(found, events.SessionUpdate):
        return found
    return events.SessionUpdate()


def _count_calls(data: bytes) -> int:
    """Count calls as ``SessionState.tool_calls`` does."""
    count = 0
    for found in re.finditer(re.escape(_CALL), data):
        event = _event(line_at(data, found.start()))
        count += isinstance(event, events.ToolStarted) and event.parent_call_id is None
    return count


def _cost(data: bytes) -> float | None:
    """Return the sum of all turns, also of child workers; None if a price is unknown."""
    total = 0.0
    for found in re.finditer(re.escape(_TURN_END), data):
        event = _event(line_at(data, found.start()))
        if not isinstance(event, events.TurnEndEvent) or event.cost is None:
            return None
        total += event.cost
    return total


def _event(line: Line | None) -> AnyEvent | None:
    """Return the event of a line, or None if the line is damaged."""
    try:
        return line.event if line else None
    except BadLine:
        return None


def _last(data: bytes, end: int) -> tuple[Mapping[str, Any], Line | None]:
    """Return the result and the last line.

    Answers that came after the end do not change the result.
    """
    last = None
    while end > 0:
        line = line_at(data, end - 1)
        last = last or line
        if line is None or line.type != ApprovalResponse.type:
            ended = _event(line)
            result = ended.result if isinstance(ended, events.SessionEnd) else {}
            return result, last
        end = data.rfind(b"\n", 0, end - 1) + 1
    return {}, last


@contextmanager
def session_index() -> Iterator[Callable[[Path], Overview]]:
    """Yield a cached ``session_overview``: a log that has not changed is not read again."""
    folder = sessions_folder()
    with StampedCache(folder / INDEX) as index:
        yield partial(_indexed, index)
        with suppress(OSError):
            index.retain(os.listdir(folder))


def _indexed(index: StampedCache, path: Path) -> Overview:
    try:
        status = path.stat()
    except OSError as problem:
        raise cannot_read(path, problem, "the session ") from None
    # The stamp comes before the log is read: a log that grows meanwhile has another stamp the next
    # time.
    stamp = f"{FORMAT} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"
    try:
        seen = read(Overview, index.find(path.name, stamp))
    except Unreadable:  # not in the index, or written by another version
        seen = read_overview(path)
        if len(seen.task) + len(seen.title) <= MAX_TEXT:
            index.put(path.name, stamp, wire(seen))
    return _with_holder(path, seen)


def readable_sessions() -> Iterator[tuple[Path, Overview]]:
    """Yield every readable session with its log, the most recently used first."""
    with session_index() as look:
        for path in session_files():
            with suppress(ForgeError):
                yield path, look(path)


def session_row(path: Path, look: Callable[[Path], Overview]) -> dict[str, Any] | None:
    """Return a session as a row, with ``error`` if it cannot be read.

    Return None if it no longer exists.
    """
    try:
        seen = {**asdict(look(path))}
    except WorkerError as error:
        if not path.exists():
            return None
        return {"session": path.stem, "error": error.message}
    del seen["waits"]
    return seen


def fold_batches(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Replace the items of each batch by one row, at the place of the most recent one."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row.get("batch") or row["session"], []).append(row)
    folded: list[dict[str, Any]] = []
    for group in groups.values():
        folded.append(_fold(group) if group[0].get("batch") else group[0])
    return folded


def _fold(items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    first = items[0]
    states = [item["status"] for item in items]
    status = first["status"]
    state = first.get("state")
    if len(set(states)) > 1:
        status = state = f"{states.count('completed')} of {len(items)} completed"
    return {
        **first,
        "status": status,
        "state": state,
        "turns": sum(item["turns"] for item in items),
        "tool_calls": sum(item["tool_calls"] for item in items),
        "cost": _sum_of(item.get("cost") for item in items),
        "title": f"batch {Path(first['batch']).name}: {counted(len(items), 'item')}",
    }


def _sum_of(costs: Iterable[float | None]) -> float | None:
    known = list(costs)
    if None in known:
        return None
    return sum(each for each in known if each is not None)


def last_below(folder: Path) -> Path:
    """Return the session that was used last in a folder or its subfolders."""
    for path, seen in readable_sessions():
        if Path(seen.workspace).is_relative_to(folder):
            return path
    hint = "forge sessions list --all shows all sessions; name one, or 'last'"
    raise WorkerError(None, f"there is no session in {folder} yet", hint=hint)


def last_session(
    worker: Worker, workspace: Path, warn: Callable[[str], None] = lambda sentence: None
) -> Path:
    """Return the last session of a worker in a folder, or else in a folder that no longer exists.

    A folder that is gone was probably renamed to this one.
    """
    moved: tuple[Path, str] | None = None
    here = clean_text(str(workspace))
    for path, seen in readable_sessions():
        if seen.model in (events.CLIENTS, events.OTHER_TOOLS):
            continue  # it has tool calls of other programs, and no messages to resume
        if seen.worker == worker.name and seen.workspace == here:
            return path
        if seen.worker == worker.name and moved is None and not Path(seen.workspace).exists():
            moved = path, seen.workspace
    if moved:
        warn(f"resuming the session {moved[0].stem} of {moved[1]}, which no longer exists")
        return moved[0]
    hint = "omit -c to start one, or name one with -r; forge sessions list shows them"
    raise WorkerError(None, f"'{worker.name}' has no session in {workspace}", hint=hint)
