"""The trial of ``forge approve WORKER TOOL ... --try``, whose effects are discarded."""

from __future__ import annotations

import json
from pathlib import Path

from forge_cli.core.approval import Approval
from forge_cli.core.bus import EventBus
from forge_cli.core.events import StatusEvent
from forge_cli.core.text import as_spelled
from forge_cli.core.tool import Preview
from forge_cli.core.wire import JsonObject
from forge_cli.engine.gate.answer import verdict_on
from forge_cli.engine.gate.outlook import VerdictAnswer
from forge_cli.engine.gate.steps import Caller
from forge_cli.engine.runtime.without_model import opened
from forge_cli.files.worker import load_worker
from forge_cli.inspection.gate import call_of
from forge_cli.sandbox.trial.trials import LINE_UNTRIED, UNTRIED
from forge_cli.schema.json.forms import OptionValue


async def try_line(
    worker: str, workspace: Path, tool: str, args: JsonObject, typed: dict[str, OptionValue]
) -> VerdictAnswer:
    """Return the verdict on a call, with the effects of its trial, or why it was not tried."""
    said: list[str] = []
    bus = EventBus()
    bus.subscribe(
        lambda event: said.append(event.message) if isinstance(event, StatusEvent) else None
    )
    async with opened(load_worker(worker), workspace=workspace, bus=bus) as assembly:
        guard = assembly.guard
        tool = as_spelled(tool, guard.judge.offers)
        call = call_of(guard.judge.offers.get(tool), tool, args, typed)
        answer = (await verdict_on(guard, call, Caller.MODEL)).answer
        if answer["verdict"] not in (Approval.ASK.value, Approval.PRE_APPROVED.value):
            return answer
        judged = await guard.judge.verdict(call, Caller.MODEL)
        preview = await guard.consent.requests.preview(judged)
        # discard the trial, as after a denied call
        if judged.tool.on_outcome:
            judged.tool.on_outcome(judged.args, "denied")
        if preview is None or preview.tried is None:
            why = next((text for text in said if text.startswith((UNTRIED, LINE_UNTRIED))), _ONLY)
            return {**answer, "details": [*answer.get("details", ()), f"not tried: {why}"]}
        return {**answer, "trial": _facts(preview)}


def _facts(preview: Preview) -> JsonObject:
    tried = preview.tried
    value = preview.value
    if tried is None:
        told = {}
    else:
        told = {key: found for key, found in tried.payload().items() if key not in _ENVELOPE}
    return {
        **json.loads(json.dumps(told)),
        "shown": value.text() if value is not None else "",
    }


_ONLY = "only lines of the tool shell are, where 'try' is not off, and tools with 'apply'"
_ENVELOPE = ("type", "toolCallId")
