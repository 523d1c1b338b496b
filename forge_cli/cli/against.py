"""``forge approve --against``: the calls of a past session, judged by today's policy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from forge_cli.cli.courses import workspace_of
from forge_cli.cli.notices import warn
from forge_cli.cli.output import data_output
from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.events import SessionStart, ToolStarted
from forge_cli.core.phrases import has_mark
from forge_cli.core.text import counted, visible
from forge_cli.core.wire import JsonObject, camel_keys
from forge_cli.engine.gate.outlook import VerdictAnswer
from forge_cli.engine.replay.drift import described
from forge_cli.files.worker import Worker, load_worker
from forge_cli.inspection.past import CHANGES, Rejudged, rejudge
from forge_cli.process.signals import in_loop
from forge_cli.record.calls import past_calls
from forge_cli.record.log import damage_of, find_record, read_session
from forge_cli.ui.table import paint, print_json
from forge_cli.ui.wrap import wrap_for


def judge_again(name: str, session: str, directory: Path | None, *, as_json: bool) -> None:
    """Judge the calls that the worker itself made in a session; nothing is executed or asked."""
    worker = load_worker(name)
    log = read_session(find_record(session))
    if damage := damage_of(log):
        warn(damage)
    first = next((line for line in log.lines if line.type == SessionStart.type), None)
    start = first.event if first else None
    if first is None or not isinstance(start, SessionStart):
        raise WorkerError(
            Mark(str(log.path)),
            "not a session log",
            hint="forge sessions list shows them",
        )
    calls = past_calls(log.lines)
    with data_output() as out:
        judged = in_loop(rejudge, name, workspace_of(start.workspace, directory), calls)
        others = sum(
            line.delegation is not None and line.type == ToolStarted.type for line in log.lines
        )
        if as_json:
            print_json(_object(first.session, worker, judged, others), out)
        else:
            _print(first.session, judged, others, out)


def _object(session: str, worker: Worker, calls: Sequence[Rejudged], others: int) -> JsonObject:
    changed = {
        kind: [call.wire() for call in calls if call.change == kind] for kind in CHANGES.values()
    }
    before, after = _prompts(calls)
    found = {
        "session": session,
        "worker": worker.name,
        "calls": len(calls),
        "prompts": {"before": before, "after": after},
        **changed,
        "unchanged": sum(call.change is None for call in calls),
        "other_workers": others,
    }
    return camel_keys(found)


def _prompts(calls: Sequence[Rejudged]) -> tuple[int, int]:
    before = sum(call.prompts(call.before) for call in calls)
    after = sum(call.prompts(call.after) for call in calls)
    return before, after


def _print(session: str, calls: Sequence[Rejudged], others: int, out: TextIO) -> None:
    lines: list[str] = []
    for kind in CHANGES.values():
        for call in calls:
            if call.change == kind:
                lines.append(f"{kind.replace('_', ' ')}: {described(call.call)}")
                lines.append(f"  before: {_told(call.before)}")
                lines.append(f"  after: {_told(call.after)}")
    before, after = _prompts(calls)
    lines.append(
        f"{session}: {counted(len(calls), 'call')}, "
        f"{counted(before, 'prompt')} before, {after} after"
    )
    counts = [
        f"{sum(call.change == kind for call in calls)} {kind.replace('_', ' ')}"
        for kind in CHANGES.values()
    ]
    lines.append(f"{', '.join(counts)}, {sum(call.change is None for call in calls)} unchanged")
    if others:
        lines.append(f"not judged: {counted(others, 'call')} of its child workers")
    if secret := sum(has_mark(call.call.args) for call in calls):
        lines.append(
            f"judged without a secret, which logs do not contain: {counted(secret, 'call')}"
        )
    for line in lines:
        head, colon, rest = wrap_for(out, visible(line)).partition(":")
        out.write(f"{paint(head, stream=out)}{colon}{rest}\n")


def _told(answer: VerdictAnswer) -> str:
    place = ""
    if answer["where"] or answer["rule"]:
        place = f" ({answer['where'] or answer['rule']})"
    return f"{answer['verdict']}: {answer['reason']}{place}"
