"""The objects of a stream: requests, questions, usage, tools that people may call, and entries with their places."""

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
    return {
        "type": "question",
        "request": asked.request_id,
        "html": html,
        "options": list(asked.options or ()),
    }


def draw_usage(facts: Facts, calls: int) -> JsonObject:
    """Turns, calls, tokens and cost so far."""
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
    """The tools that a person may call, by category."""
    names = dict.fromkeys(tool.category or "" for tool in tools)
    categories = [
        {
            "name": name,
            "tools": [_draw_tool(tool) for tool in tools if (tool.category or "") == name],
        }
        for name in names
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
    return {
        "name": tool.name,
        "label": tool.label,
        "description": tool.description,
        "fields": fields,
    }


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


_NUMBER = re.compile(r"\d[\d.]*")


@dataclass
class PlacedEntry:
    """An entry with its place on the page."""

    key: str
    entry: TranscriptEntry
    kind: str
    parent: str | None
    seq: int
    """The last line that changed it."""
    grown: bool = False
    """Whether some of its text was shown while it was written."""
    of_command: bool = False
    """Whether it is the output of a command, to which no message led."""
    before: str | None = None
    """The key of the entry that it comes before, where it is not the last one."""
    html: str | None = None
    """None until somebody looks."""

    @property
    def is_open(self) -> bool:
        """Return True for a call without a result."""
        return isinstance(self.entry, Called) and not self.entry.status

    @property
    def level(self) -> str:
        """How loud a note is."""
        return self.entry.level if isinstance(self.entry, Noted) else ""

    @property
    def passes(self) -> bool:
        """Return True for a note that counts only until something follows."""
        return isinstance(self.entry, Noted) and self.entry.about == "retry"

    @property
    def source(self) -> str | None:
        """The Markdown of an answer, to be copied."""
        return self.entry.text if self.kind == "answer" and isinstance(self.entry, Said) else None

    @property
    def is_shown(self) -> bool:
        """An answer without words has nothing to show, and the title stands above the conversation."""
        match self.entry:
            case Said(text=text, files=files):
                return self.grown or bool(text.strip() or files)
            case _:
                return self.kind != "title"


@dataclass
class PendingChanges:
    """Changes that the tabs have not been told yet."""

    entries: dict[str, None] = field(default_factory=dict)
    states: dict[str, None] = field(default_factory=dict)
    grown: bool = False
    """Whether the answer that is being written has more text."""
    void: dict[str, None] = field(default_factory=dict)
    """Answers of which the text so far does not count."""
    outputs: dict[str, str] = field(default_factory=dict)
    others: list[JsonObject] = field(default_factory=list)


def is_again(before: TranscriptEntry, now: Noted) -> bool:
    """Return True if this repeats the warning before it with other numbers, and takes its place."""
    if not isinstance(before, Noted) or not before.level or before.level != now.level:
        return False
    return _NUMBER.sub("", before.text) == _NUMBER.sub("", now.text)
