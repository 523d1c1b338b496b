"""The objects of an event stream: requests, questions, usage, tools and placed entries."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from forge_cli.core.actions import ApprovalResponse
from forge_cli.core.approval import ApprovalRequest
from forge_cli.core.event_kinds import AnyEvent
from forge_cli.core.events import ApprovalDecided, InputPrompt, ToolResult
from forge_cli.core.text import visible
from forge_cli.core.trial import CommandTried
from forge_cli.core.wire import JsonObject
from forge_cli.ui.facts import Facts, ManualTool
from forge_cli.ui.html.markdown import element, many_lines
from forge_cli.ui.html.requests import draw_request, list_choices
from forge_cli.ui.transcript.entries import Called, Noted, Said, TranscriptEntry
from forge_cli.ui.views import FindRenderer


def draw_request_object(
    request: ApprovalRequest,
    path: Sequence[str],
    find: FindRenderer,
    *,
    tried: CommandTried | None = None,
    entry: str | None = None,
) -> JsonObject:
    """Return an open request; ``path`` has the workers from the root to the asking worker."""
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
    """Return a question for a line of text, possibly with options."""
    html = element("p", many_lines(asked.prompt, exact=True), "asks")
    return {
        "type": "question",
        "request": asked.request_id,
        "html": html,
        "options": list(asked.options or ()),
    }


def draw_usage(facts: Facts, calls: int) -> JsonObject:
    """Return turns, calls, tokens and cost so far."""
    usage = facts.usage
    return {
        "type": "usage",
        "turns": facts.turns,
        "calls": calls,
        "input": usage.sent_tokens,
        "cached": usage.cache_read_tokens,
        "output": usage.output_tokens,
        "cost": facts.cost,
        "used": facts.used,
        "window": facts.window,
    }


def draw_tools(tools: Sequence[ManualTool]) -> JsonObject:
    """Return the tools for people by category."""
    groups: dict[str, list[JsonObject]] = {}
    for tool in tools:
        groups.setdefault(tool.category or "", []).append(_draw_tool(tool))
    categories = [{"name": name, "tools": drawn} for name, drawn in groups.items()]
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
    return {
        "name": tool.name,
        "label": tool.label,
        "description": tool.description,
        "fields": fields,
    }


def settled_by(event: AnyEvent) -> tuple[str, str]:
    """Return how a request ended, and who ended it."""
    match event:
        case ApprovalResponse(decision=decision):
            return "yes" if decision.approved else "no", decision.via or "user"
        case ApprovalDecided(approved=approved, by=by):
            return "yes" if approved else "no", by
        case ToolResult(status=status):
            return status, "tool"
        case _:
            return "ended", "session"


_NUMBER = re.compile(r"\d[\d.]*")


@dataclass
class PlacedEntry:
    """An entry with its place on the page."""

    key: str
    entry: TranscriptEntry
    kind: str
    parent: str | None
    seq: int
    """The last line that changed the entry."""
    grown: bool = False
    """Whether its text was streamed."""
    of_command: bool = False
    """Whether it is the output of a command, not of a message."""
    before: str | None = None
    """The key of the entry after it; None for the last one."""
    html: str | None = None
    """The drawn entry; None until a tab needs it."""

    @property
    def is_open(self) -> bool:
        """Return True for a call without a result."""
        return isinstance(self.entry, Called) and not self.entry.status

    @property
    def level(self) -> str:
        """The level of a note; empty for other entries."""
        if isinstance(self.entry, Noted):
            return self.entry.level
        return ""

    @property
    def passes(self) -> bool:
        """Return True for a note that is hidden once another entry follows."""
        return isinstance(self.entry, Noted) and self.entry.about == "retry"

    @property
    def source(self) -> str | None:
        """The Markdown of an answer, for copying."""
        if self.kind == "answer" and isinstance(self.entry, Said):
            return self.entry.text
        return None

    @property
    def is_shown(self) -> bool:
        """Return False for empty answers, and for titles, which the page shows elsewhere."""
        match self.entry:
            case Said(text=text, files=files):
                return self.grown or bool(text.strip() or files)
            case _:
                return self.kind != "title"


@dataclass
class PendingChanges:
    """Changes that were not sent to the tabs yet."""

    entries: dict[str, None] = field(default_factory=dict)
    states: dict[str, None] = field(default_factory=dict)
    grown: bool = False
    """Whether the answer being written has grown."""
    void: dict[str, None] = field(default_factory=dict)
    """Answers whose streamed text was dropped."""
    outputs: dict[str, str] = field(default_factory=dict)
    others: list[JsonObject] = field(default_factory=list)


def is_again(before: TranscriptEntry, now: Noted) -> bool:
    """Return True if a warning repeats the one before with other numbers, and replaces it."""
    if not isinstance(before, Noted) or not before.level or before.level != now.level:
        return False
    return _NUMBER.sub("", before.text) == _NUMBER.sub("", now.text)
