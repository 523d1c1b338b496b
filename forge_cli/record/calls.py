"""The calls of past sessions with the verdicts that they had, by worker, and as a table for auditors."""

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

COLUMNS = (
    *(
        "time",
        "session",
        "worker",
        "depth",
        "seq",
        "tool",
        "call",
        "input",
        "verdict",
        "approved",
        "by",
        "rule",
    ),
    *("where", "reason", "cached", "via", "fingerprint", "status"),
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def decisions_csv(sessions: Iterable[Iterable[Line]]) -> str:
    """A header, and a row for each decision in the order in which they were taken, also where a fork has a copy."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    told = set[tuple[object, ...]]()
    for row in chain.from_iterable(map(_rows, sessions)):
        if (decision := (row["time"], row["seq"], row["call"])) not in told:
            writer.writerow({key: _cell(value) for key, value in row.items()})
        told.add(decision)
    return text.getvalue()


def _rows(lines: Iterable[Line]) -> Iterator[dict[str, object]]:
    state = SessionState()
    found: list[tuple[Line, ApprovalDecided, CallState | None]] = []
    for line in lines:
        with suppress(BadLine):  # reported where the log is read
            call = state.take(line)
            if isinstance(line.event, ApprovalDecided):
                found.append((line, line.event, call))
    for line, event, call in found:
        asked = call.asked.event.request.fingerprint if call and call.asked else None
        yield {
            **{
                key: line.data.get(key, "") for key in ("time", "session", "worker", "depth", "seq")
            },
            "tool": call.call.name if call else "",
            "call": event.tool_call_id,
            "input": json.dumps(call.call.args, ensure_ascii=False) if call else "",
            **{
                key: getattr(event, key)
                for key in ("verdict", "approved", "by", "rule", "reason", "cached", "via")
            },
            "where": str(event.where) if event.where else "",
            "fingerprint": event.fingerprint or asked,
            "status": call.result.status if call and call.result else "",
        }


def _cell(value: object) -> str:
    """Text that a spreadsheet takes for text."""
    if value is None:
        text = ""
    elif isinstance(value, bool):
        text = str(value).lower()
    else:
        text = str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


class PastVerdict(Struct, frozen=True):
    """The verdict on a call; ``refused`` where it could not run at all."""

    verdict: str
    reason: str
    rule: str | None = None
    where: Mark | None = None
    by: DecidedBy | None = None

    @classmethod
    def of(cls, event: ApprovalDecided | ApprovalRequired) -> PastVerdict:
        """The verdict that settled a call, or the request that was left open."""
        match event:
            case ApprovalDecided():
                return cls(event.verdict, event.reason, event.rule, event.where, event.by)
            case ApprovalRequired(request=request):
                return cls("ask", request.reason, request.rule, request.where)


class PastCall(Struct, frozen=True):
    """A call that was made by the model, by a tool, or by a person; without a verdict where it came to none."""

    call: ToolCall
    by_model: bool
    verdict: PastVerdict | None = None
    remembered: bool = False
    """Was it allowed because an earlier one was allowed for the whole session?"""
    answer: bool | None = None
    """A person's yes or no to it; None where no person said either."""


def past_calls(lines: Iterable[Line]) -> list[PastCall]:
    """The calls of the root worker in order."""
    return calls_of(fold_lines(lines), None)


def calls_of(state: SessionState, delegation: str | None) -> list[PastCall]:
    return [_past_call(each) for each in state.calls if each.worker.delegation == delegation]


def _past_call(state: CallState) -> PastCall:
    decided = state.decided.event if state.decided else None
    answer = None if state.answer is None else state.answer.approved
    if decided:
        answer = decided.approved if decided.by == "user" else None
    return PastCall(
        state.call, state.by_model, _verdict(state), bool(decided and decided.cached), answer
    )


def _verdict(state: CallState) -> PastVerdict | None:
    settled = state.decided or state.asked
    result = state.result
    if settled:
        return PastVerdict.of(settled.event)
    if result is None or result.status == "interrupted":
        return None
    return PastVerdict("blocked" if result.status == "blocked" else "refused", result.error or "")


class PastWork(Struct, frozen=True):
    """The calls of one worker in a session: the root, or a child worker, which has no file on record."""

    worker: str
    root_file: str | None
    """The file of the worker that the session was started with."""
    is_root: bool
    workspace: str
    time: str
    """Of the last line of the session."""
    calls: tuple[PastCall, ...]


def past_work(warn: Callable[[str], None]) -> Iterator[PastWork]:
    """The work of every session, the last first; one that was damaged or tampered with is told, and left out."""
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
