"""``forge approve --against``: the calls of a past session, judged once more by the policy of today."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from forge_cli.cli.opening import opened
from forge_cli.cli.output import data_output
from forge_cli.cli.record import find_record, workspace_of
from forge_cli.cli.signals import in_loop
from forge_cli.cli.verdict import VerdictAnswer, answer_of, verdict_on
from forge_cli.core.calls import ToolCall
from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.signature import JsonObject
from forge_cli.core.text import counted, visible
from forge_cli.engine.gate.judge import Caller
from forge_cli.engine.replay.drift import described
from forge_cli.files.worker import Worker
from forge_cli.record.log import Log, read_session
from forge_cli.record.messages import read_call
from forge_cli.sandbox.secrets import has_mark

CHANGES = {
    "blocked": "newly_blocked",
    "preApproved": "newly_allowed",
    "ask": "newly_asking",
    "refused": "newly_refused",
}


@dataclass
class PastCall:
    """A call that was made, with the verdict that it had, and the one that it would have now."""

    call: ToolCall
    caller: Caller
    before: VerdictAnswer | None = None
    after: VerdictAnswer | None = None
    remembered: bool = False
    """Was it allowed because an earlier one was allowed for the whole session?"""

    @property
    def change(self) -> str | None:
        if not self.before or not self.after or self.before["verdict"] == self.after["verdict"]:
            return None
        return CHANGES[self.after["verdict"]]

    def prompts(self, answer: VerdictAnswer | None) -> bool:
        return answer is not None and answer["verdict"] == "ask" and not self.remembered

    def wire(self) -> JsonObject:
        found: JsonObject = {
            "tool": self.call.name,
            "input": self.call.input,
            "before": self.before,
            "after": self.after,
        }
        return {**found, "redacted": True} if has_mark(self.call.input) else found


def judge_again(worker: Worker, session: str, directory: Path | None, *, as_json: bool) -> None:
    """Judge every call of a session that the worker itself made; nothing is executed, and nobody is asked."""
    log = read_session(find_record(session))
    start = next((line for line in log.lines if line["type"] == "sessionStart"), None)
    if start is None:
        raise WorkerError(Mark(str(log.path)), "this is no record of a session", hint="forge sessions list shows them")
    calls = _readable(log)
    session_id = str(start.get("session", log.session))
    workspace = workspace_of(str(start.get("workspace", "")), directory)
    with data_output() as out:
        in_loop(_judge_all, worker, workspace, calls)
        judged = [call for call in calls if call.after]
        others = sum("delegation" in line and line["type"] == "toolStarted" for line in log.lines)
        if as_json:
            out.write(json.dumps(_object(session_id, worker, judged, others), ensure_ascii=False, indent=2) + "\n")
        else:
            _print(session_id, judged, others, out)


def _readable(log: Log) -> list[PastCall]:
    try:
        return past_calls(line for line in log.lines if "delegation" not in line)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        problem = f"the session cannot be read: {type(error).__name__}: {error}"
        raise WorkerError(Mark(str(log.path)), problem) from None


def past_calls(lines: Iterable[JsonObject]) -> list[PastCall]:
    """The calls of one worker in order, each with the verdict that it had; ids may come again later."""
    found: list[PastCall] = []
    wanted: dict[str, ToolCall] = {}
    known: dict[str, PastCall] = {}
    for line in lines:
        call = known.get(line.get("toolCallId", ""))
        match line["type"]:
            case "message":
                wanted |= {each.id: each for each in map(read_call, line["message"].get("calls", ()))}
            case "toolStarted":
                found.append(_taken_up(line, wanted))
                known[line["toolCallId"]] = found[-1]
            case "approvalRequired" if call and call.before is None:
                call.before = _answer("ask", line)
            case "approvalDecided" if call:
                call.before, call.remembered = _answer(line["verdict"], line), line["cached"]
            case "toolResult":
                known.pop(line["toolCallId"], None)
                if call and call.before is None and line["status"] != "interrupted":
                    kind = "blocked" if line["status"] == "blocked" else "refused"
                    call.before = answer_of(call.call.name, kind, line.get("error", ""))
    return found


def _taken_up(line: JsonObject, wanted: dict[str, ToolCall]) -> PastCall:
    call = wanted.get(line["toolCallId"])
    if call is not None:
        return PastCall(call, Caller.MODEL)
    return PastCall(ToolCall(line["toolCallId"], line["toolName"], line["args"]), Caller.PERSON)


def _answer(verdict: str, line: JsonObject) -> VerdictAnswer:
    more = {key: line.get(key) for key in ("rule", "where", "by")}
    return answer_of(line.get("toolName"), verdict, line.get("reason", ""), **more)


async def _judge_all(worker: Worker, workspace: Path, calls: Sequence[PastCall]) -> None:
    async with opened(worker, workspace=workspace, make_zones=False) as assembly:
        for call in calls:
            if call.before:
                call.before["tool"] = call.call.name
                call.after = await verdict_on(assembly.guard, call.call, call.caller)


def _object(session: str, worker: Worker, calls: Sequence[PastCall], others: int) -> JsonObject:
    changed = {kind: [call.wire() for call in calls if call.change == kind] for kind in CHANGES.values()}
    return {
        "session": session,
        "worker": worker.name,
        "calls": len(calls),
        "prompts": dict(zip(("before", "after"), _prompts(calls), strict=True)),
        **changed,
        "unchanged": sum(call.change is None for call in calls),
        "other_workers": others,
    }


def _prompts(calls: Sequence[PastCall]) -> tuple[int, int]:
    return sum(call.prompts(call.before) for call in calls), sum(call.prompts(call.after) for call in calls)


def _print(session: str, calls: Sequence[PastCall], others: int, out: TextIO) -> None:
    lines: list[str] = []
    for kind in CHANGES.values():
        for call in calls:
            if call.change == kind and call.before and call.after:
                lines.append(f"{kind.replace('_', ' ')}: {described(call.call)}")
                lines += [
                    f"  {name}: {_told(answer)}" for name, answer in (("before", call.before), ("after", call.after))
                ]
    before, after = _prompts(calls)
    lines.append(f"{session}: {counted(len(calls), 'call')}, {counted(before, 'prompt')} before, {after} after")
    counts = [f"{sum(call.change == kind for call in calls)} {kind.replace('_', ' ')}" for kind in CHANGES.values()]
    lines.append(f"{', '.join(counts)}, {sum(call.change is None for call in calls)} unchanged")
    if others:
        lines.append(f"not judged: {counted(others, 'call')} of workers that it called")
    if secret := sum(has_mark(call.call.input) for call in calls):
        lines.append(f"judged without the secret that stood in it, and is not kept: {counted(secret, 'call')}")
    out.writelines(f"{visible(line)}\n" for line in lines)


def _told(answer: VerdictAnswer) -> str:
    place = f" ({answer['where'] or answer['rule']})" if answer["where"] or answer["rule"] else ""
    return f"{answer['verdict']}: {answer['reason']}{place}"
