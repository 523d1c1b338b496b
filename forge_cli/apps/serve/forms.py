"""Questions as MCP forms (elicitation), and their answers."""

from __future__ import annotations

import mcp_types
from msgspec.structs import replace

from forge_cli.apps.serve.calls import CallForm, CallQuestion
from forge_cli.core.approval import ApprovalDecision, ApprovalRequest
from forge_cli.core.text import cut, visible
from forge_cli.sandbox.secrets import Redactor
from forge_cli.ui.terminal.prompts import describe_in_text
from forge_cli.ui.views import FindRenderer

APPROVE = "approve"
FORM = {
    "type": "object",
    "properties": {
        APPROVE: {
            "type": "boolean",
            "title": "Approve this call",
            "description": "Yes runs it once.",
            "default": False,
        }
    },
    "required": [APPROVE],
}
QUESTION_MAX = 20_000
"""Characters of a question; a longer one ends with a note about the rest."""


def form_of(
    question: CallQuestion | CallForm, redactor: Redactor, find: FindRenderer
) -> mcp_types.ElicitRequestFormParams:
    """Return the form for a question of the gate or of a tool."""
    if isinstance(question, CallQuestion):
        return question_form(question.request, redactor, find)
    said = redactor.redact_text(visible(f"{question.asker} asks: {question.question}"))
    return mcp_types.ElicitRequestFormParams(
        message=cut(said, QUESTION_MAX), requested_schema=question.schema
    )


def settle(question: CallQuestion | CallForm, answer: mcp_types.ElicitResult | None) -> None:
    """Answer a question with what the client's user filled in."""
    if isinstance(question, CallQuestion):
        question.answer(decision_of(answer))
        return
    if answer is not None and answer.action == "accept":
        question.answer(dict(answer.content or {}))
    else:
        question.answer(None)


def question_form(
    request: ApprovalRequest, redactor: Redactor, find: FindRenderer
) -> mcp_types.ElicitRequestFormParams:
    """Return a form with the call, its effect, the reason, and one checkbox."""
    text = redactor.redact_text(describe_in_text(replace(request, offers=()), find))
    return mcp_types.ElicitRequestFormParams(message=cut(text, QUESTION_MAX), requested_schema=FORM)


def decision_of(answer: mcp_types.ElicitResult | None) -> ApprovalDecision:
    """Return the decision of a client's user; only a clear yes approves."""
    if answer is None or answer.action == "cancel":
        return ApprovalDecision(False, note="the question was dismissed")
    approved = answer.action == "accept" and (answer.content or {}).get(APPROVE) is True
    return ApprovalDecision(approved)
