"""Policies: the worker's rules for one tool, combined with verdicts of tool and zones."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.approval import PRE_APPROVED, Approval, GrantRule, Needs, Verdict
from forge_cli.core.errors import Mark
from forge_cli.core.tool import RefusesOnly, RulesOnly
from forge_cli.schema.tool_fields import approval_named

if TYPE_CHECKING:
    from forge_cli.schema.tool import Tool
    from forge_cli.schema.toolset import ApprovalConfig

BY_ZONE = "by zone"
"""The approval of a tool that depends on the zones of the paths in a call."""
BY_RULE = "by rule"
"""The approval of a tool that depends on rules and checks of its toolset."""
UNBOUND = "it is not bound to zones"
SILENT = Verdict(
    Approval.ASK, "neither the tool nor the worker says anything, so it asks", by="rule"
)


class Policy(Struct, frozen=True):
    """The worker's rules for one tool."""

    named: Verdict | None = None
    default: Verdict | None = None
    loosened: GrantRule | None = None
    """The rule that would pre-approve the tool if the tool has no verdict of its own."""
    caution: str | None = None
    """A sentence that is added to every reason."""

    @classmethod
    def of(
        cls, config: ApprovalConfig, tool: str, toolset: str, caution: str | None = None
    ) -> Policy:
        """Return the policy for one tool, by its name before ``prefix:``."""
        section = f"toolsets.{toolset}.approval"
        return cls(
            _rule(config.tools.get(tool), config.where("tools", tool), f"{section}.tools.{tool}"),
            _rule(config.default, config.where("default"), f"{section}.default"),
            GrantRule(
                ("toolsets", toolset, "approval", "tools", tool),
                PRE_APPROVED,
                f"every call of {tool}",
            ),
            caution,
        )

    def replacing(self, toolset: str) -> Policy:
        """Return the policy for a tool that replaces another toolset's: no default approves it."""
        if self.default is None or self.default.approval is not Approval.PRE_APPROVED:
            return self
        reason = (
            f"it replaces the tool of that name of '{toolset}',"
            " so it asks unless approval.tools names it"
        )
        return replace(self, default=Verdict(Approval.ASK, reason, by="rule"))

    def combine(self, own: Verdict | None, paths: Sequence[Verdict] = ()) -> Verdict:
        """Return the strictest verdict of tool, worker and the zones of the paths.

        The tool's own verdict counts unless the worker names the tool more strictly. Without one,
        the worker decides.
        """
        if own is None:
            verdict = self.named or self._unnamed
        elif self.named and self.named.approval.stricter_than(own.approval):
            verdict = self.named
        else:
            verdict = own
        grants = self._grants(verdict, paths)
        found = [path for path in paths if not verdict.approval.stricter_than(path.approval)]
        if found:
            verdict = _join(verdict, max(found, key=lambda path: path.approval.strictness))
        # A grant answers a question; without one there is nothing to grant.
        if verdict.approval is not Approval.ASK:
            grants = ()
        if verdict.unruled and self.named is not None:
            verdict = replace(verdict, unruled=False)
        if self.caution:
            verdict = replace(verdict, reason=f"{verdict.reason}; {self.caution}")
        if grants or verdict.grants:
            return replace(verdict, grants=grants)
        return verdict

    @property
    def _unnamed(self) -> Verdict:
        """The verdict on a tool without one of its own that the worker does not name."""
        verdict = self.default or SILENT
        if self.loosened and verdict.approval is Approval.ASK:
            return replace(verdict, grants=((self.loosened,),))
        return replace(verdict, grants=())

    def _grants(self, verdict: Verdict, paths: Sequence[Verdict]) -> Needs:
        """Return the needs of a call, if all of them can be granted.

        An explicit ``ask`` of the worker cannot be granted.
        """
        asking = [each for each in (verdict, *paths) if each.approval is Approval.ASK]
        explicit = self.named is not None and self.named.approval is Approval.ASK
        if explicit or not all(each.grants for each in asking):
            return ()
        return tuple(chain.from_iterable(each.grants for each in asking))

    def fixed(self, tool: Tool) -> Verdict | None:
        """Return the verdict for every call of a tool, or None if it depends on the args."""
        own = tool.needs_approval
        if isinstance(own, RulesOnly) and not own.has_rules:
            own = None
        zones_decide = tool.changes_paths or (own is False and tool.has_paths)
        if callable(own) or tool.stands_for or zones_decide:
            # The args decide, but not over a worker that blocks the tool.
            if self.named and self.named.approval is Approval.BLOCKED:
                return self.named
            return None
        return self.combine(None if own is None else as_verdict(own))

    def approval_word(self, tool: Tool) -> str:
        """Return the approval of every call of a tool, or ``by zone`` or ``by rule``."""
        if verdict := self.fixed(tool):
            return verdict.approval.value
        own = tool.needs_approval
        has_rules = callable(own) and not isinstance(own, RefusesOnly)
        if tool.changes_paths or not (has_rules or tool.stands_for):
            return BY_ZONE
        return BY_RULE

    def loosens(self, tool: Tool) -> bool:
        """Return True if the worker is looser than the tool's own verdict, which has no effect."""
        own = tool.needs_approval
        if self.named is None or own is None or callable(own):
            return False
        verdict = as_verdict(own)
        # By memory, a tool asks because it has changed, which the worker's author could not know.
        return verdict.by != "memory" and verdict.approval.stricter_than(self.named.approval)

    def idle(self, tool: Tool) -> bool:
        """Return True if the worker pre-approves a tool that decides by its args.

        Such a setting has no effect.
        """
        if self.named is None or self.named.approval is not Approval.PRE_APPROVED:
            return False
        if isinstance(tool.needs_approval, RulesOnly):
            return False
        return callable(tool.needs_approval) or (tool.needs_approval is False and tool.has_paths)


def as_verdict(said: Any) -> Verdict:
    """Return the verdict for a tool's answer; nonsense means ask."""
    match said:
        case Verdict():
            return said
        case Approval():
            return Verdict(said, f"the tool says {said.value}")
        case str() if named := approval_named(said):
            return as_verdict(named)
        case True:
            return Verdict(Approval.ASK, "the tool wants this call approved")
        case False:
            return Verdict(Approval.PRE_APPROVED, "the tool needs no approval for this call")
        case _:
            given = reprlib.repr(said)
            return Verdict(
                Approval.ASK,
                f"the tool's own check returned {given}, which is not an approval, so it asks",
            )


def _join(verdict: Verdict, path: Verdict) -> Verdict:
    """Return the verdict on a path, which is at least as strict, with both reasons if equal."""
    same = path.approval is verdict.approval is not Approval.PRE_APPROVED
    adds_nothing = verdict.parts == path.parts and verdict.basis is path.basis
    # The stricter verdict alone is the answer, unless the other one has something to show.
    if adds_nothing and not same and not verdict.details:
        return path
    reason = f"{verdict.reason}; {path.reason}" if same else path.reason
    details = (*verdict.details, *path.details)
    return replace(
        path,
        reason=reason,
        details=details,
        parts=verdict.parts,
        risk=verdict.risk,
        basis=verdict.basis,
    )


def _rule(approval: Approval | None, where: Mark | None, rule: str) -> Verdict | None:
    return approval and Verdict(
        approval, f"the worker says {approval.value}", rule, where, by="rule"
    )
