"""Calls judged as others: as the one that a call stands for, and as parent workers would judge it."""

from __future__ import annotations

from contextlib import suppress
from typing import cast

from msgspec.structs import replace

from forge_cli.core.approval import Approval, Verdict
from forge_cli.core.bounds import fault_text
from forge_cli.core.calls import ToolCall
from forge_cli.core.errors import ToolError
from forge_cli.core.text import visible
from forge_cli.core.tool import StandsFor
from forge_cli.core.wire import JsonObject
from forge_cli.engine.gate.execution import consult
from forge_cli.engine.gate.judge import Judge
from forge_cli.engine.gate.offer import Offer
from forge_cli.engine.gate.steps import Caller, Judged, Refusal
from forge_cli.sandbox.files.caps import seen_from
from forge_cli.sandbox.files.sandbox import Sandbox


def target_call(judged: Judged) -> tuple[str, JsonObject]:
    """The call that a call of a proxy tool stands for; a tool that cannot say it lets no call through."""
    tool = judged.call.name
    try:
        name, given = consult(f"the tool {tool}", cast(StandsFor, judged.tool.stands_for), judged.args)
        return str(name), dict(given)
    except ToolError:
        raise
    except Exception as error:  # third-party code
        raise ToolError(f"{tool} does not say which tool is meant: {fault_text(error)}") from None


async def judge_target(judge: Judge, judged: Judged, name: str, given: JsonObject) -> Judged:
    """A call that stands for another, judged as that one, too; the stricter verdict counts."""
    toolset = judged.offer.toolset
    siblings = (offer for offer in judge.offers.values() if offer.toolset == toolset and offer.original == name)
    offer = next(siblings, None)
    if offer is None:
        raise Refusal("error", f"{judged.call.name}: there is no tool '{visible(name)}'")
    target = await judge.verdict(ToolCall(judged.call.id, offer.tool.name, given), judged.caller)
    stricter = target.verdict.approval.stricter_than(judged.verdict.approval)
    verdict = target.verdict if stricter else judged.verdict
    return replace(judged, verdict=replace(verdict, grants=()), places=target.places, target=target)


async def blocked_above(judge: Judge, judged: Judged, child: Sandbox) -> Verdict | None:
    """The verdict of a worker, or one of its parents, on a child's call, if it blocks."""
    offer = same_tool(judge, judged.offer)
    verdict = None if offer is None else await _verdict_of_parent(judge, offer, judged, child)
    if verdict is None or verdict.approval is not Approval.BLOCKED:
        return await blocked_above(judge.parent, judged, child) if judge.parent else None
    return blocked_by_parent(judge.worker.name, verdict)


async def _verdict_of_parent(judge: Judge, offer: Offer, judged: Judged, child: Sandbox) -> Verdict | None:
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
