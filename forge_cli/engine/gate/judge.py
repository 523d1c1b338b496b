"""Judged, the second step of a call: one verdict of tool, zones, worker, parents and hooks."""

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
    from forge_cli.engine.gate.protocols import WordJudge, WorkerHooks
    from forge_cli.engine.gate.resumed import ResumedCalls
    from forge_cli.sandbox.files.sandbox import JudgedPath, Sandbox
    from forge_cli.sandbox.zones.zones import Isolation

READ_ONLY_RULE = "--read-only"
MAX_COMPARED = 100
"""The most characters of an unknown name that are compared with those of tools."""


class JudgedWorker(Struct, frozen=True):
    """The worker whose calls are judged, and everything that consent to them is bound to."""

    name: str
    workspace: Path
    zones: Sequence[Zone]
    isolation: Isolation
    setting: str = ""
    """The worker's file, its zones and its isolation."""
    policy_files: Mapping[str, str] = field(default_factory=dict)
    """The files to which rules can be written, by ``user`` and ``worker``."""

    @property
    def bound_to(self) -> str:
        """The text that every fingerprint of a call covers."""
        return f"{self.name} {self.setting}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Judge:
    """The judge of the calls of one worker; ``offers`` are its present tools by name."""

    worker: JudgedWorker
    offers: Mapping[str, Offer]
    open_sandbox: Callable[[], Sandbox]
    """Returns the sandbox of the zones, which opens when a path is first used."""
    parent: Judge | None = None
    """The judge of the parent worker; a call that it blocks is blocked here."""
    read_only: bool = False
    """True if every tool that is not declared as read-only is blocked."""
    hooks: WorkerHooks | None = None
    """The hooks of the user, if there are any."""
    reopened: ResumedCalls | None = None
    """The earlier calls of a resumed session."""
    provenance: WordJudge | None = None
    """The rule about untrusted text, which tightens a verdict that allows or asks."""

    @property
    def sandbox(self) -> Sandbox:
        return self.open_sandbox()

    async def decide(self, call: ToolCall, caller: AnyCaller) -> Judged:
        """Return the final verdict, with those of hooks and words, which run once for each call."""
        judged = await self.verdict(call, caller)
        if self.hooks is not None and judged.verdict.approval is not Approval.BLOCKED:
            judged = await self.hooks.before(judged)
        return self.judge_words(judged)

    def judge_words(self, judged: Judged) -> Judged:
        """Return a call with the verdict of the rule about untrusted text."""
        if self.provenance is None:
            return judged
        return self.provenance.judge(judged)

    async def verdict(self, call: ToolCall, caller: AnyCaller) -> Judged:
        """Return the verdict before hooks, with what parents block.

        A call that may have run asks at least.
        """
        judged = await self.judge_alone(call, caller)
        if self.parent is not None and judged.verdict.approval is not Approval.BLOCKED:
            blocked = await blocked_above(self.parent, judged, self.sandbox)
            if blocked:
                judged = replace(judged, verdict=blocked)
        if judged.verdict.approval is Approval.PRE_APPROVED and self.may_have_run(judged):
            reason = f"{call.name} was interrupted with these arguments and may have run"
            return replace(judged, verdict=Verdict(Approval.ASK, reason, by="tool"))
        return judged

    def may_have_run(self, judged: Judged) -> bool:
        """Return True if an identical call may already have run."""
        return (
            self.reopened is not None
            and not judged.tool.read_only
            and self.reopened.may_have_run(judged.call)
        )

    async def judge_alone(self, call: ToolCall, caller: AnyCaller) -> Judged:
        """Return the verdict of this worker alone: on the tool, the caller, the args and the paths.

        Raise Refusal if the call cannot run at all.
        """
        offer = self._offer(call, caller)
        args = _valid(offer.tool, call)
        bound_to = self.worker.bound_to
        if self.read_only and not offer.tool.fits_read_only:
            return Judged(call, offer, args, (), _beyond_reading(offer.tool), caller, bound_to)
        places = await self._places(offer.tool, args)
        judged = Judged(call, offer, args, places, SILENT, caller, bound_to)
        # A question about a change is more important to read than one about a look.
        changed_first = sorted(places, key=lambda path: not path.use.access.changes)
        said = [path.verdict for path in changed_first]
        own: Verdict | None = None
        target: tuple[str, JsonObject] | None = None
        # Code of a tool is not run for a call that is blocked anyway.
        if all(verdict.approval is not Approval.BLOCKED for verdict in said):
            try:
                own = await self._own_verdict(judged)
                if offer.tool.stands_for:
                    target = target_call(judged)
            except BlockedError as error:
                own = Verdict(Approval.BLOCKED, error.reason)
            except ToolError as error:
                raise _refusal(call, error) from None
        # Imported only if there are grants: most calls have none, and the module is not small.
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
            near = nearest_tool(call.name[:MAX_COMPARED].lower(), callable_ones)
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
        """Return the places of the declared paths with the verdict of their zones.

        Raise Refusal if a path cannot be used.
        """
        if not tool.has_paths:
            return ()
        try:
            if tool.touches:
                uses = await ask(f"the tool {tool.name}", tool.paths, args, code=tool.touches)
            else:
                uses = tool.paths(args)
            return tuple([self.sandbox.judge_use(use) for use in dict.fromkeys(uses)])
        except ToolError as error:
            raise Refusal("error", str(error)) from None
        except Exception as error:  # third-party code: a tool that cannot name its paths
            raise Refusal(
                "error", f"{tool.name} does not say which paths it touches: {fault_text(error)}"
            ) from None

    async def _own_verdict(self, judged: Judged) -> Verdict | None:
        """Return the tool's own verdict; raise ToolError if the tool refuses the call.

        If its check fails in another way, or returns nonsense, the call asks.
        """
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
                await checkpoint()  # an interrupt that ended the check ends the call, too
                return Verdict(
                    Approval.ASK, f"the tool's own check failed ({fault_text(error)}), so it asks"
                )
        return as_verdict(said)


