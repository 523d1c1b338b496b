"""Typed lines of a conversation: messages with mentioned files, ``/commands`` and ``!`` lines."""

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
"""The tool that runs ``!command``."""


class TypedLines:
    """Handler of the typed lines of a conversation, the same for every UI."""

    def __init__(self, queue: MessageQueue, facts: Facts, places: Places) -> None:
        self._queue = queue
        self._facts = facts
        self._places = places
        self.attached: list[Attachment] = []
        """Files for the next message."""

    async def enter(self, chat: Chat, text: str, attachments: Sequence[Attachment] = ()) -> None:
        """Handle a line without waiting for the answer to a message.

        ``chat`` shows the output of commands.
        """
        if text.startswith("!"):
            self._run_shell(text[1:].strip())
        elif is_command(text):
            match await run_line(chat, text):
                case CommandEvent(name=name) as command if name != "mode":  # a mode does not wait
                    self._queue.send(TypedMessage(text, command=command))
                case Event() as event:
                    self._queue.bus.emit(event)
        else:
            self.say(text, attachments)
            for warning in self._places.warnings(text):
                chat.show(warning)

    def say(self, text: str, attachments: Sequence[Attachment] = ()) -> None:
        """Send a message with its files to the worker, now or after its current work."""
        mentioned = tuple(self._places.attachments(text))
        waiting = tuple(self.attached)
        self.attached = []
        self._queue.send(TypedMessage(text, (*attachments, *waiting, *mentioned)))

    def take_back(self) -> str | None:
        """Return the text of the last waiting message for editing.

        Files that the text does not mention stay attached.
        """
        message = self._queue.take_back()
        if message is None:
            return None
        mentioned = tuple(self._places.attachments(message.text))
        self.attached += [file for file in message.attachments if file not in mentioned]
        return message.text

    def _run_shell(self, command: str) -> None:
        if not command:
            raise UsageError("missing command after !", hint="as in: !git status")
        if self._facts.read_only:
            raise UsageError("this session is read-only, so it runs no commands")
        if SHELL not in self._facts.manual_tools:
            raise UsageError(
                "this worker has no shell tool for people",
                hint="add 'shell: {}' to its toolsets",
            )
        self._queue.bus.emit(ManualToolInvoke(SHELL, {"command": command}, own_command=True))


def is_message(text: str) -> bool:
    """Return True if the line is a message to the worker."""
    return not text.startswith("!") and not is_command(text)
