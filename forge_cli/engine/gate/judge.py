"""The verdict on a call: does the tool exist, is the input valid, and what do policy and circumstances say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from forge_cli.core.approval import Approval, Verdict, fingerprint
from forge_cli.core.errors import BlockedError, ToolError
from forge_cli.core.schema import InvalidInput, JsonObject
from forge_cli.core.text import visible
from forge_cli.core.tool import Args, OutcomeStatus, Tool, ToolCall
from forge_cli.core.wire import error_text, jsonable
from forge_cli.engine.gate.policy import Policy, word_of
from forge_cli.record.resume import Past, Pending, call_identity
from forge_cli.sandbox.files.caps import seen_from
from forge_cli.sandbox.files.sandbox import Access, Sandbox

PATH_FORMATS = {"path": Access.INFO, "entry": Access.DELETE}
"""Formats of path arguments: the file that a path leads to, or the last name itself, even if it is a link."""


class Caller(Enum):
    """Who wants a call: the model, the person in a conversation, or the operator at the command line."""

    MODEL = "model"
    PERSON = "person"
    OPERATOR = "operator"

    def may_call(self, tool: Tool) -> bool:
        match self:
            case Caller.MODEL:
                return tool.mode in ("llm", "both")
            case Caller.PERSON:
                return tool.mode in ("manual", "both")
            case Caller.OPERATOR:
                return True


@dataclass(frozen=True)
class Offer:
    """A tool as one worker offers it: under its name here, with the worker's policy for it."""

    tool: Tool
    toolset: str
    policy: Policy
    original: str = ""
    """The tool's name before ``prefix:``."""


@dataclass(frozen=True)
class Judged:
    """A call that could go on, with valid arguments and the verdict on it."""

    call: ToolCall
    offer: Offer
    args: Args
    paths: Mapping[str, str]
    verdict: Verdict
    meant: Judged | None = None
    """The call that this one stands for."""


@dataclass
class Reopened:
    """What a session that goes on knows of the calls before."""

    pending: dict[str, Pending] = field(default_factory=dict)
    """By call: requests that were left open, some of them with an answer by now."""
    approved: set[str] = field(default_factory=set)
    """Calls that were approved and wait for a worker further down."""
    may_have_run: set[str] = field(default_factory=set)
    """Identities of calls that were cut off while they ran."""

    @classmethod
    def of(cls, past: Past) -> Reopened:
        return cls(dict(past.pending), set(past.below), set(past.in_flight))

    def refused(self, call: ToolCall) -> bool:
        """Did somebody say no while nobody worked? Then no policy makes it a yes."""
        pending = self.pending.get(call.id)
        return pending is not None and pending.answer is not None and not pending.answer.approved

    def knows(self, call: ToolCall) -> bool:
        return call.id in self.pending or call.id in self.approved


class Refusal(Exception):
    """The call ends here: nobody is asked, or somebody said no."""

    def __init__(self, status: OutcomeStatus, sentence: str, by: str | None = None) -> None:
        super().__init__(sentence)
        self.status: OutcomeStatus = status
        self.sentence = sentence
        self.by = by


