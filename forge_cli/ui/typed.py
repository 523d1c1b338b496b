"""A line that a person types: a message with the files it mentions, a ``/command``, or a ``!`` line for the shell."""

from __future__ import annotations

from collections.abc import Sequence

from forge_cli.core.actions import CommandEvent, ManualToolInvoke
from forge_cli.core.errors import UsageError
from forge_cli.core.events import Event
from forge_cli.core.messages import Attachment
from forge_cli.ui.commands.command import Chat
from forge_cli.ui.commands.table import run_line
from forge_cli.ui.facts import Facts
from forge_cli.ui.places import Places
from forge_cli.ui.queue import MessageQueue, TypedMessage
from forge_cli.ui.terminal.slash import is_command

SHELL = "shell"
"""The tool behind ``!command``."""


class TypedLines:
    """Does what the lines of a conversation say, the same in every UI."""

    def __init__(self, queue: MessageQueue, facts: Facts, places: Places) -> None:
        self._queue = queue
        self._facts = facts
        self._places = places
        self.attached: list[Attachment] = []
        """Files for the next message."""

    async def enter(self, chat: Chat, text: str, attachments: Sequence[Attachment] = ()) -> None:
        """Do what a line says; a message is not waited for, and ``chat`` shows what a command says."""
        if text.startswith("!"):
            self._run_shell(text[1:].strip())
        elif is_command(text):
            match await run_line(chat, text):
                case CommandEvent(name=name) as command if name != "mode":
                    self._queue.send(TypedMessage(text, command=command))
                case Event() as event:
                    self._queue.bus.emit(event)
        else:
            self.say(text, attachments)
            for warning in self._places.warnings(text):
                chat.show(warning)

    def say(self, text: str, attachments: Sequence[Attachment] = ()) -> None:
        """Say something to the worker, now or after what it works on."""
        mentioned = tuple(self._places.attachments(text))
        waiting = tuple(self.attached)
        self.attached = []
        self._queue.send(TypedMessage(text, (*attachments, *waiting, *mentioned)))

    def take_back(self) -> str | None:
        """The text of the last message that waits, to be changed; files that it does not mention stay attached."""
        message = self._queue.take_back()
        if message is None:
            return None
        mentioned = tuple(self._places.attachments(message.text))
        self.attached += [file for file in message.attachments if file not in mentioned]
        return message.text

    def _run_shell(self, command: str) -> None:
        if not command:
            raise UsageError("! alone runs nothing", hint="as in: !git status")
        if self._facts.read_only:
            raise UsageError("this session is read-only, so no command can be run")
        if SHELL not in self._facts.manual_tools:
            raise UsageError(
                "this worker has no shell tool that a person may call",
                hint="add 'shell: {}' to its toolsets",
            )
        self._queue.bus.emit(ManualToolInvoke(SHELL, {"command": command}, own_command=True))


def is_message(text: str) -> bool:
    """Is this line said to the worker?"""
    return not text.startswith("!") and not is_command(text)
