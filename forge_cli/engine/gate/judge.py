"""Judged, the second step of a call: the tool, its zones, the worker, parents and hooks meet here in one verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from anyio.lowlevel import checkpoint
from msgspec import Struct, field
from msgspec.structs import replace

from forge_cli.core.approval import Approval, Verdict
from forge_cli.core.bounds import fault_text
from forge_cli.core.calls import TOO_DEEP, ToolCall, read_args
from forge_cli.core.context import CallContext
from forge_cli.core.errors import BlockedError, InvalidInput, ToolError
from forge_cli.core.text import nearest_tool, visible
from forge_cli.core.tool import Args, RulesOnly, StandsFor
from forge_cli.core.wire import JsonObject
from forge_cli.core.zones import Zone
from forge_cli.engine.gate.execution import ask, consult
from forge_cli.engine.gate.offer import Offer
from forge_cli.engine.gate.policy import SILENT, as_verdict
from forge_cli.engine.gate.steps import AnyCaller, Caller, Judged, Refusal
from forge_cli.schema.tool import Tool
from forge_cli.schema.tool_fields import READ_ONLY, positional_count

if TYPE_CHECKING:
    from forge_cli.engine.gate.protocols import WorkerHooks
    from forge_cli.engine.gate.resumed import ResumedCalls
    from forge_cli.sandbox.files.sandbox import JudgedPath, Sandbox
    from forge_cli.sandbox.zones.zones import Isolation

READ_ONLY_RULE = "--read-only"
LONGEST_NAME = 100
"""Characters of a name that are compared with those of tools."""


class JudgedWorker(Struct, frozen=True):
    """The worker whose calls are judged, and what consent to them is bound to."""

    name: str
    workspace: Path
    zones: Sequence[Zone]
    isolation: Isolation
    setting: str = ""
    """The worker's file, its zones and its isolation."""
    policy_files: Mapping[str, str] = field(default_factory=dict)
    """The files that rules may be written to, of the ``user`` and of the ``worker``."""

    @property
    def bound_to(self) -> str:
        """Return the text that every fingerprint of its calls covers."""
        return f"{self.name} {self.setting}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Judge:
    """Judges the calls of one worker. ``offers`` is what exists right now, by name."""

    worker: JudgedWorker
    offers: Mapping[str, Offer]
    open_sandbox: Callable[[], Sandbox]
    """Return the sandbox around the zones, always the same one; it is opened when a path is first used."""
    parent: Judge | None = None
    """That of the parent worker: what is blocked there is blocked here."""
    read_only: bool = False
    """Whether every tool is blocked that does more than read, as far as anybody has declared."""
    hooks: WorkerHooks | None = None
    """Those of the person, where there are any."""
    reopened: ResumedCalls | None = None
    """The calls before it that a resumed session knows."""

    @property
    def sandbox(self) -> Sandbox:
        return self.open_sandbox()

    async def decide(self, call: ToolCall, caller: AnyCaller) -> Judged:
        """The verdict that counts: with what the hooks of the person say, each of which is run once for a call."""
        judged = await self.verdict(call, caller)
        if self.hooks is None or judged.verdict.approval is Approval.BLOCKED:
            return judged
        return await self.hooks.before(judged)

    async def verdict(self, call: ToolCall, caller: AnyCaller) -> Judged:
        """The verdict before hooks, with what parents block; a call that may have run before asks at least."""
        judged = await self.judge_alone(call, caller)
        if self.parent is not None and judged.verdict.approval is not Approval.BLOCKED:
            blocked = await blocked_above(self.parent, judged, self.sandbox)
            judged = replace(judged, verdict=blocked) if blocked else judged
        if judged.verdict.approval is Approval.PRE_APPROVED and self.may_have_run(judged):
            reason = f"{call.name} was cut off with these arguments: it may have run"
            return replace(judged, verdict=Verdict(Approval.ASK, reason, by="tool"))
        return judged

    def may_have_run(self, judged: Judged) -> bool:
        """Could an earlier call like this one have had its effect, although the session was cut off then?"""
        return (
            self.reopened is not None
            and not judged.tool.read_only
            and self.reopened.may_have_run(judged.call)
        )

    async def judge_alone(self, call: ToolCall, caller: AnyCaller) -> Judged:
        """Does it exist, may this caller call it, is the input valid, what do paths, tool and worker say?"""
        offer = self._offer(call, caller)
        args, bound_to = _valid(offer.tool, call), self.worker.bound_to
        if self.read_only and not offer.tool.fits_read_only:
            return Judged(call, offer, args, (), _beyond_reading(offer.tool), caller, bound_to)
        judged = Judged(
            call, offer, args, await self._places(offer.tool, args), SILENT, caller, bound_to
        )
        changed_first = sorted(judged.places, key=lambda path: not path.use.access.changes)
        said, own, target = [path.verdict for path in changed_first], None, None
        if all(verdict.approval is not Approval.BLOCKED for verdict in said):
            try:
                own = await self._own_verdict(judged)
                if offer.tool.stands_for:
                    target = target_call(judged)
            except BlockedError as error:
                own = Verdict(Approval.BLOCKED, error.reason)
            except ToolError as error:
                raise _refusal(call, error) from None
        if own and own.grants != ():
            from forge_cli.engine.gate.grants import own_rules

            own = replace(own, grants=own_rules(own, offer.toolset))
        verdict = offer.policy.combine(own, said)
        if verdict.grants:
            from forge_cli.engine.gate.grants import with_keys

            verdict = with_keys(verdict, offer.tool, bound_to)
        judged = replace(judged, verdict=verdict)
        if target is None:
            return judged
        return await judge_target(self, judged, *target)

    def _offer(self, call: ToolCall, caller: AnyCaller) -> Offer:
        offer = self.offers.get(call.name)
        if offer is None:
            callable_ones = [
                name for name, each in self.offers.items() if caller.may_call(each.tool)
            ]
            near = nearest_tool(call.name[:LONGEST_NAME].lower(), callable_ones)
            meant = f"did you mean '{near}'? " if near else ""
            known = ", ".join(sorted(self.offers)) or "none"
            raise Refusal(
                "not_found",
                f"there is no tool '{visible(call.name)}'; {meant}the tools are: {known}",
            )
        if not caller.may_call(offer.tool):
            who = "the model" if caller is Caller.PERSON else "a person"
            raise Refusal("blocked", f"{call.name} can only be called by {who}", by="tool")
        return offer

    async def _places(self, tool: Tool, args: Args) -> tuple[JudgedPath, ...]:
        """The places of the declared paths, each with what its zone says; one that cannot be used refuses the call."""
        if not tool.has_paths:
            return ()
        try:
            asked = f"the tool {tool.name}"
            uses = (
                await ask(asked, tool.paths, args, code=tool.touches)
                if tool.touches
                else tool.paths(args)
            )
            return tuple([self.sandbox.judge_use(use) for use in dict.fromkeys(uses)])
        except ToolError as error:
            raise Refusal("error", str(error)) from None
        except Exception as error:  # third-party code: a tool that cannot name its paths
            raise Refusal(
                "error", f"{tool.name} does not say which paths it touches: {fault_text(error)}"
            ) from None

    async def _own_verdict(self, judged: Judged) -> Verdict | None:
        """The tool's own verdict. A ToolError refuses the call; any other failure, or nonsense, means ask."""
        tool, said = judged.tool, cast(Any, judged.tool.needs_approval)
        if isinstance(said, RulesOnly):
            said = said.judge(judged.args)
        if said is None:
            return None
        if callable(said):
            context = CallContext(
                call_id=judged.call.id,
                tool=tool.name,
                worker=self.worker.name,
                caller=judged.caller.value,
                workspace=self.worker.workspace,
                sandbox=self.sandbox.view(judged.places, changes=False),
            )
            try:
                more = [context] if positional_count(said) == 2 else []
                said = await ask(f"the check of {tool.name}", said, judged.args, *more)
            except ToolError:
                raise
            except Exception as error:  # third-party code: no failure in it may open the gate
                await checkpoint()  # what ended its time may want the whole call to end
                return Verdict(
                    Approval.ASK, f"the tool's own check failed ({fault_text(error)}), so it asks"
                )
        return as_verdict(said)