def _beyond_reading(tool: Tool) -> Verdict:
    """Return the verdict of a read-only session on a tool with other effects."""
    why = "its effects are not declared"
    if tool.effects is not None:
        more = ", ".join(sorted(effect.value for effect in tool.effects - READ_ONLY))
        why = f"it is declared to do more: {more}"
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
    """Return the refusal of a call by its tool before it is executed."""
    if isinstance(error, InvalidInput):
        return Refusal("invalid", f"invalid input for {call.name}: {error}")
    return Refusal("error", str(error))


def target_call(judged: Judged) -> tuple[str, JsonObject]:
    """Return the call that a call of a proxy tool stands for.

    Raise ToolError if the tool cannot name it.
    """
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
    """Judge the target of a proxy call as well; the stricter verdict counts."""
    offer = _offer_of(judge, judged.offer.toolset, name)
    if offer is None:
        raise Refusal("error", f"{judged.call.name}: there is no tool '{visible(name)}'")
    target = await judge.verdict(ToolCall(judged.call.id, offer.tool.name, given), judged.caller)
    stricter = target.verdict.approval.stricter_than(judged.verdict.approval)
    verdict = target.verdict if stricter else judged.verdict
    # The rules of one tool say nothing about the other, so they are not offered. A session grant
    # can still cover this exact call, because its fingerprint is that of the target.
    verdict = replace(verdict, grants=())
    return replace(judged, verdict=verdict, places=target.places, target=target)


async def blocked_above(judge: Judge, judged: Judged, child: Sandbox) -> Verdict | None:
    """Return the verdict of a worker, or of its parents, on a child's call if it blocks."""
    offer = same_tool(judge, judged.offer)
    if offer is not None:
        verdict = await _verdict_of_parent(judge, offer, judged, child)
        if verdict and verdict.approval is Approval.BLOCKED:
            return blocked_by_parent(judge.worker.name, verdict)
    if judge.parent:
        return await blocked_above(judge.parent, judged, child)
    return None


async def _verdict_of_parent(
    judge: Judge, offer: Offer, judged: Judged, child: Sandbox
) -> Verdict | None:
    """Return the verdict on the call as if this worker made it.

    If this worker could not make it, return the verdict that holds for every call of the tool.
    """
    from forge_cli.sandbox.files.caps import seen_from

    paths = {
        name: seen_from(judge.sandbox, child, path) or path for name, path in judged.paths.items()
    }
    call = replace(judged.call, name=offer.tool.name, args={**judged.call.args, **paths})
    # An operator may call every tool, so only rules can block the call here.
    with suppress(Refusal):
        return (await judge.judge_alone(call, Caller.OPERATOR)).verdict
    return offer.policy.fixed(offer.tool)


def same_tool(judge: Judge, other: Offer) -> Offer | None:
    """Return this worker's offer of a tool of another worker, or None."""
    return _offer_of(judge, other.toolset, other.original)


def _offer_of(judge: Judge, toolset: str, original: str) -> Offer | None:
    for offer in judge.offers.values():
        if (offer.toolset, offer.original) == (toolset, original):
            return offer
    return None


def blocked_by_parent(worker: str, verdict: Verdict) -> Verdict:
    """Return the verdict of a parent worker for a call of its child."""
    return replace(verdict, reason=f"the parent worker '{worker}' blocks it: {verdict.reason}")
