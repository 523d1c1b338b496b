"""Going back to a message of the person: where each was said."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from forge_cli.core.events import MessageEvent, TurnStart
from forge_cli.record.line import Line


@dataclass(frozen=True)
class SaidMessage:
    """A message of the person, and the number of the line with which it begins."""

    seq: int
    text: str


def said_messages(lines: Iterable[Line]) -> list[SaidMessage]:
    """Every message that gave the worker something to do."""
    found: list[SaidMessage] = []
    said: SaidMessage | None = None
    for line in lines:
        match line.event if line.delegation is None else None:
            case MessageEvent(message=message, summary_of=None) if message.role == "user":
                said = SaidMessage(said.seq if said else line.seq, message.text)
            case TurnStart(turn=turn):
                found += [said] if said and turn == 1 else []
                said = None
            case _:
                pass
    return found