def _beyond_reading(tool: Tool) -> Verdict:
    """The verdict of a read-only session on a tool that is not for it."""
    more = ", ".join(sorted(effect.value for effect in (tool.effects or frozenset()) - READ_ONLY))
    why = (
        "its effects are not declared"
        if tool.effects is None
        else f"it is declared to do more: {more}"
    )
    return Verdict(
        Approval.BLOCKED, f"this session is read-only, and {why}", rule=READ_ONLY_RULE, by="mode"
    )


def _valid(tool: Tool, call: ToolCall) -> Args:
    if call.unreadable is not None:
        try:
            read_args(call.unreadable)
            why = "is not a JSON object"
        except ValueError as error:
            why = str(error)
        given = "" if why == TOO_DEEP else f": {call.unreadable}"
        raise Refusal("invalid", f"the input of {call.name} {why}{given}")
    try:
        return consult(f"checking the input of {call.name}", tool.schema.validate, call.args)
    except ToolError as error:
        raise _refusal(call, error) from None
    except Exception as error:  # third-party code: the validators of a model, a pattern without end
        raise Refusal(
            "invalid", f"the input of {call.name} cannot be checked: {fault_text(error)}"
        ) from None


def _refusal(call: ToolCall, error: ToolError) -> Refusal:
    """The end of a call that its tool refuses before it is made."""
    if isinstance(error, InvalidInput):
        return Refusal("invalid", f"invalid input for {call.name}: {error}")
    return Refusal("error", str(error))


