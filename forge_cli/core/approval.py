"""Consent: approvals, verdicts, risk, requests, decisions, fingerprints and grants."""

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
"""In place of a rule: a new entry at the end of a list."""
PRE_APPROVED = "preApproved"
TOOLS_ZONE = "tools"
"""The zone of programs that the worker may call; they are never edited without asking."""

_PLAIN = re.compile(r"[A-Za-z_./][A-Za-z0-9_./-]*")
_AMBIGUOUS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""Words that some YAML readers parse as a boolean or null."""


class GrantRule(OnWire, frozen=True):
    """One policy rule: its place in a worker file and its value.

    A tool names places in its own section, for example ``GrantRule(("hosts", "-"), "example.org",
    "pages of example.org")``.
    """

    off_wire: ClassVar = ("key", "implied", "beside")
    at: tuple[str, ...]
    """The place in a worker file; a list entry goes by its ``name``, and ``-`` is a new entry."""
    says: Any
    title: str
    """The calls that the rule allows, in a few words."""
    user_at: tuple[str, ...] | None = None
    """The place in the user's own config.yaml, if the rule can be kept there."""
    user_says: Any = None
    """The value in the user's config, if it differs."""
    entry: Mapping[str, Any] | None = None
    """The whole entry that ``at`` leads through, for a file without such an entry."""
    user_title: str | None = None
    """The calls that the value in the user's config allows, if it allows more."""
    user_refuses: Any = None
    """The value in the user's config that keeps a no.

    Such a rule is asked about once, before the first call that it allows.
    """
    key: str = ""
    """The key under which the gate remembers a grant of this rule."""
    implied: bool = False
    """True if the rule is not offered here, but allows this call if granted for another one."""
    beside: Any = None
    """A related rule that most people want as well; both are also offered together."""

    def __eq__(self, other: object) -> bool:
        # GrantOffer compares rules by what they allow: the same rule may have another title.
        return isinstance(other, GrantRule) and (self.at, self.says) == (other.at, other.says)

    def __str__(self) -> str:
        if self.at[-1:] == (NEW_ENTRY,):
            return f"{'.'.join(self.at[:-1])}: {flow([self.says])}"
        return f"{'.'.join(self.at)}: {flow(self.says)}"


Needs = Sequence[Sequence[GrantRule]]
"""The rules that would allow each part of a call that asks, the narrowest first."""


def are_edits(needs: Needs) -> bool:
    """Return True if rules for edits in zones would allow the whole call."""
    return bool(needs) and all(any(map(_is_for_edits, need)) for need in needs)


def _is_for_edits(rule: GrantRule) -> bool:
    match rule.at:
        case ("sandbox", "zones", str() as zone, "approval", "write"):
            return zone != TOOLS_ZONE
    return False


def kept_rule(needs: Needs) -> GrantRule | None:
    """Return the rule that is asked about once, if it alone would allow the whole call."""
    found = [next((rule for rule in need if rule.user_refuses is not None), None) for need in needs]
    if not found or any(rule != found[0] for rule in found):
        return None
    return found[0]


def without_kept(needs: Needs) -> Needs:
    """Return the rules that would allow a call, except those that are asked about once."""
    left = [[rule for rule in need if rule.user_refuses is None] for need in needs]
    # A part without any rule left would ask anyway, so no grant can allow the whole call.
    return left if all(left) else ()


class GrantOffer(OnWire, frozen=True):
    """A grant that a person may give for the session.

    Without rules and folder it covers this exact call.
    """

    text: str
    rules: tuple[GrantRule, ...] = ()
    below: str | None = None
    """The folder below which tried commands may change files; replaces rules."""
    covers: int | None = None
    """How many earlier calls of this session it would have allowed."""
    written: str | None = None
    """The file that the rules were written to."""
    trials: bool | None = None
    """True if later calls run on a copy, and are applied unasked only within the changes shown."""
    lasting: bool | None = None
    """True if the rules can be written to a file but not granted for a session."""
    mine: tuple[str, ...] | None = None
    """Values that count as the person's words for the session; replaces rules."""

    def __eq__(self, other: object) -> bool:
        """Return True if both offers allow the same calls, whatever their text."""
        if not isinstance(other, GrantOffer):
            return False
        return (self.rules, self.below, self.mine) == (other.rules, other.below, other.mine)

    @classmethod
    def of(cls, rules: Iterable[GrantRule]) -> GrantOffer:
        """Return the offer to grant these rules together."""
        kept = tuple(unique(rules))
        return cls(" and ".join(rule.title for rule in kept), kept)


class FoldedLine(OnWire, frozen=True):
    """A preview line that stands for more text, such as a new folder that people can unfold."""

    line: str
    text: str


THIS_CALL = GrantOffer("this exact call")


def unique(things: Iterable[Any]) -> Iterator[Any]:
    """Yield each item once, in order."""
    # A list, not a set: rules may contain mappings, which have no hash.
    seen: list[Any] = []
    for thing in things:
        if thing not in seen:
            seen.append(thing)
            yield thing


