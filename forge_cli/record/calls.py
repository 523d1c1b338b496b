"""The calls of past sessions with their verdicts: by worker, and as a table for auditors."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain

from msgspec import Struct

from forge_cli.core.approval import DecidedBy
from forge_cli.core.calls import ToolCall
from forge_cli.core.errors import ForgeError, Mark
from forge_cli.core.events import ApprovalDecided, ApprovalRequired
from forge_cli.record.line import BadLine, Line
from forge_cli.record.log import check_log, read_session, session_files
from forge_cli.record.state import CallState, SessionState, fold_lines

# fmt: off
COLUMNS = (
    "time", "session", "worker", "depth", "seq", "tool", "call", "input", "verdict", "approved",
    "by", "rule", "where", "reason", "cached", "via", "fingerprint", "status",
)
# fmt: on
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""The first characters that make a spreadsheet run the text of a cell."""


def decisions_csv(sessions: Iterable[Iterable[Line]]) -> str:
    """Return a CSV table of the decisions in order, without the copies in forked sessions."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    written = set[tuple[object, ...]]()
    for row in chain.from_iterable(map(_rows, sessions)):
        # A fork copies the lines of its session, so a decision can be in several logs.
        decision = (row["time"], row["seq"], row["call"])
        if decision not in written:
            writer.writerow({key: _cell(value) for key, value in row.items()})
        written.add(decision)
    return text.getvalue()


def _rows(lines: Iterable[Line]) -> Iterator[dict[str, object]]:
    state = SessionState()
    found: list[tuple[Line, ApprovalDecided, CallState | None]] = []
    for line in lines:
        with suppress(BadLine):  # reported where the log is read
            call = state.take(line)
            if isinstance(line.event, ApprovalDecided):
                found.append((line, line.event, call))
    # The rows come last: a call may get its status after the line of its decision.
    for line, event, call in found:
        row: dict[str, object] = dict.fromkeys(COLUMNS)
        for key in ("time", "session", "worker", "depth", "seq"):
            row[key] = line.data.get(key)
        for key in ("verdict", "approved", "by", "rule", "where", "reason", "cached", "via"):
            row[key] = getattr(event, key)
        row["call"] = event.tool_call_id
        row["fingerprint"] = event.fingerprint
        if call:
            row["tool"] = call.call.name
            row["input"] = json.dumps(call.call.args, ensure_ascii=False)
            if call.asked and not event.fingerprint:
                row["fingerprint"] = call.asked.event.request.fingerprint
            if call.result:
                row["status"] = call.result.status
        yield row


def _cell(value: object) -> str:
    """Return a value as text that no spreadsheet takes for a formula."""
    text = "" if value is None else str(value)
    if isinstance(value, bool):
        text = text.lower()
    if text.startswith(_FORMULA):
        return f"'{text}"
    return text


class PastVerdict(Struct, frozen=True):
    """The verdict on a past call; ``refused`` if the call could not run at all."""

    verdict: str
    reason: str
    rule: str | None = None
    where: Mark | None = None
    by: DecidedBy | None = None

    @classmethod
    def of(cls, event: ApprovalDecided | ApprovalRequired) -> PastVerdict:
        """Return the verdict of a decision, or of a request without one."""
        match event:
            case ApprovalDecided():
                return cls(event.verdict, event.reason, event.rule, event.where, event.by)
            case ApprovalRequired(request=request):
                return cls("ask", request.reason, request.rule, request.where)


class PastCall(Struct, frozen=True):
    """A call by the model, a tool or a person; it has no verdict if it was interrupted before."""

    call: ToolCall
    by_model: bool
    verdict: PastVerdict | None = None
    remembered: bool = False
    """True if an earlier approval for the session covered the call."""
    answer: bool | None = None
    """The answer of a person; None without one."""


def past_calls(lines: Iterable[Line]) -> list[PastCall]:
    """Return the calls of the root worker in order."""
    return calls_of(fold_lines(lines), None)


def calls_of(state: SessionState, delegation: str | None) -> list[PastCall]:
    """Return the calls of the worker with this task in order."""
    return [_past_call(each) for each in state.calls if each.worker.delegation == delegation]


def _past_call(state: CallState) -> PastCall:
    decided = state.decided.event if state.decided else None
    answer: bool | None = None
    if decided is None and state.answer:
        answer = state.answer.approved
    elif decided and decided.by == "user":
        answer = decided.approved
    remembered = decided is not None and decided.cached
    return PastCall(state.call, state.by_model, _verdict(state), remembered, answer)


def _verdict(state: CallState) -> PastVerdict | None:
    settled = state.decided or state.asked
    result = state.result
    if settled:
        return PastVerdict.of(settled.event)
    if result is None or result.status == "interrupted":
        return None
    verdict = "blocked" if result.status == "blocked" else "refused"
    return PastVerdict(verdict, result.error or "")


class PastWork(Struct, frozen=True):
    """The calls of one worker in a session. A child worker has no file in the log."""

    worker: str
    root_file: str | None
    """The worker file with which the session was started."""
    is_root: bool
    workspace: str
    time: str
    """The time of the last line of the session."""
    calls: tuple[PastCall, ...]


def past_work(warn: Callable[[str], None]) -> Iterator[PastWork]:
    """Yield the work of all sessions, the most recent first; pass damaged ones to ``warn``."""
    for path in session_files():
        try:
            log = read_session(path)
            check_log(log)
            state = fold_lines(log.lines)
            for task, worker in state.workers.items():
                calls = tuple(calls_of(state, task))
                if (start := state.start) and calls:
                    ended = log.lines[-1].time
                    yield PastWork(
                        worker.name, start.worker_file, task is None, start.workspace, ended, calls
                    )
        except ForgeError as error:
            warn(str(error).partition("\n")[0])
