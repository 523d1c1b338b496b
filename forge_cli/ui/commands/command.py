"""A slash command: its use, what it does, how its arguments are completed, and what it may use of the conversation."""

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
    """A conversation, as its commands see it: what they ask of the worker is the event that they return."""

    @property
    def facts(self) -> Facts:
        """The facts of the events so far."""
        ...

    def show(self, shown: RenderableType) -> None:
        """Print above the line that is being typed; plain strings are shown as they are, without markup."""
        ...

    def unfold(self, number: int | None) -> None:
        """Show the result of that number whole; without one, list those that can be."""
        ...

    async def ask(self, prompt: str, instead: str) -> str | None:
        """A line that the person types for this command alone.

        Where none can be typed, ``instead`` is shown, which says what else to do.
        """
        ...

    async def fill(self, tool: str, given: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The args of a tool, each field that is not given asked for in a form; None where the person leaves it."""
        ...

    @property
    def trace(self) -> TraceLevel:
        """How much of what happens is shown."""
        ...

    def set_trace(self, level: TraceLevel) -> None:
        """Show more or less of what happens from now on."""
        ...

    def attach(self, attachment: Attachment) -> None:
        """Send this along with the next message."""
        ...

    def leave(self) -> None:
        """End the conversation once the command is done."""
        ...


class Completion(str):
    """Something that an argument could become, with a note beside it for people."""

    note: str

    def __new__(cls, text: str, note: str = "") -> Completion:
        made = super().__new__(cls, text)
        made.note = note
        return made


def _read_texts() -> dict[str, tuple[str, str, str]]:
    """By name, the usage of each command, what it does, and what ``/help NAME`` says beside that."""
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


Act = Callable[[Chat, ParsedCommand], Awaitable[Event | None]]
"""Does what a command says; returns what is asked of the runtime."""


def no_completions(facts: Facts, text: str) -> Sequence[str]:
    """Complete nothing."""
    return ()


class SlashCommand(Struct, frozen=True):
    """A command that a person types; ``commands.txt`` says what it does."""

    name: str
    act: Act
    complete: Callable[[Facts, str], Sequence[str]] = no_completions
    """Completions of an argument."""
    most: int = 0
    """How many plain arguments it takes."""
    least: int = 0
    options: frozenset[str] = frozenset()
    """Options with a value."""
    flags: frozenset[str] = frozenset()
    """Options without one."""
    free: bool = False
    """Does it read its arguments itself, such as those of a tool?"""

    async def run(self, chat: Chat, parsed: ParsedCommand) -> Event | None:
        """Do it; what is asked of the runtime."""
        if not self.free:
            args, options = parse_arguments(parsed.argv, self.flags)
            parsed = replace(parsed, args=tuple(args), options=options)
            self.check(parsed)
        return await self.act(chat, parsed)

    def check(self, parsed: ParsedCommand) -> None:
        """A UsageError for an option or a number of arguments that it does not take."""
        known = self.options | self.flags
        for option in parsed.options:
            if option not in known:
                hint = did_you_mean(
                    f"--{option}", [f"--{each}" for each in known], f"usage: {self.signature}"
                )
                sentence = f"/{self.name} has no option '{option}'"
                raise CommandError(sentence, parsed.columns.get(option, 0), hint=hint)
        valued = {option for option, value in parsed.options.items() if isinstance(value, str)}
        if (
            valued != parsed.options.keys() & self.options
            or not self.least <= len(parsed.args) <= self.most
        ):
            raise UsageError(f"usage: {self.signature}", hint=self.summary)

    @property
    def signature(self) -> str:
        return f"/{self.name} {TEXTS[self.name][0]}".rstrip()

    @property
    def summary(self) -> str:
        return TEXTS[self.name][1]


def forward(name: str) -> Act:
    """A command that the runtime obeys, with the same arguments."""

    async def act(chat: Chat, parsed: ParsedCommand) -> Event:
        return CommandEvent(name, parsed.args)

    return act


def beginning(known: Iterable[str], text: str) -> list[str]:
    """Those of the known that begin so."""
    return [each for each in known if each.startswith(text)]


def in_two_columns(rows: Iterable[tuple[str, str]], style: str = "") -> Table:
    """Names, each with what it is or does, in a terminal of any width."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style=style)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(Text(visible(name)), Text(visible(text)))
    return table
