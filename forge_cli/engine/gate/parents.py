"""Parents at the gate: what a worker blocks is blocked in the workers that it starts."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from forge_cli.core.approval import Approval, Verdict
from forge_cli.engine.gate.judge import Caller, Judge, Judged, Refusal
from forge_cli.engine.gate.offer import Offer
from forge_cli.sandbox.files.caps import seen_from
from forge_cli.sandbox.files.sandbox import Sandbox


async def blocks(judge: Judge, judged: Judged, child: Sandbox) -> Verdict | None:
    """What a worker, or one of its parents, says of a child's call: the verdict, if it blocks."""
    offer = same_tool(judge, judged.offer)
    verdict = None if offer is None else await _verdict_on(judge, offer, judged, child)
    if verdict is None or verdict.approval is not Approval.BLOCKED:
        return await blocks(judge.parent, judged, child) if judge.parent else None
    return blocked_by_parent(judge.worker, verdict)


async def _verdict_on(judge: Judge, offer: Offer, judged: Judged, child: Sandbox) -> Verdict | None:
    """The verdict if the call were one of this worker's; where it could not be, what holds for every call."""
    paths = {name: seen_from(judge.sandbox, child, path) or path for name, path in judged.paths.items()}
    call = replace(judged.call, name=offer.tool.name, args={**judged.call.args, **paths})
    with suppress(Refusal):
        return (await judge.judge_alone(call, Caller.OPERATOR)).verdict
    return offer.policy.fixed(offer.tool)


def same_tool(judge: Judge, other: Offer) -> Offer | None:
    """The tool of another worker as this one has it, if it does."""
    names = other.toolset, other.original
    return next((offer for offer in judge.offers.values() if (offer.toolset, offer.original) == names), None)


def blocked_by_parent(worker: str, verdict: Verdict) -> Verdict:
    """A verdict of a worker on a call of its child."""
    return replace(verdict, reason=f"the parent worker '{worker}' blocks it: {verdict.reason}")
