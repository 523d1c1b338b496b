"""The objects of a stream that are not entries: requests, questions, usage, and the tools that people may call."""

from __future__ import annotations

from collections.abc import Sequence

from forge_cli.core.actions import ApprovalResponse
from forge_cli.core.approval import ApprovalRequest
from forge_cli.core.event_kinds import AnyEvent
from forge_cli.core.events import ApprovalDecided, InputPrompt, ToolResult
from forge_cli.core.text import visible
from forge_cli.core.trial import CommandTried
from forge_cli.core.wire import JsonObject
from forge_cli.ui.facts import Facts, ManualTool
from forge_cli.ui.html.code import element, many_lines
from forge_cli.ui.html.requests import draw_request, list_choices
from forge_cli.ui.views import FindRenderer


def draw_request_object(
    request: ApprovalRequest,
    path: Sequence[str],
    find: FindRenderer,
    *,
    tried: CommandTried | None = None,
    entry: str | None = None,
) -> JsonObject:
    """A request that waits; ``path`` are the workers from the root down to the one that asks."""
    return {
        "type": "request",
        "request": request.request_id,
        "tool": request.tool_name,
        "title": visible(request.description),
        "path": list(path),
        "entry": entry,
        "html": draw_request(request, find, tried),
        "risk": request.risk,
        "choices": list_choices(request),
    }


def draw_question(asked: InputPrompt) -> JsonObject:
    """A line of text that somebody asks for, or one of a few."""
    html = element("p", many_lines(asked.prompt, exact=True), "asks")
    return {"type": "question", "request": asked.request_id, "html": html, "options": list(asked.options or ())}


def draw_usage(facts: Facts, calls: int) -> JsonObject:
    """Turns, calls, tokens and cost so far."""
    usage = facts.usage
    return {
        "type": "usage",
        "turns": facts.turns,
        "calls": calls,
        "input": usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens,
        "cached": usage.cache_read_tokens,
        "output": usage.output_tokens,
        "cost": facts.cost,
        "used": facts.used,
        "window": facts.window,
    }


def draw_tools(tools: Sequence[ManualTool]) -> JsonObject:
    """The tools that a person may call, by category."""
    names = dict.fromkeys(tool.category or "" for tool in tools)
    categories = [
        {"name": name, "tools": [_draw_tool(tool) for tool in tools if (tool.category or "") == name]} for name in names
    ]
    return {"type": "tools", "categories": categories}


def _draw_tool(tool: ManualTool) -> JsonObject:
    fields = [
        {
            "name": each.get("name"),
            "label": each.get("name"),
            "type": each.get("type"),
            "required": bool(each.get("required")),
            "default": each.get("default"),
            "has_default": bool(each.get("hasDefault")),
            "description": each.get("description") or "",
            "choices": list(each.get("options") or ()),
        }
        for each in tool.fields
    ]
    return {"name": tool.name, "label": tool.label, "description": tool.description, "fields": fields}


def settled_by(event: AnyEvent) -> tuple[str, str]:
    """How a request ended, and by whom."""
    match event:
        case ApprovalResponse(decision=decision):
            return "yes" if decision.approved else "no", decision.via or "user"
        case ApprovalDecided(approved=approved, by=by):
            return "yes" if approved else "no", by
        case ToolResult(status=status):
            return status, "tool"
        case _:
            return "ended", "session"
