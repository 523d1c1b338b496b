"""Consent: three approvals, the verdict that explains one, risk, requests, decisions, fingerprints, grants."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar, Literal

from msgspec import Struct

from forge_cli.core.errors import Mark
from forge_cli.core.results import ResultValue
from forge_cli.core.wire import OnWire

NEW_ENTRY = "-"
"""In the place of a rule: a new entry at the end of a list."""
PRE_APPROVED = "preApproved"
TOOLS_ZONE = "tools"
"""Programs lie there that the worker may call: they are not edited unasked."""

_PLAIN = re.compile(r"[A-Za-z_./][A-Za-z0-9_./-]*")
_AMBIGUOUS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""Words that some reader of YAML takes for something else than text."""


class GrantRule(OnWire, frozen=True):
    """One rule: where it would stand in a policy, and what it says there.

    A tool names places in its own section: ``GrantRule(("hosts", "-"), "example.org", "pages of example.org")``.
    """

    off_wire: ClassVar = ("key", "implied", "beside")
    at: tuple[str, ...]
    """The place in a worker file; an entry of a list goes by its ``name``, and ``-`` is a new entry."""
    says: Any
    title: str
    """The calls that it allows, in a few words."""
    user_at: tuple[str, ...] | None = None
    """The place in the user's own config.yaml, where such a rule works there, too."""
    user_says: Any = None
    """The value that it has there, where that is another one."""
    entry: Mapping[str, Any] | None = None
    """The whole entry that ``at`` leads through, for a file that does not have it yet."""
    user_title: str | None = None
    """The calls that the value in the user's config allows, where those are more."""
    user_refuses: Any = None
    """The value there that keeps a no. Such a rule is asked about once, before the first call that it allows."""
    key: str = ""
    """The key by which a grant of it is remembered; the gate sets it."""
    implied: bool = False
    """True if it is not offered for this call, and yet allows it where it was granted for another one."""
    beside: Any = None
    """Another rule that people mostly want with it, offered together with it besides."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GrantRule) and (self.at, self.says) == (other.at, other.says)

    def __str__(self) -> str:
        if self.at[-1:] == (NEW_ENTRY,):
            return f"{'.'.join(self.at[:-1])}: {flow([self.says])}"
        return f"{'.'.join(self.at)}: {flow(self.says)}"


Needs = Sequence[Sequence[GrantRule]]
"""For each thing about a call that asks, the rules that would allow it, the narrowest first."""


def are_edits(needs: Needs) -> bool:
    """Return True if rules for edits in zones would allow everything about a call that asks."""
    return bool(needs) and all(any(map(_is_for_edits, need)) for need in needs)


def _is_for_edits(rule: GrantRule) -> bool:
    match rule.at:
        case ("sandbox", "zones", str() as zone, "approval", "write"):
            return zone != TOOLS_ZONE
    return False


def kept_rule(needs: Needs) -> GrantRule | None:
    """Return the rule that is asked about once, if it would allow everything about a call."""
    found = [next((rule for rule in need if rule.user_refuses is not None), None) for need in needs]
    return found[0] if found and all(rule == found[0] for rule in found) else None


def without_kept(needs: Needs) -> Needs:
    """Return the rules that would allow a call, without those that are asked about once."""
    left = [[rule for rule in need if rule.user_refuses is None] for need in needs]
    return left if all(left) else ()


class GrantOffer(OnWire, frozen=True):
    """Something that a person may allow for the rest of a session; without rules and a folder it is this exact call."""

    text: str
    rules: tuple[GrantRule, ...] = ()
    below: str | None = None
    """The folder below which commands may change files that were tried first, in place of rules."""
    covers: int | None = None
    """How many calls of this session it would have allowed so far."""
    written: str | None = None
    """The file that the rules were written to."""
    trials: bool | None = None
    """True where the calls are tried again, and applied unasked only if they change no more than was shown."""
    lasting: bool | None = None
    """True where the rules can be written to a file, but are not granted for a session."""

    def __eq__(self, other: object) -> bool:
        """Return True if both allow the same calls, in whatever words."""
        if not isinstance(other, GrantOffer):
            return False
        return (self.rules, self.below) == (other.rules, other.below)

    @classmethod
    def of(cls, rules: Iterable[GrantRule]) -> GrantOffer:
        """The offer of what one rule, or several together, would allow."""
        kept = tuple(unique(rules))
        return cls(" and ".join(rule.title for rule in kept), kept)


class FoldedLine(OnWire, frozen=True):
    """A line of a preview that stands for more, such as a folder that was made, and what people see who unfold it."""

    line: str
    text: str


THIS_CALL = GrantOffer("this exact call")


def unique(things: Iterable[Any]) -> Iterator[Any]:
    """Each once; rules may hold mappings, which have no hash."""
    seen: list[Any] = []
    for thing in things:
        if thing not in seen:
            seen.append(thing)
            yield thing


def flow(value: Any) -> str:
    """A value as YAML on one line, the way people write rules."""
    match value:
        case Mapping():
            return (
                "{" + ", ".join(f"{flow(key)}: {flow(item)}" for key, item in value.items()) + "}"
            )
        case list() | tuple():
            return "[" + ", ".join(map(flow, value)) + "]"
        case str() if _PLAIN.fullmatch(value) and value.lower() not in _AMBIGUOUS:
            return value
        case _:
            return json.dumps(value, ensure_ascii=False)


class Approval(Enum):
    """The verdict of a policy on a call, from the loosest to the strictest.

    A plain Enum on purpose: the members of a StrEnum compare alphabetically, and "ask" < "preApproved" fails open.
    """

    PRE_APPROVED = "preApproved"
    ASK = "ask"
    BLOCKED = "blocked"

    @property
    def strictness(self) -> int:
        """How strict it is: 0 for the loosest."""
        return _ORDER.index(self)

    def stricter_than(self, other: Approval) -> bool:
        """Return True if it allows less than another."""
        return self.strictness > other.strictness

    @classmethod
    def strictest(cls, *approvals: Approval) -> Approval:
        """The strictest of these; with none given, ``ask``."""
        return max(approvals, key=lambda approval: approval.strictness, default=cls.ASK)


_ORDER = (Approval.PRE_APPROVED, Approval.ASK, Approval.BLOCKED)


class ApprovalMode(Enum):
    """The way an ``ask`` is answered: by a person, always yes, or always no."""

    APPROVE_ALL = "approve_all"
    INTERACTIVE = "interactive"
    AUTO_DENY = "auto_deny"

    @classmethod
    def strictest(cls, *modes: ApprovalMode | None) -> ApprovalMode | None:
        """The strictest of those that say anything; None abstains."""
        stated = [mode for mode in modes if mode is not None]
        return max(stated, key=_MODES.index) if stated else None


_MODES = tuple(ApprovalMode)


SessionMode = Literal["ask", "acceptEdits", "readOnly"]
"""The freedom that a person gives a worker while they talk with it."""
MODE_TITLES: Mapping[SessionMode, str] = {
    "ask": "ask",
    "acceptEdits": "accept edits",
    "readOnly": "read only",
}
"""Every one, in the order in which a key goes round."""


def modes_within(approval_mode: str, *, read_only: bool) -> tuple[SessionMode, ...]:
    """The modes that a session may have: none allows more than the approval mode and ``--read-only`` do."""
    if read_only:
        return ("ask",)
    return (
        tuple(MODE_TITLES)
        if approval_mode == ApprovalMode.INTERACTIVE.value
        else ("ask", "readOnly")
    )


class OnAsk(Enum):
    """The meaning of ``ask`` when no person can be asked."""

    DENY = "deny"
    FAIL = "fail"
    PARK = "park"


class Effect(Enum):
    """An effect of a tool on the world, as its author declares it."""

    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"
    NETWORK = "network"


Risk = Literal["low", "medium", "high"]


def risk_of(effects: frozenset[Effect] | None) -> Risk:
    """Risk comes from declared effects, never from names; what is not declared is high."""
    if effects is None or Effect.EXECUTE in effects:
        return "high"
    return "low" if effects <= {Effect.READ} else "medium"


DecidedBy = Literal["rule", "tool", "memory", "user", "mode", "headless"]


class JudgedPart(OnWire, frozen=True):
    """One part of a call that is judged by itself, such as a simple command of a command line."""

    off_wire: ClassVar = ("met",)
    text: str
    approval: str
    reason: str
    rule: str | None = None
    where: Mark | None = None
    met: tuple[Mark, ...] = ()
    """The places of all rules that match it, also of those that another one is stricter than."""


class CommandRun(OnWire, frozen=True):
    """The place where a call would run a command, and whether it is confined there."""

    folder: str
    confined: bool
    argument: str | None = None
    """The arg that holds the command line, where there is one: a prompt shows it as it was written."""


class Verdict(Struct, frozen=True):
    """The decision of the policy on one call, and the reason."""

    approval: Approval
    reason: str
    rule: str | None = None
    where: Mark | None = None
    by: DecidedBy = "tool"
    details: tuple[str, ...] = ()
    """More lines for people who want to know exactly, such as what is said of each part of a command."""
    parts: tuple[JudgedPart, ...] = ()
    """Parts that were judged by themselves, for the prompt; with one part the reason says it all."""
    risk: Risk | None = None
    """Of this exact call, where that is known; else that of the tool counts."""
    basis: Any = None
    """Findings of a tool's own check, handed to its ``execute`` as ``context.basis``."""
    grants: Needs = ()
    """For each thing that asks, the rules that would allow it, the narrowest first; empty where none would."""
    unruled: bool = False
    """It asks because nothing has been said of it: where a trial shows no effect, no person need be asked."""
    tried_first: bool = False


