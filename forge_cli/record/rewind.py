"""Going back to a message of the person: where each was said, and which calls came since."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace

from forge_cli.core.calls import ToolCall
from forge_cli.core.events import ContextUsage, MessageEvent, TurnStart
from forge_cli.core.results import Custom
from forge_cli.record.line import Line
from forge_cli.record.state import CallState, fold

_OF_COMMANDS = frozenset({"shell.result", "shell.session", "executable.run"})
"""Kinds of results."""


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


@dataclass(frozen=True)
class CallsSince:
    """The calls that were taken up from a line on, child workers and calls of tools included."""

    ids: frozenset[str]
    unknown: tuple[ToolCall, ...]
    """Those that somebody allowed, and that were not tried first: they may have done more than change files."""


def calls_since(lines: Iterable[Line], seq: int) -> CallsSince:
    calls = [each for each in fold(lines).calls if each.started and each.started.seq >= seq]
    unknown = tuple(replace(each.call, parent=None) for each in calls if _is_unknown(each))
    return CallsSince(frozenset(each.call.id for each in calls), unknown)


def commands_for_real(lines: Iterable[Line], calls: Container[str | None] | None) -> int:
    """How many of these calls, or of all, were commands that may have done more than change files."""
    found = (each for each in fold(lines).calls if calls is None or each.call.id in calls)
    return sum(_is_unknown(each) and _is_command(each) for each in found)


def _is_command(state: CallState) -> bool:
    value = state.result.value if state.result else None
    return isinstance(value, Custom) and value.kind in _OF_COMMANDS


def _is_unknown(state: CallState) -> bool:
    was_tried = state.tried is not None and state.tried.outcome != "incomplete"
    return state.decided is not None and state.decided.event.approved and not was_tried
