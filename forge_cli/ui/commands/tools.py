"""Commands for tools: those that the person may call, calls of them, and what was allowed for the session."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from forge_cli.core.actions import CommandEvent, ManualToolInvoke
from forge_cli.core.approval import MODE_TITLES
from forge_cli.core.errors import UsageError
from forge_cli.core.text import did_you_mean, visible
from forge_cli.ui.commands.command import Chat, Completion, SlashCommand, beginning
from forge_cli.ui.facts import Facts
from forge_cli.ui.terminal.slash import ParsedCommand, read_typed_args

USAGE = "NAME [--KEY VALUE]... [-i]"


async def show_tools(chat: Chat, parsed: ParsedCommand) -> None:
    if not chat.facts.manual_tools:
        chat.show("this worker has no tools that you may call; those of the model are not listed here")
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, overflow="ellipsis")
    table.add_column(overflow="fold")
    for tool in sorted(chat.facts.manual_tools.values(), key=lambda each: (each.category or "", each.name)):
        table.add_row(Text(f"/{visible(tool.name)}"), Text(visible(tool.summary)))
    chat.show(table)


async def call(chat: Chat, parsed: ParsedCommand) -> None:
    """``/tool NAME ...``: reaches a tool also where a command has its name."""
    if not parsed.argv or parsed.argv[0].startswith("-"):
        raise UsageError(f"usage: /{parsed.name} {USAGE}", hint="/tools lists the tools that you may call")
    await invoke(chat, parsed.argv[0], parsed.argv[1:])


async def invoke(chat: Chat, name: str, argv: Sequence[str]) -> None:
    """Have a tool called, with the args that these tokens describe; ``-i`` asks for those that are not given."""
    tool = chat.facts.manual_tools.get(name)
    if tool is None:
        hint = did_you_mean(name, chat.facts.manual_tools, "/tools lists them")
        raise UsageError(f"there is no tool '{visible(name)}' that you may call", hint=hint)
    args, form = read_typed_args(name, tool.input_schema, argv)
    filled = await chat.fill(name, args) if form else args
    if filled is not None:
        chat.bus.emit(ManualToolInvoke(name, filled))


def complete_tool(facts: Facts, text: str) -> list[str]:
    return beginning([Completion(tool.name, tool.summary) for tool in facts.manual_tools.values()], text)


async def approvals(chat: Chat, parsed: ParsedCommand) -> None:
    match parsed.args:
        case ():
            _show_grants(chat)
        case ("revoke", which):
            chat.bus.emit(CommandEvent("revoke", (which,)))
        case _:
            raise UsageError("usage: /approvals [revoke N|all]", hint="/approvals alone shows the numbers")


def _show_grants(chat: Chat) -> None:
    if not chat.facts.grants:
        chat.show("nothing has been allowed for this session")
        return
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for number, grant in enumerate(chat.facts.grants, 1):
        rules = [Text(visible(rule), "dim") for rule in grant.rules]
        table.add_row(f"{number}.", Group(Text(visible(f"{grant.tool_name}: {grant.text}")), *rules))
    chat.show(Group(table, Text("/approvals revoke N|all takes one back", "dim")))


async def mode(chat: Chat, parsed: ParsedCommand) -> None:
    if parsed.args:
        chat.bus.emit(CommandEvent("mode", parsed.args))
        return
    others = [MODE_TITLES[each] for each in chat.facts.modes if each != chat.facts.mode]
    more = f"; /mode {' or /mode '.join(others)} changes it" if others else ""
    chat.show(f"the mode is {chat.facts.mode_title}{more}")


def complete_mode(facts: Facts, text: str) -> list[str]:
    return beginning([MODE_TITLES[each] for each in facts.modes], text)


def complete_revoke(facts: Facts, text: str) -> list[str]:
    numbers = [Completion(str(number), grant.text) for number, grant in enumerate(facts.grants, 1)]
    return beginning(["revoke", *numbers, "all"], text)


COMMANDS = (
    SlashCommand("tools", "", "list the tools that you may call", show_tools),
    *(
        SlashCommand(
            name,
            USAGE,
            summary,
            call,
            complete_tool,
            free=True,
            details="Its result is shown and recorded; the model does not learn of it. -i asks for each field that is"
            " not given. /NAME does the same where no command has that name.",
        )
        for name, summary in (("tool", "call a tool"), ("t", "the same as /tool"))
    ),
    SlashCommand(
        "approvals",
        "[revoke N|all]",
        "what you have allowed for this session",
        approvals,
        complete_revoke,
        most=2,
        details="What is taken back asks again.",
    ),
    SlashCommand(
        "mode",
        "[ask|accept edits|read only]",
        "ask, accept edits, or only read",
        mode,
        complete_mode,
        most=2,
        details="Shift+Tab goes round them. With 'accept edits' files in writable zones are edited unasked; with 'read"
        " only' the model can only read, to make a plan.",
    ),
)
