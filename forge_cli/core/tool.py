"""Types of a tool: its args, its own verdict, the preview and the trial of a call."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from forge_cli.core.approval import Approval, CommandRun, FoldedLine, GrantOffer, Risk, Verdict
from forge_cli.core.context import CallContext, ToolContext
from forge_cli.core.errors import Stale
from forge_cli.core.results import ResultValue
from forge_cli.core.text import counted
from forge_cli.core.wire import JsonObject, jsonable

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

    for_apply: Tried | None = None
    """The trial that ``apply`` gets after a yes; set by forge."""


@dataclass(frozen=True)
class Tried:
    """A call that ``preview`` tried and took back: its changes, for the prompt and for ``apply``.

    A yes covers this one call, with exactly these changes.
    """

    value: ResultValue | None
    """The changes as the prompt shows them."""
    changes: Any
    """All changes as JSON data, or a hash and their number; empty if the call has no effect."""
    recap: str | None = None
    """The size of the changes in a few words, such as ``3 rows``."""
    shows: tuple[str, ...] = ()
    """Names of args that ``value`` shows in full; the prompt does not repeat them."""
    risk: Risk | None = None
    """The risk of this call according to the trial; None for the risk of the tool."""
    blocked: Verdict | None = None
    """The verdict if the trial did something that is blocked; then forge does not ask."""

    @property
    def stamp(self) -> str:
        """The hash of the changes."""
        return digest_of(_json(self.changes).encode())

    @property
    def has_effect(self) -> bool:
        """True if the call would change something."""
        return bool(self.changes)

    @property
    def summary(self) -> str:
        """The size of the changes in a few words."""
        if self.recap is not None:
            return self.recap
        if isinstance(self.changes, list | tuple):
            return counted(len(self.changes), "change")
        return "changes" if self.has_effect else "no change"

    def require_same(self, changes: Any) -> None:
        """Raise Stale unless the changes equal those of the trial; the gate then asks again.

        ``apply`` calls this with what it changed, before it makes the changes last.
        """
        if _json(changes) != _json(self.changes):
            raise Stale("what it would change is no longer what was shown")


def _json(changes: Any) -> str:
    return json.dumps(jsonable(changes), sort_keys=True)


Execute = Callable[[Args, ToolContext], Awaitable[Any]]
MakePreview = Callable[[Args, ToolContext], Awaitable[Preview | Tried]]
Apply = Callable[[Args, ToolContext, Tried], Awaitable[Any]]
StandsFor = Callable[[Args], tuple[str, JsonObject]]


class Validated(Struct, frozen=True, kw_only=True):
    """The result of a check: valid ``args``, or an ``error`` that names each invalid field."""

    ok: bool
    args: JsonObject | None = None
    error: str | None = None


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of ``content`` in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()