def flow(value: Any) -> str:
    """Return a value as YAML on one line, as people write rules."""
    match value:
        case Mapping():
            entries = [f"{flow(key)}: {flow(item)}" for key, item in value.items()]
            return f"{{{', '.join(entries)}}}"
        case list() | tuple():
            return "[" + ", ".join(map(flow, value)) + "]"
        case str() if _PLAIN.fullmatch(value) and value.lower() not in _AMBIGUOUS:
            return value
        case _:
            return json.dumps(value, ensure_ascii=False)


class Approval(Enum):
    """The policy's answer to a call, from the loosest to the strictest.

    This is a plain Enum on purpose: members of a StrEnum compare alphabetically, so ``"ask" <
    "preApproved"`` would fail open.
    """

    PRE_APPROVED = "preApproved"
    ASK = "ask"
    BLOCKED = "blocked"

    @property
    def strictness(self) -> int:
        """Position in the order of strictness: 0 is the loosest."""
        return _ORDER.index(self)

    def stricter_than(self, other: Approval) -> bool:
        """Return True if this approval allows less than ``other``."""
        return self.strictness > other.strictness

    @classmethod
    def strictest(cls, *approvals: Approval) -> Approval:
        """Return the strictest of these approvals; ``ask`` if there are none."""
        return max(approvals, key=lambda approval: approval.strictness, default=cls.ASK)


_ORDER = (Approval.PRE_APPROVED, Approval.ASK, Approval.BLOCKED)


class ApprovalMode(Enum):
    """How an ``ask`` is answered: by a person, always yes, or always no."""

    APPROVE_ALL = "approve_all"
    INTERACTIVE = "interactive"
    AUTO_DENY = "auto_deny"

    @classmethod
    def strictest(cls, *modes: ApprovalMode | None) -> ApprovalMode | None:
        """Return the strictest of these modes; None counts as no opinion."""
        stated = [mode for mode in modes if mode is not None]
        return max(stated, key=_MODES.index) if stated else None


_MODES = tuple(ApprovalMode)


SessionMode = Literal["ask", "acceptEdits", "readOnly"]
"""The freedom that a person gives a worker during a conversation."""
MODE_TITLES: Mapping[SessionMode, str] = {
    "ask": "ask",
    "acceptEdits": "accept edits",
    "readOnly": "read only",
}
"""The name of each mode, in the order in which a key switches between them."""


def modes_within(approval_mode: str, *, read_only: bool) -> tuple[SessionMode, ...]:
    """Return the modes that a session may have under an approval mode and ``--read-only``."""
    if read_only:
        return ("ask",)
    if approval_mode == ApprovalMode.INTERACTIVE.value:
        return tuple(MODE_TITLES)
    # Only a person in the session can choose to accept edits.
    return ("ask", "readOnly")


class OnAsk(Enum):
    """What ``ask`` means when no person can be asked."""

    DENY = "deny"
    FAIL = "fail"
    PARK = "park"


class OnEnd(Enum):
    """The fate of a draft when its session ends and no person can be asked."""

    APPLY = "apply"
    KEEP = "keep"
    DROP = "drop"


class Effect(Enum):
    """An effect of a tool, as its author declares it."""

    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"
    NETWORK = "network"


Risk = Literal["low", "medium", "high"]


def risk_of(effects: frozenset[Effect] | None) -> Risk:
    """Return the risk of declared effects; undeclared effects count as high risk."""
    # Only declared effects count: any author can choose a harmless name for a tool.
    if effects is None or Effect.EXECUTE in effects:
        return "high"
    return "low" if effects <= {Effect.READ} else "medium"


class ValueOrigin(OnWire, frozen=True):
    """A value of a call that is not in the person's words, and where it first appeared."""

    argument: str
    """The name of the argument; empty for the call itself, if nobody named what it does."""
    value: str
    source: str | None = None
    """The text that brought the value, such as ``web_fetch #3 (https://blog.example/post)``.

    None if no text of the session has it.
    """
    call: str | None = None
    """The ID of the call that brought it."""
    line: int | None = None
    """The line of the log with the result of that call."""
    time: str | None = None

    def sentence(self) -> str:
        """Return the origin as one line for people."""
        if not self.argument:
            return f"nothing that you said names this: {self.value}"
        if self.source is None:
            return "not in anything that you said, nor in anything that was read"
        when = f", {self.time[11:19]}" if self.time else ""
        return f"first seen in {self.source}{when}, not in anything you said"


DecidedBy = Literal["rule", "tool", "memory", "user", "mode", "headless"]


class JudgedPart(OnWire, frozen=True):
    """A part of a call that is judged separately, such as one command of a shell line."""

    off_wire: ClassVar = ("met",)
    text: str
    approval: str
    reason: str
    rule: str | None = None
    where: Mark | None = None
    met: tuple[Mark, ...] = ()
    """The places of all rules that match, including those that a stricter rule overrides."""


