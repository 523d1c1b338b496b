"""Policy: what the worker says of one tool, combined with the tool's own word; pure, so it can be read as a table."""

from __future__ import annotations

import inspect
import reprlib
from dataclasses import dataclass
from typing import Any

from forge_cli.core.approval import Approval, Verdict
from forge_cli.core.errors import ToolError
from forge_cli.core.tool import Args, Tool
from forge_cli.core.toolset import ApprovalConfig
from forge_cli.core.wire import error_text

SILENT = Verdict(Approval.ASK, "neither the tool nor the worker says anything, so it asks", by="rule")


@dataclass(frozen=True)
class Policy:
    """The worker's side of the verdict for one tool."""

    named: Verdict | None = None
    default: Verdict | None = None

    @classmethod
    def of(cls, config: ApprovalConfig, tool: str, toolset: str) -> Policy:
        """Read ``approval: {default, tools}`` of a toolset for one of its tools (its name before ``prefix:``)."""
        section = f"toolsets.{toolset}.approval"
        named, default = config.tools.get(tool), config.default
        return cls(
            _rule(named, f"{section}.tools.{tool}", config.where("tools", tool)) if named else None,
            _rule(default, f"{section}.default", config.where("default")) if default else None,
        )

    def combine(self, word: Verdict | None) -> Verdict:
        """A tool that speaks is believed unless the worker names it more strictly; a silent one gets the worker's."""
        if word is None:
            return self.named or self.default or SILENT
        if self.named and self.named.approval.stricter_than(word.approval):
            return self.named
        return word

    def fixed(self, tool: Tool) -> Verdict | None:
        """The verdict on every call of a tool, whatever its arguments; None where they decide."""
        word = tool.needs_approval
        if callable(word) or tool.stands_for:
            return self.named if self.named and self.named.approval is Approval.BLOCKED else None
        return self.combine(None if word is None else as_verdict(word))

    def loosens(self, word: Any) -> bool:
        """Does the worker name a tool more loosely than the tool's own fixed word, which has no effect?"""
        if self.named is None or word is None or callable(word):
            return False
        return as_verdict(word).approval.stricter_than(self.named.approval)

    def idle(self, word: Any) -> bool:
        """Does the worker pre-approve a tool whose word depends on its arguments, which never changes a verdict?"""
        return callable(word) and self.named is not None and self.named.approval is Approval.PRE_APPROVED


def _rule(approval: Approval, rule: str, where: Any) -> Verdict:
    return Verdict(approval, f"the worker says {approval.value}", rule, where, by="rule")


async def word_of(tool: Tool, args: Args) -> Verdict | None:
    """The tool's own word on a call. A ToolError refuses the call; any other failure, or nonsense, means ask."""
    said: Any = tool.needs_approval
    if said is None:
        return None
    if callable(said):
        try:
            said = said(args)
            if inspect.isawaitable(said):
                said = await said
        except ToolError:
            raise
        except (Exception, SystemExit) as error:  # foreign code: whatever goes wrong in it must not open the gate
            return Verdict(Approval.ASK, f"the tool's own check failed ({error_text(error)}), so it asks")
    return as_verdict(said)


def as_verdict(said: Any) -> Verdict:
    match said:
        case Verdict():
            return said
        case Approval():
            return Verdict(said, f"the tool says {said.value}")
        case True:
            return Verdict(Approval.ASK, "the tool wants this call approved")
        case False:
            return Verdict(Approval.PRE_APPROVED, "the tool needs no approval for this call")
        case _:
            given = reprlib.repr(said)
            return Verdict(Approval.ASK, f"the tool's own check gave {given}, which is no approval, so it asks")