class ApprovalRequest(Struct, frozen=True):
    """A question to a person: the call, why it asks, and what it would do."""

    type: ClassVar[Literal["tool_call"]] = "tool_call"
    request_id: str
    tool_call_id: str
    tool_name: str
    args: Mapping[str, Any]
    description: str
    reason: str
    risk: Risk
    rule: str | None
    where: Mark | None
    preview: ResultValue | None = None
    details: tuple[str, ...] | None = None
    fingerprint: str | None = None
    """The identity of the call, that an answer is bound to."""
    stamp: str | None = None
    """The state of what the preview showed, that an answer is bound to as well."""
    caller: str | None = None
    """``tool:NAME`` where a tool makes the call."""
    once: bool | None = None
    """True when a yes cannot be remembered: the args do not say what the call does."""
    parts: tuple[JudgedPart, ...] | None = None
    """Those of the verdict, where there are several."""
    runs: CommandRun | None = None
    recap: str | None = None
    """How much the preview shows, such as ``2 files, +14 -3``."""
    folded: tuple[FoldedLine, ...] | None = None
    """Lines of the preview that stand for more; a yes counts for that as well."""
    previewed: tuple[str, ...] | None = None
    """Args that the preview shows whole."""
    defaults: tuple[str, ...] | None = None
    """Args that are as they would be if they were not given."""
    distribution: str | None = None
    """Of a custom preview: the package or file that the tool is part of, whose renderer draws it."""
    offers: tuple[GrantOffer, ...] | None = None
    """Grants that a yes may be remembered as, the narrowest first."""
    policy_files: Mapping[str, str] | None = None
    """The files that a rule may be written to: of the ``user``, and of the ``worker``."""
    kept: str | None = None
    """The file that keeps the answer, be it yes or no."""


class ApprovalDecision(Struct, frozen=True):
    """The answer to a request, true when it is yes; ``note`` is feedback that the model gets to read."""

    approved: bool
    remember: Literal["session"] | None = None
    note: str | None = None
    by: DecidedBy = "user"
    grant: GrantOffer | None = None
    """The grant that is remembered: one of the request's offers; identical calls where none is named."""
    via: str | None = None
    """The origin of the answer, such as ``forge approvals answer``; None for the place where it was asked."""

    def __bool__(self) -> bool:
        return self.approved


def fingerprint(
    *, worker: str, source: str, digest: str | None, tool: str, args: Mapping[str, Any]
) -> str:
    """The identity that a remembered grant is bound to: the same worker, tool, content and args."""
    identity = [worker, source, digest, tool, args]
    text = json.dumps(identity, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
