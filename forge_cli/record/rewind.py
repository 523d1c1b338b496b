"""Going back to a message of the person: where each was said, and which calls came since."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from forge_cli.core.calls import ToolCall
from forge_cli.core.events import ApprovalDecided, CommandTried, ContextUsage, MessageEvent, ToolStarted, TurnStart
from forge_cli.record.line import Line


@dataclass(frozen=True)
class SaidMessage:
    """A message of the person, and the number of the line with which it begins."""

    seq: int
    text: str


def said_messages(lines: Iterable[Line]) -> list[SaidMessage]:
    """Every message that gave the worker something to do, but for those that were taken back."""
    found: list[SaidMessage] = []
    said: SaidMessage | None = None
    for line in lines:
        match line.event if line.delegation is None else None:
            case MessageEvent(message=message, summary_of=None) if message.role == "user":
                said = SaidMessage(said.seq if said else line.seq, message.text)
            case TurnStart(turn=turn):
                found += [said] if said and turn == 1 else []
                said = None
            case ContextUsage(rewound=int() as seq):
                found = [each for each in found if each.seq < seq]
    return found


@dataclass
class CallsSince:
    """The calls that were taken up from a line on, child workers and calls of tools included."""

    ids: set[str]
    unknown: list[ToolCall]
    """Those that somebody allowed, and that were not tried first: they may have done more than change files."""


def calls_since(lines: Iterable[Line], seq: int) -> CallsSince:
    started: dict[tuple[str | None, str], ToolCall] = {}
    allowed: dict[tuple[str | None, str], ToolCall] = {}
    tried: set[tuple[str | None, str]] = set()
    for line in lines:
        if line.seq < seq:
            continue
        match line.event:
            case ToolStarted(tool_call_id=id, tool_name=name, args=args):
                started[line.delegation, id] = ToolCall(id, name, dict(args))
            case CommandTried(tool_call_id=id, outcome="noEffect" | "effects"):
                tried.add((line.delegation, id))
            case ApprovalDecided(tool_call_id=id, approved=True) if (line.delegation, id) in started:
                allowed[line.delegation, id] = started[line.delegation, id]
            case _:
                pass
    return CallsSince({id for _, id in started}, [call for key, call in allowed.items() if key not in tried])
