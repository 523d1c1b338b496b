"""Questions and messages of a session without a terminal: they wait, and park the session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from forge_cli.core.actions import ApprovalResponse, UserInput
from forge_cli.core.bus import EventBus
from forge_cli.core.events import (
    ApprovalDecided,
    ApprovalRequired,
    Event,
    InputPrompt,
    MessageEvent,
)
from forge_cli.record.control import ENDED, Receipt
from forge_cli.record.runs import WaitingMessages

PARK_AFTER = 3600.0
"""Seconds that a question waits in the process; then the session is parked."""


class Unattended:
    """The listener of a session in the background, which promises that somebody may answer.

    A question waits for a client of the control socket. When it has waited for ``park_after``
    seconds, nobody can answer any more: the session is parked, and the process ends.
    """

    def __init__(
        self, bus: EventBus, messages: WaitingMessages, park_after: float = PARK_AFTER
    ) -> None:
        self._bus = bus
        self._messages = messages
        self._park_after = park_after
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._leave: Callable[[], None] = lambda: None
        self._takes_messages = True
        self._begun: str | None = None
        self.stopped = False
        """True once a client has stopped the session."""

    def attend(self) -> Callable[[], None]:
        """Listen from now on, and return the function that ends it."""
        unsubscribe = self._bus.subscribe(self._hear)
        self._leave = self._bus.subscribe(
            lambda event: None, answers=True, only=(ApprovalRequired, InputPrompt)
        )

        def end() -> None:
            unsubscribe()
            self._leave()
            for timer in self._timers.values():
                timer.cancel()

        return end

    def _hear(self, event: Event) -> None:
        match event:
            case ApprovalRequired(request=request):
                self._wait(request.request_id)
            case InputPrompt(request_id=request_id):
                self._wait(request_id)
            case ApprovalResponse(request_id=answered) | UserInput(request_id=answered):
                self._forget(answered)
            case ApprovalDecided(request_id=str() as answered):
                self._forget(answered)
            case MessageEvent(origin=None, message=message) if (
                self._begun is not None and message.role == "user"
            ):
                # It is recorded now, so a restart must not send it again.
                self._begun = None
                self._messages.drop_first()
            case _:
                pass

    def _wait(self, request_id: str) -> None:
        loop = asyncio.get_running_loop()
        self._timers[request_id] = loop.call_later(self._park_after, self._park)

    def _forget(self, request_id: str) -> None:
        if timer := self._timers.pop(request_id, None):
            timer.cancel()

    def _park(self) -> None:
        # Without a listener the open questions end, and the session is parked.
        self._leave()

    # --- messages

    def take(self, message: UserInput) -> Receipt:
        """Keep a message for the next turn."""
        if not self._takes_messages:
            return Receipt(False, ENDED)
        if not message.content.strip():
            return Receipt(False, "the message is empty")
        try:
            self._messages.add(message.content)
        except OSError as error:
            return Receipt(False, f"the message cannot be kept: {error.strerror}")
        return Receipt(True)

    def next_message(self) -> str | None:
        """Return the next message; without one, no message is taken any more."""
        waiting = [] if self.stopped else self._messages.all()
        if not waiting:
            self._takes_messages = False
            return None
        self._begun = waiting[0]
        return waiting[0]

    def stop(self, reason: str) -> None:
        """End the session after its current work."""
        self.stopped = True
        self._takes_messages = False