def target_call(judged: Judged) -> tuple[str, JsonObject]:
    """The call that a call of a proxy tool stands for; a tool that cannot say it lets no call through."""
    tool = judged.call.name
    try:
        name, given = consult(
            f"the tool {tool}", cast(StandsFor, judged.tool.stands_for), judged.args
        )
        return str(name), dict(given)
    except ToolError:
        raise
    except Exception as error:  # third-party code
        raise ToolError(f"{tool} does not say which tool is meant: {fault_text(error)}") from None


async def judge_target(judge: Judge, judged: Judged, name: str, given: JsonObject) -> Judged:
    """A call that stands for another, judged as that one, too; the stricter verdict counts."""
    toolset = judged.offer.toolset
    siblings = (
        offer
        for offer in judge.offers.values()
        if offer.toolset == toolset and offer.original == name
    )
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


async def _verdict_of_parent(
    judge: Judge, offer: Offer, judged: Judged, child: Sandbox
) -> Verdict | None:
    """The verdict if the call were one of this worker's; where it could not be, what holds for every call."""
    from forge_cli.sandbox.files.caps import seen_from

    paths = {
        name: seen_from(judge.sandbox, child, path) or path for name, path in judged.paths.items()
    }
    call = replace(judged.call, name=offer.tool.name, args={**judged.call.args, **paths})
    with suppress(Refusal):
        return (await judge.judge_alone(call, Caller.OPERATOR)).verdict
    return offer.policy.fixed(offer.tool)


def same_tool(judge: Judge, other: Offer) -> Offer | None:
    """The tool of another worker as this one has it, if it does."""
    names = other.toolset, other.original
    return next(
        (offer for offer in judge.offers.values() if (offer.toolset, offer.original) == names), None
    )


def blocked_by_parent(worker: str, verdict: Verdict) -> Verdict:
    """A verdict of a worker on a call of its child."""
    return replace(verdict, reason=f"the parent worker '{worker}' blocks it: {verdict.reason}")
