"""The gate of a worker that is only looked at, in this process or in a child, and its verdicts as data."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from forge_cli.cli.looking.left_out import why_missing
from forge_cli.cli.opening import opened
from forge_cli.core.calls import ToolCall
from forge_cli.core.grants import GrantOffer, offers_for
from forge_cli.core.thirdparty import needs_third_party, refuse, watching
from forge_cli.core.wire import JsonObject
from forge_cli.engine.gate.guard import Guard
from forge_cli.engine.gate.judge import Caller, Judged, Refusal
from forge_cli.engine.gate.offer import Offer
from forge_cli.engine.runtime.assemble import Assembly
from forge_cli.files.worker import load_worker
from forge_cli.ui.terminal.slash import OptionValue, args_from

if TYPE_CHECKING:
    from forge_cli.engine.gate.guard import Guard

_GATES: dict[str, tuple[AbstractAsyncContextManager[Assembly], Assembly]] = {}
"""What a child has opened; it ends with them open."""
VerdictAnswer = dict[str, Any]


class JudgeCall(Protocol):
    """Judges a call by the name of its tool and its args, or their text where that is not a JSON object.

    ``typed`` is read with the tool's schema; JSON is judged as it is, for a model's call would be.
    """

    async def __call__(
        self, tool: str, args: JsonObject | str, typed: Mapping[str, OptionValue], caller: str = Caller.MODEL.value
    ) -> VerdictAnswer: ...


@asynccontextmanager
async def judging(worker: str, workspace: Path) -> AsyncIterator[JudgeCall]:
    """Open a worker, where its code may be; nothing on disk changes."""
    try:
        with watching(refuse):
            async with opened(load_worker(worker), workspace=workspace, make_zones=False) as assembly:
                yield partial(_judge, assembly)
                return
    except BaseException as error:
        if not needs_third_party(error):
            raise
    from forge_cli.cli.looking.looker import Looker

    async with Looker(worker, workspace) as looker:
        await looker.in_child(open_gate, worker, str(workspace))
        yield partial(looker.in_child, judge_in_child, worker)


async def open_gate(worker: str, workspace: str) -> None:
    entered = opened(load_worker(worker), workspace=Path(workspace), make_zones=False)
    _GATES[worker] = (entered, await entered.__aenter__())


async def judge_in_child(
    worker: str,
    tool: str,
    args: JsonObject | str,
    typed: Mapping[str, OptionValue],
    caller: str = Caller.MODEL.value,
) -> VerdictAnswer:
    return await _judge(_GATES[worker][1], tool, args, typed, caller)


async def _judge(
    assembly: Assembly,
    tool: str,
    args: JsonObject | str,
    typed: Mapping[str, OptionValue],
    caller: str = Caller.MODEL.value,
) -> VerdictAnswer:
    guard = assembly.guard
    if tool not in guard.offers and (why := why_missing(assembly.toolbox, tool)):
        return answer_of(tool, "refused", why)
    return await verdict_on(guard, call_of(guard.offers.get(tool), tool, args, typed), Caller(caller))


def call_of(offer: Offer | None, tool: str, args: JsonObject | str, typed: Mapping[str, OptionValue]) -> ToolCall:
    """A call by the name of its tool and its args, or their text where that is not a JSON object.

    ``typed`` is read with the tool's schema; JSON is judged as it is, for a model's call would be.
    """
    options = args_from(typed, offer.tool.schema.json_schema) if offer else {}
    unreadable = args if isinstance(args, str) else None
    return ToolCall("approve", tool, {} if isinstance(args, str) else {**args, **options}, unreadable)


async def verdict_on(guard: Guard, call: ToolCall, caller: Caller) -> VerdictAnswer:
    """The verdict with every reason for it; ``refused`` when the call could not run at all."""
    try:
        judged = await guard.verdict(call, caller)
    except Refusal as refusal:
        kind = "blocked" if refusal.status == "blocked" else "refused"
        return answer_of(call.name, kind, refusal.sentence, by=refusal.by)
    return answer_on(judged, _hooks(guard, judged))


def answer_on(judged: Judged, hooks: Sequence[JsonObject] = ()) -> VerdictAnswer:
    """The verdict on a call that can run, with the hooks that it would be put to."""
    verdict, offers = judged.verdict, offers_for(judged.verdict.grants)
    return answer_of(
        judged.call.name,
        verdict.approval.value,
        verdict.reason,
        rule=verdict.rule,
        where=str(verdict.where) if verdict.where else None,
        by=verdict.by,
        risk=verdict.risk or judged.offer.tool.risk,
        **({"details": list(verdict.details)} if verdict.details else {}),
        **({"grants": [_grant(offer) for offer in offers]} if offers else {}),
        **({"hooks": hooks} if hooks else {}),
    )


def _hooks(guard: Guard, judged: Judged) -> list[JsonObject]:
    """The hooks that a call would be put to, and that could be stricter; none of them is run."""
    found = guard.hooks.hooks_before(judged) if guard.hooks else []
    return [hook.facts() for hook in found]


def _grant(offer: GrantOffer) -> JsonObject:
    return {"text": offer.text, "rules": [str(rule) for rule in offer.rules]}


def answer_of(tool: Any, verdict: str, reason: str, **more: Any) -> VerdictAnswer:
    empty = {"rule": None, "where": None, "by": None, "risk": None}
    return {"tool": tool, "verdict": verdict, "reason": reason, **empty, **more}
