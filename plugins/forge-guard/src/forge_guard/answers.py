"""Answers in the format of each tool: allow, ask and deny, as far as the tool supports them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

Decision = Literal["allow", "ask", "deny"]
ASKING = frozenset({"claude"})
"""Tools that ask the person when a hook answers ``ask``.

Gemini CLI 0.61 accepts ``ask``, too, although its documentation does not mention it. But it reads
files anyway, and without a terminal it waits forever.
"""


REWRITING = frozenset({"claude"})
"""Tools whose hooks can change the input of a call."""


@dataclass(frozen=True)
class Answer:
    """The answer of a hook: standard output, standard error and exit code."""

    out: str = ""
    err: str = ""
    code: int = 0

    @classmethod
    def json(cls, said: dict[str, Any]) -> Answer:
        return cls(f"{json.dumps(said)}\n")


SILENCE = Answer()
"""An empty answer, which leaves the call to the tool's own rules."""


def say(
    tool: str,
    event: str,
    decision: Decision | None,
    reason: str,
    given: dict[str, Any] | None = None,
) -> Answer:
    """Return a decision in the format of a tool; None leaves the call to the tool's own rules.

    ``given`` replaces the input of the call, if the tool is one of ``REWRITING``.
    """
    if decision is None or event == "PostToolUse":
        return SILENCE
    if decision == "ask" and tool not in ASKING:
        decision = "deny"
        reason = f"{reason}; {tool} cannot ask about it, so a person has to do or to allow it"
    match tool:
        case "claude":
            return _decided(event, decision, reason, given)
        case "codex" if event == "PermissionRequest":
            behavior: dict[str, str] = {"behavior": decision}
            if decision == "deny":
                behavior["message"] = reason
            return Answer.json(
                {"hookSpecificOutput": {"hookEventName": event, "decision": behavior}}
            )
        case "codex":  # it has no word for yes here
            return SILENCE if decision == "allow" else _decided(event, decision, reason)
        case "gemini":
            return Answer.json({"decision": decision, "reason": reason})
        case _:
            return SILENCE if decision == "allow" else Answer(err=f"{reason}\n", code=2)


def _decided(
    event: str, decision: Decision, reason: str, given: dict[str, Any] | None = None
) -> Answer:
    said: dict[str, Any] = {
        "hookEventName": event,
        "permissionDecision": decision,
        "permissionDecisionReason": reason,
    }
    if given is not None:
        said["updatedInput"] = given
    return Answer.json({"hookSpecificOutput": said})
