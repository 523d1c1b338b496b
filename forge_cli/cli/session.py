"""Which session a command works on: a new one, one that goes on, or a copy of one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from forge_cli.core.errors import ForgeError, UsageError, WorkerError
from forge_cli.core.events import VERSION
from forge_cli.core.signature import JsonObject
from forge_cli.core.text import visible
from forge_cli.engine.runtime.wiring import Resumed
from forge_cli.engine.turns.output import OutputSchema
from forge_cli.files.worker import Worker
from forge_cli.record.log import (
    Log,
    SessionLog,
    broken_link,
    find_session,
    new_session_id,
    read_session,
    session_files,
)
from forge_cli.record.overview import overview
from forge_cli.record.resume import Past, read_past


@dataclass(frozen=True)
class SessionChoice:
    """What the flags say about the session."""

    resume: str | None = None
    last: bool = False
    fork: bool = False
    ephemeral: bool = False

    def __post_init__(self) -> None:
        if self.resume is not None and self.last:
            raise UsageError("-c and -r contradict each other; keep one")
        if self.fork and not self.goes_on:
            raise UsageError("--fork copies a session: say which one with -r ID, or -c for the last one")

    @property
    def goes_on(self) -> bool:
        return self.last or self.resume is not None


@dataclass(frozen=True)
class OpenSession:
    """A session to work on; without a log nothing of it is kept."""

    id: str
    log: SessionLog | None = None
    resumed: Resumed | None = None
    lines: tuple[JsonObject, ...] = ()
    """What the log of a session that goes on held already."""


@contextmanager
def open_session(
    choice: SessionChoice, worker: Worker, workspace: Path, task: str | None = None
) -> Iterator[OpenSession]:
    """The session that was chosen, locked and open for as long as it is worked on.

    With an empty ``task`` it must have something left to do.
    """
    with ExitStack() as stack:
        if not choice.goes_on:
            yield _new(choice, new_session_id(), stack)
            return
        read, log = _reopened(choice, worker, workspace, stack)
        past = past_of(read)
        if task == "" and not past.unfinished:
            hint = 'say what to do next: forge run WORKER -r ID "TASK"'
            raise UsageError(f"the session {read.session} has nothing left to do", hint=hint)
        if choice.fork:
            yield _forked(read, past, choice, stack)
        else:
            yield OpenSession(read.session, log, _go_on(read, past if log else past.without_yes()), read.lines)


def _new(choice: SessionChoice, session: str, stack: ExitStack) -> OpenSession:
    if choice.ephemeral:
        return OpenSession(session)
    try:
        return OpenSession(session, stack.enter_context(SessionLog.create(session)))
    except OSError as error:
        _warn(f"this session is not kept: {_what(error)}")
        return OpenSession(session)


def _reopened(
    choice: SessionChoice, worker: Worker, workspace: Path, stack: ExitStack
) -> tuple[Log, SessionLog | None]:
    path = last_session(worker, workspace) if choice.resume is None else find_session(choice.resume)
    log = None
    if choice.ephemeral or choice.fork:
        read = read_session(path)
    else:
        try:
            log, read = SessionLog.go_on(path)
            stack.enter_context(log)
        except OSError as error:
            _warn(f"what follows is not kept: {_what(error)}")
            read = read_session(path)
    check_sound(read)
    if (name := read.lines[0]["worker"]) != worker.name:
        raise UsageError(f"the session {read.session} is one of the worker '{name}', not of '{worker.name}'")
    if read.dropped:
        _warn(f"the last line of the session {read.session} was not finished, and is dropped")
    return read, log


def check_sound(read: Log) -> None:
    """A log that is not what forge wrote is not gone on with."""
    if not read.lines:
        raise WorkerError(None, f"the session {read.session} is empty", hint="start a new one")
    if (version := read.lines[0].get("v")) != VERSION:
        raise WorkerError(None, f"the session {read.session} is of version {version}, which this forge cannot read")
    if problem := broken_link(read):
        hint = f"forge sessions show {read.session} shows what it says"
        raise WorkerError(None, f"the session {read.session} was tampered with: {problem}", hint=hint)


def past_of(read: Log) -> Past:
    """What a sound log has come to; one whose chain holds may still be none of ours."""
    try:
        return read_past(read.lines)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        problem = f"the session {read.session} cannot be read: {type(error).__name__}: {error}"
        raise WorkerError(None, problem, hint="start a new one") from error


def _forked(read: Log, past: Past, choice: SessionChoice, stack: ExitStack) -> OpenSession:
    session = _new(choice, new_session_id(), stack)
    lines = read.copied(session.id)
    if session.log:
        session.log.copy(lines)
    resumed = replace(_go_on(read, past), last=lines[-1], forked_from=read.session)
    return replace(session, resumed=resumed, lines=lines)


def _go_on(read: Log, past: Past) -> Resumed:
    """What goes on as it was begun where nobody says otherwise: the model, and the schema of the task."""
    begun = next((line for line in reversed(read.lines) if line["type"] == "sessionStart"), {})
    schema = begun.get("outputSchema")
    return Resumed(
        past,
        read.lines[-1],
        model=begun.get("model"),
        output_schema=OutputSchema(schema) if isinstance(schema, dict) else None,
    )


def last_session(worker: Worker, workspace: Path) -> Path:
    """The session that this worker worked on last in this folder; failing that, in one that is gone, as if it moved."""
    moved: tuple[Path, str] | None = None
    for path in session_files():
        try:
            seen = overview(path)
        except ForgeError:
            continue
        if seen.worker == worker.name and seen.workspace == str(workspace):
            return path
        if seen.worker == worker.name and moved is None and not Path(seen.workspace).exists():
            moved = path, seen.workspace
    if moved:
        _warn(f"going on with the session {moved[0].stem} of {moved[1]}, which is no longer there")
        return moved[0]
    hint = "leave -c out to start one, or name one with -r; forge sessions list shows them"
    raise WorkerError(None, f"'{worker.name}' has no session in {workspace}", hint=hint)


def _what(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)


def _warn(sentence: str) -> None:
    sys.stderr.write(f"forge: {visible(sentence)}\n")
