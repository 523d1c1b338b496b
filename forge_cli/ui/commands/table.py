"""All slash commands by name, their help, and the execution of a typed line."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Group
from rich.text import Text

from forge_cli.core.actions import CommandEvent
from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.events import Event
from forge_cli.core.text import as_spelled, did_you_mean, visible
from forge_cli.ui.commands import session, talk
from forge_cli.ui.commands.command import (
    TEXTS,
    Chat,
    Completion,
    SlashCommand,
    beginning,
    in_two_columns,
)
from forge_cli.ui.facts import Facts
from forge_cli.ui.terminal.slash import ParsedCommand, parse_command

INPUT = (("@FILE", "attach a file"), ("!COMMAND", "run a shell command"))
"""Input other than slash commands, for ``/help``."""


async def show_help(chat: Chat, parsed: ParsedCommand) -> None:
    """Show all commands, or the details of one."""
    if not parsed.args:
        chat.show(help_table(chat.facts))
        return
    name = parsed.args[0].removeprefix("/")
    command = COMMANDS.get(name)
    if command is None:
        raise unknown_command(name, chat.facts)
    chat.show("\n".join(filter(None, (command.signature, *TEXTS[name][1:]))))


def help_table(facts: Facts) -> Group:
    """Return the table of all commands, prompts and keys, which fits into 40 columns."""
    rows = [(f"/{command.name}", command.summary) for command in COMMANDS.values()]
    for name, prompt in facts.prompts.items():
        rows.append((f"/{name}", str(prompt.get("description") or "a prompt")))
    table = in_two_columns([*rows, *INPUT, *facts.keys], "bold")
    return Group(table, Text("/help COMMAND shows details.", "dim"))


def complete_help(facts: Facts, text: str) -> list[str]:
    """Return completions of command names."""
    known = [Completion(command.name, command.summary) for command in COMMANDS.values()]
    return beginning(known, text)


async def run_line(chat: Chat, text: str) -> Event | None:
    """Run a command line and return its event for the runtime; show its errors."""
    try:
        parsed = parse_command(text)
        if command := COMMANDS.get(parsed.name):
            return await command.run(chat, parsed)
        if parsed.name in chat.facts.manual_tools:
            return await talk.invoke(chat, parsed.name, parsed.argv)
        if parsed.name in chat.facts.prompts:
            return CommandEvent(parsed.name, parsed.argv)
        # Last, because a command or prompt with exactly this name wins over a similar tool.
        if as_spelled(parsed.name, chat.facts.manual_tools) in chat.facts.manual_tools:
            return await talk.invoke(chat, parsed.name, parsed.argv)
        raise unknown_command(parsed.name, chat.facts)
    except ForgeError as error:
        chat.show(str(error))
        return None


def unknown_command(name: str, facts: Facts) -> UsageError:
    """Return the error for an unknown command, which names the nearest one."""
    talk.check_for_people(name, facts)
    known = [f"/{each}" for each in (*COMMANDS, *facts.manual_tools, *facts.prompts)]
    hint = did_you_mean(f"/{name}", known, "/help lists the commands")
    return UsageError(f"unknown command '/{visible(name)}'", hint=hint)


_HELP = SlashCommand("help", show_help, complete_help, most=1)
_BY_NAME = {command.name: command for command in (_HELP, *session.COMMANDS, *talk.COMMANDS)}
COMMANDS: Mapping[str, SlashCommand] = {name: _BY_NAME[name] for name in TEXTS}
"""Commands in the order of ``commands.txt``, which is the order of ``/help``."""