@dataclass(frozen=True, kw_only=True)
class Judge:
    """Judges the calls of one worker. ``offers`` is what exists right now, by name."""

    offers: Mapping[str, Offer]
    sandbox: Sandbox
    worker: str
    redact: Callable[[Any], Any] = lambda value: value
    """What the record does to secrets; calls are compared with what it kept."""
    reopened: Reopened = field(default_factory=Reopened)
    ceiling: Judge | None = None
    """That of the worker that called this one: what is blocked there is blocked here."""

    async def judge(self, call: ToolCall, caller: Caller) -> Judged:
        """Does it exist, may this caller call it, is the input valid, and what do policy and circumstances say?"""
        judged = await self._weighed(call, caller)
        return replace(judged, verdict=await self._tightened(judged))

    async def _weighed(self, call: ToolCall, caller: Caller) -> Judged:
        offer = self._offer(call, caller)
        if call.unreadable is not None:
            raise Refusal("invalid", f"the input of {call.name} is no JSON object: {call.unreadable}")
        try:
            args = offer.tool.schema.validate(call.input)
            paths = self._paths(offer.tool, args)
            word = await word_of(offer.tool, deepcopy(args))
            meant = _meant(offer.tool, args)
        except InvalidInput as error:
            raise Refusal("invalid", f"invalid input for {call.name}: {error}") from None
        except BlockedError as error:
            word, meant = Verdict(Approval.BLOCKED, error.reason), None
        except ToolError as error:
            raise Refusal("error", str(error)) from None
        judged = Judged(call, offer, args, paths, offer.policy.combine(word))
        return judged if meant is None else await self._readdressed(judged, *meant, caller)

    async def _tightened(self, judged: Judged) -> Verdict:
        """What holds whatever the policy says: the caller's blocks, and caution with a call that may have run."""
        call, verdict = judged.call, judged.verdict
        if self.ceiling is not None and verdict.approval is not Approval.BLOCKED:
            verdict = await self.ceiling.blocks(judged, self.sandbox) or verdict
        if verdict.approval is Approval.PRE_APPROVED and self.may_have_run(judged):
            return Verdict(Approval.ASK, f"{call.name} was cut off with these arguments: it may have run", by="tool")
        return verdict

    def may_have_run(self, judged: Judged) -> bool:
        call = judged.call
        known = self.reopened.may_have_run
        return bool(known) and not judged.offer.tool.read_only and self.identity(call) in known

    def identity(self, call: ToolCall) -> str:
        return call_identity(call.name, self.redact(jsonable(call.input)))

    async def blocks(self, judged: Judged, below: Sandbox) -> Verdict | None:
        """What this worker, or one above it, says of a call of one that it called: the verdict, if it blocks."""
        offer = self.same_tool(judged.offer)
        verdict = None if offer is None else await self._word_on(offer, judged, below)
        if verdict is None or verdict.approval is not Approval.BLOCKED:
            return await self.ceiling.blocks(judged, below) if self.ceiling else None
        return blocked_above(self.worker, verdict)

    async def _word_on(self, offer: Offer, judged: Judged, below: Sandbox) -> Verdict | None:
        """The verdict if the call were one of this worker's; where it could not be, what holds for every call."""
        paths = {name: seen_from(self.sandbox, below, path) or path for name, path in judged.paths.items()}
        call = replace(judged.call, name=offer.tool.name, input={**judged.call.input, **paths})
        with suppress(Refusal):
            return (await self._weighed(call, Caller.OPERATOR)).verdict
        return offer.policy.fixed(offer.tool)

    def same_tool(self, other: Offer) -> Offer | None:
        """The tool of another worker as this one has it, if it does."""
        names = other.toolset, other.original
        return next((offer for offer in self.offers.values() if (offer.toolset, offer.original) == names), None)

    def _offer(self, call: ToolCall, caller: Caller) -> Offer:
        offer = self.offers.get(call.name)
        if offer is None:
            known = ", ".join(sorted(self.offers)) or "none"
            raise Refusal("not_found", f"there is no tool '{visible(call.name)}'; the tools are: {known}")
        if not caller.may_call(offer.tool):
            who = "a person" if caller is Caller.MODEL else "the model"
            raise Refusal("blocked", f"{call.name} can only be called by {who}", by="tool")
        return offer

    async def _readdressed(self, judged: Judged, name: str, given: JsonObject, caller: Caller) -> Judged:
        """A call through a door is judged as the call that is meant, too; the stricter verdict counts."""
        toolset = judged.offer.toolset
        siblings = (offer for offer in self.offers.values() if offer.toolset == toolset and offer.original == name)
        target = next(siblings, None)
        if target is None:
            raise Refusal("error", f"{judged.call.name}: there is no tool '{visible(name)}'")
        meant = await self.judge(ToolCall(judged.call.id, target.tool.name, given), caller)
        if meant.verdict.approval.stricter_than(judged.verdict.approval):
            judged = replace(judged, verdict=meant.verdict)
        return replace(judged, paths=meant.paths, meant=meant)

    def fingerprint_of(self, judged: Judged) -> str:
        real = judged.meant or judged
        tool, args = real.offer.tool, {**real.args, **real.paths}
        source = str(tool.source) if tool.source else real.offer.toolset
        return fingerprint(worker=self.worker, source=source, digest=tool.digest, tool=tool.name, args=args)

    def _paths(self, tool: Tool, args: Args) -> dict[str, str]:
        """The arguments whose schema has the format of a path, as the files that they really mean."""
        properties = tool.schema.json_schema["properties"]
        formats = {name: schema.get("format") for name, schema in properties.items() if isinstance(schema, dict)}
        return {
            name: self._canonical(args[name], PATH_FORMATS[kind])
            for name, kind in formats.items()
            if kind in PATH_FORMATS and isinstance(args.get(name), str)
        }

    def _canonical(self, path: str, access: Access) -> str:
        try:
            return self.sandbox.resolve(path, access)
        except ToolError:
            return path


def blocked_above(worker: str, verdict: Verdict) -> Verdict:
    """A verdict of a worker on a call of one that it called."""
    return replace(verdict, reason=f"the worker '{worker}', which called this one, blocks it: {verdict.reason}")


def _meant(tool: Tool, args: Args) -> tuple[str, JsonObject] | None:
    """The call that a call stands for; a door that cannot say it lets nobody through."""
    if tool.stands_for is None:
        return None
    try:
        name, given = tool.stands_for(deepcopy(args))
        return str(name), dict(given)
    except (ToolError, InvalidInput):
        raise
    except Exception as error:  # foreign code
        raise ToolError(f"{tool.name} does not say which tool is meant: {error_text(error)}") from None