class CommandRun(OnWire, frozen=True):
    """The folder in which a call would run a command, and whether the command is confined."""

    folder: str
    confined: bool
    argument: str | None = None
    """The argument that contains the command line, if any; the prompt shows it verbatim."""


class Verdict(Struct, frozen=True):
    """The decision of the policy on one call, and its reason."""

    approval: Approval
    reason: str
    rule: str | None = None
    where: Mark | None = None
    by: DecidedBy = "tool"
    details: tuple[str, ...] = ()
    """Further lines for people who want details, such as the verdict on each command."""
    parts: tuple[JudgedPart, ...] = ()
    """Separately judged parts, for the prompt; a single part is covered by the reason."""
    risk: Risk | None = None
    """The risk of this exact call; if None, the risk of the tool counts."""
    basis: Any = None
    """Findings of the tool's own check; ``execute`` gets them as ``context.basis``."""
    grants: Needs = ()
    """The rules that would allow each asking part, the narrowest first; empty if none would."""
    unruled: bool = False
    """True if the call asks only because no rule covers it; a trial without effect need not ask."""
    tried_first: bool = False
    provenance: tuple[ValueOrigin, ...] = ()
    """Why the call asks after untrusted text was read; empty if it does not ask for that reason."""
    undoable_if_tried: bool = False
    """True if a complete trial shows that the call can be undone, so that it need not ask."""
    sets: tuple[str, ...] = ()
    """The rule sets that cover commands of a pre-approved line.

    ``code`` is among them if a command may run code of the folder to print something.
    """
    writes: bool = False
    """True if a pre-approved line writes files by redirections."""

    @classmethod
    def of_parts(cls, parts: Iterable[JudgedPart], **more: Any) -> Verdict:
        """Return the strictest verdict of separately judged parts, such as statements of a text.

        Reason, rule and place are those of the first strictest part. ``more`` are further fields,
        such as ``risk`` and ``grants``. Without parts the call asks.
        """
        judged = tuple(parts)
        approval = Approval.strictest(*(Approval(part.approval) for part in judged))
        deciding = [part for part in judged if part.approval == approval.value]
        if not deciding:
            return cls(approval, "there is nothing to judge, so it asks", **more)
        first = deciding[0]
        details: tuple[str, ...] = ()
        if len(judged) > 1:
            details = tuple(f"{part.approval}: {part.text} ({part.reason})" for part in judged)
        by: DecidedBy = "tool" if first.rule is None else "rule"
        is_unruled = approval is Approval.ASK and all(part.rule is None for part in deciding)
        fields: dict[str, Any] = {"details": details, "unruled": is_unruled, "parts": judged}
        fields.update(more)
        return cls(approval, first.reason, first.rule, first.where, by, **fields)


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
    """The identity of the call; an answer applies to this identity only."""
    stamp: str | None = None
    """The state that the preview showed; an answer applies to this state only."""
    caller: str | None = None
    """``tool:NAME`` if a tool makes the call."""
    once: bool | None = None
    """True if a yes cannot be remembered, because the args do not determine the effect."""
    parts: tuple[JudgedPart, ...] | None = None
    """The parts of the verdict, if there are several."""
    runs: CommandRun | None = None
    recap: str | None = None
    """The size of the preview, such as ``2 files, +14 -3``."""
    folded: tuple[FoldedLine, ...] | None = None
    """Preview lines that stand for more text; a yes covers that text as well."""
    previewed: tuple[str, ...] | None = None
    """Names of args that the preview shows in full."""
    defaults: tuple[str, ...] | None = None
    """Names of args that have their default value."""
    distribution: str | None = None
    """For a custom preview: the package or file of the tool, whose renderer draws it."""
    offers: tuple[GrantOffer, ...] | None = None
    """Grants that a yes may be remembered as, the narrowest first."""
    policy_files: Mapping[str, str] | None = None
    """The files that a rule may be written to, under the keys ``user`` and ``worker``."""
    kept: str | None = None
    """The file that keeps the answer, whether yes or no."""
    provenance: tuple[ValueOrigin, ...] | None = None
    """Values that the person did not name, if the session has read untrusted text."""


class ApprovalDecision(Struct, frozen=True):
    """The answer to a request; true if approved. ``note`` is feedback for the model."""

    approved: bool
    remember: Literal["session"] | None = None
    note: str | None = None
    by: DecidedBy = "user"
    grant: GrantOffer | None = None
    """The remembered grant, one of the offers; if None, identical calls are remembered."""
    via: str | None = None
    """The origin of the answer, such as ``forge approvals answer``; None if it was asked there."""

    def __bool__(self) -> bool:
        return self.approved


def fingerprint(
    *, worker: str, source: str, digest: str | None, tool: str, args: Mapping[str, Any]
) -> str:
    """Return the identity of a call: the same worker, tool, tool content and args."""
    identity = [worker, source, digest, tool, args]
    # Sorted and without blanks, so that equal args have one text whatever the order of their keys.
    text = json.dumps(identity, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
