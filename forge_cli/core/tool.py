"""Types of a tool: its args, its own verdict and the preview of a call."""

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
"""Seconds for a call of a tool without its own limit."""
LONGEST = 3600.0
"""The largest time limit, also for tools that limit their calls themselves."""


class RefusesOnly(Struct, frozen=True):
    """A ``needs_approval`` that refuses some calls and leaves consent to the zones."""

    check: Callable[[Args, CallContext], None]
    """Raises ToolError for a call to refuse."""

    def __call__(self, args: Args, context: CallContext) -> bool:
        self.check(args, context)
        return False


class RulesOnly(Struct, frozen=True):
    """A ``needs_approval`` for calls with a rule; for all others the worker decides."""

    judge: Callable[[Args], Verdict | None]
    has_rules: bool = True
    """True if there is a rule; False if rules are only offered."""

    def __call__(self, args: Args) -> Verdict:
        return self.judge(args) or Verdict(
            Approval.ASK, "no rule covers this call, so it asks", by="rule"
        )


@dataclass(frozen=True)
class Preview:
    """The effect that a call would have, for the prompt; ``execute`` can check the stamp.

    With ``once`` a yes covers this call only, because its args do not determine the effect, as for
    a commit.
    """

    value: ResultValue | None
    stamp: str | None = None
    once: bool = False
    shows: tuple[str, ...] = ()
    """Names of args that ``value`` shows in full; the prompt does not repeat them."""
    recap: str | None = None
    """The size of the change in a few words; for a ``Diff`` it is counted."""
    folded: tuple[FoldedLine, ...] = ()
    """Lines of ``value`` that stand for more text, which people can unfold."""
    runs: CommandRun | None = None
    """The folder and confinement of the command, if the call runs one."""
    tried: CommandTried | None = None
    """The result of a trial; without effect it need not ask, unless a rule says so."""
    changed: GrantOffer | None = None
    """The folder of the changes, if a yes may be remembered for it."""
    blocked: Verdict | None = None
    """The verdict if the trial did something that is blocked; then forge does not ask."""
    risk: Risk | None = None
    """The risk of this call according to the preview; None for the risk of the tool."""
    extent: TrialExtent | None = None
    """The changes of a complete trial; a grant allows no more than these to later trials."""


Execute = Callable[[Args, ToolContext], Awaitable[Any]]
MakePreview = Callable[[Args, ToolContext], Awaitable[Preview]]
StandsFor = Callable[[Args], tuple[str, JsonObject]]


class Validated(Struct, frozen=True, kw_only=True):
    """The result of a check: valid ``args``, or an ``error`` that names each invalid field."""

    ok: bool
    args: JsonObject | None = None
    error: str | None = None


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of ``content`` in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()
