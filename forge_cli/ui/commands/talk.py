"""Commands for the conversation, the model, tools, grants and the trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast, get_args

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from forge_cli.core.actions import CommandEvent, ManualToolInvoke
from forge_cli.core.approval import MODE_TITLES
from forge_cli.core.errors import UsageError
from forge_cli.core.events import Event
from forge_cli.core.text import as_spelled, counted, did_you_mean, visible
from forge_cli.files.attachment import read_attachment
from forge_cli.files.settings import TraceLevel
from forge_cli.schema.tool import is_manual_tool
from forge_cli.ui.commands.command import (
    TEXTS,
    Chat,
    Completion,
    SlashCommand,
    beginning,
    forward,
    in_two_columns,
)
from forge_cli.ui.facts import Facts, ManualTool
from forge_cli.ui.places import complete_folder, complete_path, typed_path
from forge_cli.ui.terminal.slash import TOOL_COMMANDS, ParsedCommand, read_typed_args

LEVELS: tuple[str, ...] = get_args(TraceLevel)
OTHERS = "Others"
"""The heading of tools without a category, if other tools have one."""
_BOXES = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


async def leave(chat: Chat, parsed: ParsedCommand) -> None:
    """End the conversation."""
    chat.leave()


async def show_plan(chat: Chat, parsed: ParsedCommand) -> None:
    """Show the plan of the worker."""
    steps = []
    for step in chat.facts.plan:
        box = _BOXES.get(str(step.get("status")), "[?]")
        steps.append(visible(f"{box} {step.get('step')}"))
    chat.show(Text("\n".join(steps)) if steps else "there is no plan")


async def trace(chat: Chat, parsed: ParsedCommand) -> None:
    """Show or change the trace level."""
    levels = f"levels: {', '.join(LEVELS)}"
    if not parsed.args:
        chat.show(f"the trace level is {chat.trace}; {levels}")
        return
    (level,) = parsed.args
    if level not in LEVELS:
        raise UsageError(f"unknown trace level '{visible(level)}'", hint=levels)
    chat.set_trace(cast(TraceLevel, level))
    chat.show(f"the trace level is {level}")


async def show_result(chat: Chat, parsed: ParsedCommand) -> None:
    """Show a result whole, or list the results."""
    match parsed.args:
        case ():
            chat.unfold(None)
        case (number,) if number.isascii() and number.isdecimal():
            chat.unfold(int(number))
        case _:
            raise UsageError("usage: /show [N]", hint="/show alone lists the numbers")


async def model(chat: Chat, parsed: ParsedCommand) -> Event | None:
    """Show or change the model."""
    if parsed.args:
        return CommandEvent("model", parsed.args)
    chat.show(f"the model is {visible(chat.facts.model)}; /model NAME changes it")
    return None


async def attach(chat: Chat, parsed: ParsedCommand) -> None:
    """Attach a file to the next message."""
    attachment = read_attachment(typed_path(chat.facts, parsed.args[0]), option="")
    chat.attach(attachment)
    size = counted(len(attachment.data), "byte")
    about = f"{visible(attachment.name)} ({attachment.media_type}, {size})"
    chat.show(f"{about} is attached to your next message")


async def show_tools(chat: Chat, parsed: ParsedCommand) -> None:
    """List the tools for people by category."""
    groups: dict[str | None, list[ManualTool]] = {}
    for tool in sorted(chat.facts.manual_tools.values(), key=lambda each: each.name):
        groups.setdefault(tool.category, []).append(tool)
    if not groups:
        chat.show("this worker has no tools for people; tools for the model are not listed here")
        return
    shown: list[RenderableType] = []
    # Tools without a category last.
    for category in sorted(groups, key=lambda each: (each is None, each or "")):
        if len(groups) > 1 or category:
            shown.append(Text(visible(category or OTHERS), "bold"))
        rows = [(f"/{tool.name}", _describe(tool)) for tool in groups[category]]
        shown.append(in_two_columns(rows))
    chat.show(Group(*shown))


def _describe(tool: ManualTool) -> str:
    """Return the summary of a tool, after its label unless that repeats the name."""
    made = tool.name.replace("_", " ").replace("-", " ").casefold()
    if not tool.label or tool.label.casefold() == made:
        return tool.summary
    if tool.summary:
        return f"{tool.label}: {tool.summary}"
    return tool.label


async def call(chat: Chat, parsed: ParsedCommand) -> Event | None:
    """Call a tool by ``/tool NAME``, also if a command has its name."""
    if not parsed.argv or parsed.argv[0].startswith("-"):
        usage = f"usage: /{parsed.name} {TEXTS[parsed.name][0]}"
        raise UsageError(usage, hint="/tools lists the tools that you can call")
    return await invoke(chat, parsed.argv[0], parsed.argv[1:])


async def invoke(chat: Chat, name: str, argv: Sequence[str]) -> Event | None:
    """Return the event that calls a tool with typed arguments; ``-i`` asks for missing ones."""
    name = as_spelled(name, chat.facts.manual_tools)
    tool = chat.facts.manual_tools.get(name)
    if tool is None:
        check_for_people(name, chat.facts)
        hint = did_you_mean(name, chat.facts.manual_tools, "/tools lists the tools")
        raise UsageError(f"unknown tool '{visible(name)}'", hint=hint)
    args, form = read_typed_args(name, tool.input_schema, argv)
    filled = await chat.fill(name, args) if form else args
    if filled is None:
        return None
    return ManualToolInvoke(name, filled)


def check_for_people(name: str, facts: Facts) -> None:
    """Raise UsageError if the tool is for the model only."""
    if any(tool.name == name and not is_manual_tool(tool) for tool in facts.tools()):
        hint = "/tools lists the tools that you can call"
        raise UsageError(f"only the model can call {visible(name)}", hint=hint)


def complete_tool(facts: Facts, text: str) -> list[str]:
    """Return completions of the tools for people."""
    known = [Completion(tool.name, tool.summary) for tool in facts.manual_tools.values()]
    return beginning(known, text)


async def approvals(chat: Chat, parsed: ParsedCommand) -> Event | None:
    """List the grants of the session, or revoke them."""
    match parsed.args:
        case ():
            _show_grants(chat)
            return None
        case ("revoke", which):
            return CommandEvent("revoke", (which,))
    raise UsageError("usage: /approvals [revoke N|all]", hint="/approvals alone shows the numbers")


def _show_grants(chat: Chat) -> None:
    if not chat.facts.grants:
        chat.show("nothing is granted for this session")
        return
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for number, grant in enumerate(chat.facts.grants, 1):
        title = Text(visible(f"{grant.tool_name}: {grant.text}"))
        rules = [Text(visible(rule), "dim") for rule in grant.rules]
        table.add_row(f"{number}.", Group(title, *rules))
    chat.show(Group(table, Text("to revoke: /approvals revoke N|all", "dim")))


async def mode(chat: Chat, parsed: ParsedCommand) -> Event | None:
    """Show or change the mode."""
    if parsed.args:
        return CommandEvent("mode", parsed.args)
    others = [MODE_TITLES[each] for each in chat.facts.modes if each != chat.facts.mode]
    more = ""
    if others:
        more = f"; /mode {' or /mode '.join(others)} changes it"
    chat.show(f"the mode is {chat.facts.mode_title}{more}")
    return None


def complete_revoke(facts: Facts, text: str) -> list[str]:
    """Return completions of the arguments of ``/approvals``."""
    numbers = [Completion(str(number), grant.text) for number, grant in enumerate(facts.grants, 1)]
    return beginning(["revoke", *numbers, "all"], text)


COMMANDS = (
    SlashCommand("clear", forward("clear")),
    SlashCommand("compact", forward("compact")),
    SlashCommand("show", show_result, most=1),
    SlashCommand("plan", show_plan),
    SlashCommand("trace", trace, lambda facts, text: beginning(LEVELS, text), most=1),
    SlashCommand("exit", leave),
    SlashCommand("model", model, lambda facts, text: beginning(facts.models(), text), most=1),
    SlashCommand(
        "mcp",
        forward("mcp"),
        lambda facts, text: beginning(("off", "on", "reconnect"), text),
        most=2,
    ),
    SlashCommand("add-dir", forward("add-dir"), complete_folder, least=1, most=1),
    SlashCommand("attach", attach, complete_path, least=1, most=1),
    SlashCommand("tools", show_tools),
    *(SlashCommand(name, call, complete_tool, free=True) for name in TOOL_COMMANDS),
    SlashCommand("approvals", approvals, complete_revoke, most=2),
    SlashCommand(
        "mode",
        mode,
        lambda facts, text: beginning(map(MODE_TITLES.__getitem__, facts.modes), text),
        most=2,
    ),
)
