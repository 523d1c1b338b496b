"""A conversation: input of people arrives on the bus, and is handled in order."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Unpack

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from forge_cli.core.actions import CommandEvent, UserInput
from forge_cli.core.events import Event, StatusEvent
from forge_cli.core.messages import Attachment
from forge_cli.engine.runtime.commands import SessionCommands
from forge_cli.engine.runtime.reopening import CurrentWorker
from forge_cli.engine.runtime.result import WorkerResult
from forge_cli.engine.runtime.wiring import ConversationHooks, Said

Work = Callable[[str, Sequence[Attachment]], Awaitable[WorkerResult]]
"""A function that runs a task."""

_ATTACHED = "Look at the attached files."
"""The task of a message with files and without text."""


class Conversation:
    """A queue of ``userInput`` and ``command`` events, until it is closed.

    Input that answers no open question is a task. Tasks and commands wait for one another.
    ``interrupt`` stops the current task, and the next one begins afresh.
    """

    def __init__(
        self, current: CurrentWorker, work: Work, **told: Unpack[ConversationHooks]
    ) -> None:
        """Take the function that runs each task, with the worker as it is open by then."""
        self._current = current
        self._run = work
        self._bus = current.bus
        self._told = told
        self.commands = SessionCommands(current, self.close)
        self._naming = anyio.CancelScope()
        self._send: MemoryObjectSendStream[Said]
        self._received: MemoryObjectReceiveStream[Said]
        # Without a limit, because a subscriber of the bus cannot wait for room.
        self._send, self._received = anyio.create_memory_object_stream[Said](math.inf)

    def close(self) -> None:
        """Take no more input; earlier input is still done."""
        self._send.close()

    async def go(self, *, resume: bool = False) -> WorkerResult | None:
        """Converse, and return the last task's result; ``resume`` does unfinished work first."""
        result = None
        async with anyio.create_task_group() as beside:
            unsubscribe = self._bus.subscribe(self._hear, only=(UserInput, CommandEvent))
            try:
                if resume:
                    result = await self._do("", ())
                async for said in self._received:
                    done = None
                    match said:
                        case UserInput():
                            done = await self._work(said)
                            if result is None and done.status == "completed":
                                beside.start_soon(self._name_session)
                        case CommandEvent():
                            if message := await self.commands.handle_command(said):
                                self._note_prompt()
                                done = await self._work(message)
                    result = done or result
                    if on_done := self._told.get("on_done"):
                        on_done(said, done)
            finally:
                unsubscribe()
                self._naming.cancel()
        return result

    def _note_prompt(self) -> None:
        """Note that the next task is the text of a prompt, which its server wrote."""
        provenance = self._current.opened.assembly.guard.judge.provenance
        if provenance is not None:
            provenance.begin_foreign_task()

    async def _name_session(self) -> None:
        """Find a title beside the conversation, which does not wait for it when it ends."""
        with self._naming:
            await self.commands.find_title()

    def _hear(self, event: Event) -> None:
        match event:
            case UserInput() if self._bus.is_open(event.request_id):
                pass  # an answer, which the bus passes on to the question
            case UserInput() if event.content.strip() or event.attachments:
                self._take(event)
            case CommandEvent() if not self.commands.obey_at_once(event):
                self._take(event)

    def _take(self, event: Said) -> None:
        try:
            self._send.send_nowait(event)
        except anyio.ClosedResourceError:
            text = "the conversation has ended, so this was ignored"
            self._bus.emit(StatusEvent("warning", text))

    async def _work(self, said: UserInput) -> WorkerResult:
        self._current.wiring.interrupt_signal.reset()
        task = said.content if said.content.strip() else _ATTACHED
        result = await self._do(task, said.attachments)
        if result.error and not result.success:
            self._bus.emit(StatusEvent("error", result.error))
        elif result.status == "completed" and not result.response and result.output is None:
            self._bus.emit(StatusEvent("warning", "the answer of the model is empty"))
        return result

    async def _do(self, task: str, attachments: Sequence[Attachment]) -> WorkerResult:
        if on_begin := self._told.get("on_begin"):
            on_begin()
        result = None
        try:
            await self.commands.notice_edits()
            result = await self._run(task, attachments)
            await self._current.offer_tools()
        finally:
            if on_end := self._told.get("on_end"):
                on_end(result)
        return result
