"""Commands for the conversation itself, and for what a worker has around it: its model, its folders, files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast, get_args

from rich.text import Text

from forge_cli.core.actions import CommandEvent
from forge_cli.core.errors import UsageError
from forge_cli.core.text import counted, visible
from forge_cli.files.attachment import read_attachment
from forge_cli.files.settings import TraceLevel
from forge_cli.ui.commands.command import Chat, SlashCommand, beginning, forward
from forge_cli.ui.facts import Facts
from forge_cli.ui.places import complete_folder, complete_path, typed_path
from forge_cli.ui.terminal.slash import ParsedCommand

LEVELS: tuple[str, ...] = get_args(TraceLevel)
_BOXES = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


async def leave(chat: Chat, parsed: ParsedCommand) -> None:
    chat.bus.emit(CommandEvent("exit"))
    chat.leave()


async def show_plan(chat: Chat, parsed: ParsedCommand) -> None:
    steps = [f"{_BOXES.get(str(step.get('status')), '[?]')} {step.get('step')}" for step in chat.facts.plan]
    chat.show(Text("\n".join(map(visible, steps))) if steps else "there is no plan")


async def trace(chat: Chat, parsed: ParsedCommand) -> None:
    if not parsed.args:
        chat.show(f"the trace level is {chat.trace}: one of {', '.join(LEVELS)}")
        return
    (level,) = parsed.args
    if level not in LEVELS:
        raise UsageError(f"'{visible(level)}' is not a trace level", hint=f"one of {', '.join(LEVELS)}")
    chat.set_trace(cast(TraceLevel, level))
    chat.show(f"the trace level is {level}")


async def show_result(chat: Chat, parsed: ParsedCommand) -> None:
    match parsed.args:
        case ():
            chat.unfold(None)
        case (number,) if number.isascii() and number.isdecimal():
            chat.unfold(int(number))
        case _:
            raise UsageError("usage: /show [N]", hint="/show alone lists the numbers")


def complete_level(facts: Facts, text: str) -> Sequence[str]:
    return beginning(LEVELS, text)


COMMANDS = (
    SlashCommand(
        "clear",
        "",
        "forget what was said so far",
        forward("clear"),
        details="The model starts over; the record keeps everything.",
    ),
    SlashCommand(
        "compact",
        "",
        "replace what was said by a summary",
        forward("compact"),
        details="The model writes the summary, in a turn of its own; the last answer stays as it is.",
    ),
    SlashCommand(
        "show",
        "[N]",
        "show a long result whole",
        show_result,
        most=1,
        details="N is the number that stands below it; without N the results are listed. Ctrl+O shows the last one.",
    ),
    SlashCommand("plan", "", "show the plan of the worker", show_plan),
    SlashCommand(
        "trace",
        "[LEVEL]",
        "show more or less of what happens",
        trace,
        complete_level,
        most=1,
        details=f"LEVEL is one of {', '.join(LEVELS)}.",
    ),
    SlashCommand("exit", "", "leave; the session is kept", leave),
)


async def model(chat: Chat, parsed: ParsedCommand) -> None:
    if parsed.args:
        chat.bus.emit(CommandEvent("model", parsed.args))
    else:
        chat.show(f"the model is {visible(chat.facts.model)}; /model NAME changes it")


async def attach(chat: Chat, parsed: ParsedCommand) -> None:
    try:
        attachment = read_attachment(typed_path(chat.facts, parsed.args[0]))
    except UsageError as error:
        raise UsageError(error.message.removeprefix("--attach ")) from None
    chat.attach(attachment)
    size = counted(len(attachment.data), "byte")
    chat.show(f"{visible(attachment.name)} ({attachment.media_type}, {size}) goes with your next message")


def model_names(facts: Facts, text: str) -> Sequence[str]:
    return beginning(facts.models(), text)


def complete_mcp(facts: Facts, text: str) -> Sequence[str]:
    return beginning(("off", "on", "reconnect"), text)


SURROUNDINGS = (
    SlashCommand(
        "model",
        "[NAME]",
        "show or change the model",
        model,
        model_names,
        most=1,
        details="NAME is one of `forge models list`, or an alias. It counts from the next turn on, and is kept when the"
        " session is resumed.",
    ),
    SlashCommand(
        "mcp",
        "[off|on|reconnect NAME]",
        "list MCP servers, turn them off and on",
        forward("mcp"),
        complete_mcp,
        most=2,
        details="One that is off has no tools, from the next turn on, until it is on again or the conversation ends."
        " reconnect restarts a server; one that crashed is started again by itself.",
    ),
    SlashCommand(
        "add-dir",
        "DIR[:ro]",
        "let the worker use a folder",
        forward("add-dir"),
        complete_folder,
        least=1,
        most=1,
        details="The folder is a zone of its own name until the conversation ends; writing there asks, and with :ro it"
        " is only read.",
    ),
    SlashCommand(
        "attach",
        "FILE",
        "send a file with the next message",
        attach,
        complete_path,
        least=1,
        most=1,
        details="Text, images and PDF.",
    ),
)
