"""An approval request for tests that need any."""

from typing import Any

from forge_cli.core.approval import ApprovalRequest


def new_request(**changes: Any) -> ApprovalRequest:
    fields: dict[str, Any] = {
        "request_id": "r1",
        "tool_call_id": "c1",
        "tool_name": "push",
        "args": {},
        "description": "w wants to call push",
        "reason": "it asks",
        "risk": "high",
        "rule": None,
        "where": None,
    }
    return ApprovalRequest(**{**fields, **changes})
