"""The definition of a slash command, and the interface of a conversation for commands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from forge_cli.core.actions import CommandEvent
from forge_cli.core.errors import UsageError
from forge_cli.core.events import Event
from forge_cli.core.messages import Attachment
from forge_cli.core.text import did_you_mean, visible
from forge_cli.files.settings import TraceLevel
from forge_cli.ui.facts import Facts
from forge_cli.ui.terminal.slash import CommandError, ParsedCommand, parse_arguments


class Chat(Protocol):
    """The interface of a conversation for commands, which return an event for the worker."""

    @property
    def facts(self) -> Facts:
        """The state of the conversation."""
        ...

    def show(self, shown: RenderableType) -> None:
        """Print above the input line; plain strings are shown without markup."""
        ...

    def unfold(self, number: int | None) -> None:
        """Show a result whole; without a number, list the results that can be shown."""
        ...

    async def ask(self, prompt: str, instead: str) -> str | None:
        """Ask for a line; if this UI cannot ask, show ``instead``, which names another way."""
        ...

    async def fill(self, tool: str, given: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Ask for the missing arguments of a tool in a form; None if the person leaves it."""
        ...

    @property
    def trace(self) -> TraceLevel:
        """The trace level."""
        ...

    def set_trace(self, level: TraceLevel) -> None:
        """Change the trace level."""
        ...

    def attach(self, attachment: Attachment) -> None:
        """Attach a file to the next message."""
        ...

    def leave(self) -> None:
        """End the conversation once the command is done."""
        ...


class Completion(str):
    """A completion of an argument, with a note for people."""

    note: str

    def __new__(cls, text: str, note: str = "") -> Completion:
        made = super().__new__(cls, text)
        made.note = note
        return made


def _read_texts() -> dict[str, tuple[str, str, str]]:
    """Read the usage, the summary and the details of each command from ``commands.txt``."""
    found: dict[str, tuple[str, str, str]] = {}
    name = ""
    for line in Path(__file__).with_name("commands.txt").read_text("utf-8").splitlines():
        if line.startswith(" "):
            usage, summary, details = found[name]
            found[name] = usage, summary, f"{details} {line.strip()}".lstrip()
        elif line and not line.startswith("#"):
            signature, _, summary = line.partition(": ")
            name, _, usage = signature.partition(" ")
            found[name] = usage, summary, ""
    return found


TEXTS = _read_texts()
"""Usage, summary and details by the name of the command."""


Act = Callable[[Chat, ParsedCommand], Awaitable[Event | None]]
"""Runs a command and returns an event for the runtime, if it needs one."""


def no_completions(facts: Facts, text: str) -> Sequence[str]:
    """Return no completions."""
    return ()


class SlashCommand(Struct, frozen=True):
    """A slash command; ``commands.txt`` has its usage and its help."""

    name: str
    act: Act
    complete: Callable[[Facts, str], Sequence[str]] = no_completions
    """Returns the completions of an argument."""
    most: int = 0
    """The maximum number of plain arguments."""
    least: int = 0
    """The minimum number of plain arguments."""
    options: frozenset[str] = frozenset()
    """Options with a value."""
    flags: frozenset[str] = frozenset()
    """Options without a value."""
    free: bool = False
    """Whether the command parses its arguments itself."""

    async def run(self, chat: Chat, parsed: ParsedCommand) -> Event | None:
        """Run the command and return its event for the runtime."""
        if not self.free:
            args, options = parse_arguments(parsed.argv, self.flags)
            parsed = replace(parsed, args=tuple(args), options=options)
            self.check(parsed)
        return await self.act(chat, parsed)

    def check(self, parsed: ParsedCommand) -> None:
        """Raise UsageError for an unknown option or a wrong number of arguments."""
        known = self.options | self.flags
        for option in parsed.options:
            if option not in known:
                names = [f"--{each}" for each in known]
                hint = did_you_mean(f"--{option}", names, f"usage: {self.signature}")
                sentence = f"/{self.name} has no option '{option}'"
                raise CommandError(sentence, parsed.columns.get(option, 0), hint=hint)
        # A flag with a value, or an option without one, makes these differ.
        valued = {option for option, value in parsed.options.items() if isinstance(value, str)}
        wants_values = parsed.options.keys() & self.options
        if valued != wants_values or not self.least <= len(parsed.args) <= self.most:
            raise UsageError(f"usage: {self.signature}", hint=self.summary)

    @property
    def signature(self) -> str:
        """The command with its arguments."""
        return f"/{self.name} {TEXTS[self.name][0]}".rstrip()

    @property
    def summary(self) -> str:
        """The effect of the command in a few words."""
        return TEXTS[self.name][1]


def forward(name: str) -> Act:
    """Return the action of a command that the runtime handles."""

    async def act(chat: Chat, parsed: ParsedCommand) -> Event:
        return CommandEvent(name, parsed.args)

    return act


def beginning(known: Iterable[str], text: str) -> list[str]:
    """Return the known words that begin with ``text``."""
    return [each for each in known if each.startswith(text)]


def in_two_columns(rows: Iterable[tuple[str, str]], style: str = "") -> Table:
    """Return a table of names and descriptions for any width."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style=style)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(Text(visible(name)), Text(visible(text)))
    return table
