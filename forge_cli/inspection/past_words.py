"""Calls of past sessions that would ask because of words of untrusted text."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from forge_cli.core.approval import ValueOrigin
from forge_cli.core.calls import ToolCall
from forge_cli.core.errors import ForgeError, WorkerError
from forge_cli.core.events import SessionStart, ToolStarted
from forge_cli.core.trial import CommandTried
from forge_cli.core.wire import JsonObject, read
from forge_cli.engine.gate.judge import Judge
from forge_cli.engine.gate.steps import Caller, Refusal
from forge_cli.engine.provenance.index import SessionWords
from forge_cli.engine.provenance.provenance import WorkerProvenance
from forge_cli.engine.provenance.rebuilding import RecordedWords
from forge_cli.engine.runtime.without_model import opened
from forge_cli.files.worker import load_worker
from forge_cli.inspection.inspector import inspect
from forge_cli.inspection.past import Warn
from forge_cli.record.line import BadLine, Line
from forge_cli.record.log import read_session, session_files

_FROM_TRIAL = ("noEffect", "effects")
"""Outcomes of a trial that shows the whole effect of a command."""


class AskingCall(Struct, frozen=True):
    """A past call that would ask, with the values that nobody named."""

    tool: str
    input: JsonObject
    line: int
    provenance: tuple[ValueOrigin, ...]

    def wire(self) -> JsonObject:
        """Return the call as a JSON object."""
        origins = [each.wire() for each in self.provenance]
        return {"tool": self.tool, "input": self.input, "line": self.line, "provenance": origins}


class PastWords(Struct, frozen=True):
    """The calls of a past session that would ask because of their words."""

    session: str
    worker: str
    calls: int
    """The number of calls of the session's own worker."""
    asks: tuple[AskingCall, ...]
    untrusted: str | None = None
    """The first untrusted text; None if the session read none."""

    def wire(self) -> JsonObject:
        """Return the session as ``--json`` prints it."""
        return {
            "session": self.session,
            "worker": self.worker,
            "calls": self.calls,
            "untrusted": self.untrusted,
            "asks": [each.wire() for each in self.asks],
        }


async def judge_words(worker: str, workspace: Path, lines: Sequence[Line]) -> PastWords:
    """Judge the calls of a past session by their words, as the rule of today would have."""
    found: dict[str, Any] = await inspect(
        _judge_words,
        worker,
        str(workspace),
        [line.data for line in lines],
        worker=worker,
        folder=workspace,
        names_code=load_worker(worker).names_code,
    )
    asks = [
        AskingCall(
            each["tool"],
            each["input"],
            each["line"],
            tuple(read(ValueOrigin, origin) for origin in each["provenance"]),
        )
        for each in found["asks"]
    ]
    return PastWords(
        lines[0].session, lines[0].worker, found["calls"], tuple(asks), found["untrusted"]
    )


async def judge_all_words(warn: Warn) -> list[PastWords]:
    """Judge the calls of every past session, the most recent first."""
    found: list[PastWords] = []
    for path in session_files():
        try:
            lines = read_session(path).lines
            start = next((line.event for line in lines if line.type == SessionStart.type), None)
            if not isinstance(start, SessionStart) or start.worker_file is None:
                continue
            workspace = _folder_of(start)
            found.append(await judge_words(start.worker_file, workspace, lines))
        except (ForgeError, OSError) as error:
            warn(f"not judged: {path.stem}: {str(error).partition(chr(10))[0]}")
    return found


def _folder_of(start: SessionStart) -> Path:
    """Return the folder of a session; raise WorkerError if it is gone."""
    workspace = Path(start.workspace)
    if not workspace.is_dir():
        raise WorkerError(None, f"the folder {workspace} is gone")
    return workspace


async def _judge_words(worker: str, workspace: str, data: Sequence[JsonObject]) -> JsonObject:
    lines = [Line(each) for each in data]
    words = SessionWords(min(time.time(), lines[0].seconds or time.time()))
    async with opened(
        load_worker(worker), workspace=Path(workspace), make_zones=False, words=words
    ) as assembly:
        judge = assembly.guard.judge
        provenance = judge.provenance
        if not isinstance(provenance, WorkerProvenance):
            raise TypeError("a worker with words has their rule")
        taking = RecordedWords(judge, provenance)
        tried = _trials(lines)
        calls = 0
        asks: list[JsonObject] = []
        for line, event in _events(lines):
            if isinstance(event, ToolStarted) and _is_of_model(line, event):
                calls += 1
                origins = await _origins(judge, event)
                if origins and tried.get(event.tool_call_id) not in _FROM_TRIAL:
                    found = AskingCall(event.tool_name, dict(event.args), line.seq, origins)
                    asks.append(found.wire())
            taking.take_line(line)
    first = words.first_untrusted
    return {
        "calls": calls,
        "asks": asks,
        "untrusted": first.sentence() if first else None,
    }


async def _origins(judge: Judge, event: ToolStarted) -> tuple[ValueOrigin, ...]:
    """Return the values of a call that nobody named; none for a call that cannot run."""
    call = ToolCall(event.tool_call_id, event.tool_name, dict(event.args))
    try:
        judged = await judge.verdict(call, Caller.MODEL)
    except Refusal:
        return ()
    return judge.judge_words(judged).verdict.provenance


def _events(lines: Sequence[Line]) -> Iterator[tuple[Line, object]]:
    for line in lines:
        try:
            yield line, line.event
        except BadLine:
            continue


def _trials(lines: Sequence[Line]) -> dict[str, str]:
    """Return the outcome of the trial of each call that was tried."""
    found: dict[str, str] = {}
    for _, event in _events(lines):
        if isinstance(event, CommandTried):
            found[event.tool_call_id] = event.outcome
    return found


def _is_of_model(line: Line, event: ToolStarted) -> bool:
    """Return True for a call of the session's own worker, and not of a person."""
    by_hand = event.tool_call_id.startswith(("manual_", "program_"))
    return line.delegation is None and not by_hand
