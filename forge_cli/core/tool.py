"""The words of a tool: its args, its own verdict, and the preview of a call."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from forge_cli.core.approval import Approval, CommandRun, FoldedLine, GrantOffer, Risk, Verdict
from forge_cli.core.context import CallContext, ToolContext
from forge_cli.core.results import ResultValue
from forge_cli.core.wire import JsonObject

if TYPE_CHECKING:
    from forge_cli.core.trial import CommandTried, TrialExtent

Args = dict[str, Any]
OwnVerdict = bool | str | Approval | Verdict
NeedsApproval = (
    OwnVerdict
    | Callable[[Args], OwnVerdict | Awaitable[OwnVerdict]]
    | Callable[[Args, CallContext], OwnVerdict | Awaitable[OwnVerdict]]
    | None
)
TIME_LIMIT = 30.0
"""Seconds for a call of a tool that says nothing else."""
LONGEST = 3600.0
"""The most that makes sense, and what a tool says that bounds its calls itself."""


class RefusesOnly(Struct, frozen=True):
    """A ``needs_approval`` that refuses some calls before anybody is asked, and leaves consent to the zones."""

    check: Callable[[Args, CallContext], None]
    """Raises ToolError for a call that is to be refused."""

    def __call__(self, args: Args, context: CallContext) -> bool:
        self.check(args, context)
        return False


class RulesOnly(Struct, frozen=True):
    """A ``needs_approval`` that says nothing of calls without a rule: there the worker's word on the tool counts."""

    judge: Callable[[Args], Verdict | None]
    has_rules: bool = True
    """True if there is a rule at all; without one it only offers some."""

    def __call__(self, args: Args) -> Verdict:
        return self.judge(args) or Verdict(
            Approval.ASK, "no rule is about this call, so it asks", by="rule"
        )


@dataclass(frozen=True)
class Preview:
    """The effect that a call would have, for the prompt; ``execute`` finds the stamp in its context and can check it.

    With ``once`` a yes is good for this call only: its args do not say what it does (a commit, say).
    """

    value: ResultValue | None
    stamp: str | None = None
    once: bool = False
    shows: tuple[str, ...] = ()
    """Args that ``value`` shows whole, and that the prompt does not repeat."""
    recap: str | None = None
    """How much it shows, in a few words; that of a ``Diff`` is counted."""
    folded: tuple[FoldedLine, ...] = ()
    """Lines of ``value`` that stand for more, which people can unfold."""
    runs: CommandRun | None = None
    """The place where a command would run, if the call starts one."""
    tried: CommandTried | None = None
    """The result of a trial; without an effect no person need be asked, unless a rule says so."""
    changed: GrantOffer | None = None
    """The folder in which it changed something, where a yes may be remembered for that."""
    blocked: Verdict | None = None
    """The verdict that the trial itself gave, where it did what is blocked: no question follows."""
    risk: Risk | None = None
    """The risk of this call by what it shows; None where that of the tool counts."""
    extent: TrialExtent | None = None
    """The places that a complete trial changed: what is granted for it allows no more to later trials."""


Execute = Callable[[Args, ToolContext], Awaitable[Any]]
MakePreview = Callable[[Args, ToolContext], Awaitable[Preview]]
StandsFor = Callable[[Args], tuple[str, JsonObject]]


class Validated(Struct, frozen=True, kw_only=True):
    """The result of checking an input: ``args`` that fit, or an ``error`` that names each wrong field."""

    ok: bool
    args: JsonObject | None = None
    error: str | None = None


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
