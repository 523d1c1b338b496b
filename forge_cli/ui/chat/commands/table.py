"""Every slash command by its name: how it is used, what it does, and how its arguments are completed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from forge_cli.core.events import CommandEvent
from forge_cli.ui.chat.facts import Facts
from forge_cli.ui.chat.port import Chat
from forge_cli.ui.terminal.slash import ParsedCommand


def _nothing(facts: Facts, text: str) -> Sequence[str]:
    return ()


@dataclass(frozen=True)
class SlashCommand:
    """``/name usage``, with one line that says what it does."""

    name: str
    usage: str
    summary: str
    run: Callable[[Chat, ParsedCommand], Awaitable[None]]
    complete: Callable[[Facts, str], Sequence[str]] = _nothing
    """What the argument that begins so could become."""


async def leave(chat: Chat, parsed: ParsedCommand) -> None:
    chat.bus.emit(CommandEvent("exit"))
    chat.leave()


async def clear(chat: Chat, parsed: ParsedCommand) -> None:
    chat.bus.emit(CommandEvent("clear"))


COMMANDS: Mapping[str, SlashCommand] = {
    command.name: command
    for command in (
        SlashCommand("clear", "", "forget what was said so far", clear),
        SlashCommand("exit", "", "leave", leave),
    )
}
