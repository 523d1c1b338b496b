"""The event bus between a session and its observers; a question never hangs without a listener."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import anyio
from msgspec import Struct, field
from msgspec.structs import replace

from forge_cli.core.actions import ApprovalResponse, UserInput
from forge_cli.core.approval import ApprovalDecision, ApprovalRequest
from forge_cli.core.errors import StatusLevel
from forge_cli.core.events import ApprovalRequired, Event, InputPrompt, Origin, StatusEvent
from forge_cli.core.phrases import NO_ONE_TO_ANSWER
from forge_cli.core.text import did_you_mean
from forge_cli.core.wire import Unreadable

Handler = Callable[[Event], None]


class _Question(Struct):
    """A question that waits for an answering event."""

    answer_type: type[ApprovalResponse | UserInput]
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: Event | None = None


class _Subscriber(Struct, eq=False):
    """A handler and the events that it receives."""

    handler: Handler
    answers: bool
    only: tuple[type[Event], ...]
    transient: bool

    def hears(self, kind: type[Event]) -> bool:
        return issubclass(kind, self.only) and (self.transient or not kind.transient)


class EventBus:
    """Delivers each event to each subscriber in order, and pairs questions with answers.

    An event that a handler emits waits until every subscriber has received the current one.
    """

    def __init__(self) -> None:
        self._root: EventBus = self
        self._origin: Origin | None = None
        self._subscribers: list[_Subscriber] = []
        self._questions: dict[str, _Question] = {}
        self._waiting: deque[Event] = deque()
        self._delivering = False

    @property
    def attended(self) -> bool:
        """True if a subscriber can answer questions."""
        return any(subscriber.answers for subscriber in self._root._subscribers)

    @property
    def path(self) -> tuple[str, ...]:
        """The workers from the root to the emitting worker; empty for the root itself."""
        return self._origin.path if self._origin else ()

    @property
    def delegation(self) -> str | None:
        """The id of the emitting worker's task; None for the root."""
        return self._origin.delegation if self._origin else None

    def child(self, origin: Origin) -> EventBus:
        """Return the bus of a child worker.

        Subscribers of this bus receive its events as well, and answer its questions.
        """
        bus = EventBus()
        bus._root = self._root
        bus._origin = origin
        return bus

    def subscribe(
        self,
        handler: Handler,
        *,
        answers: bool = False,
        only: tuple[type[Event], ...] = (Event,),
        transient: bool = True,
    ) -> Callable[[], None]:
        """Receive all events from now on, or some types; return the function to unsubscribe.

        With ``answers`` the subscriber promises to answer each ``approvalRequired`` and
        ``inputPrompt``. Without ``transient`` it receives recorded events only.
        """
        subscriber = _Subscriber(handler, answers, only, transient)
        root = self._root
        root._subscribers.append(subscriber)

        def unsubscribe() -> None:
            if subscriber in root._subscribers:
                root._subscribers.remove(subscriber)
            # Without an answering subscriber, open questions would wait forever.
            if not self.attended:
                for question in root._questions.values():
                    question.answered.set()

        return unsubscribe

    def emit(self, event: Event | str, payload: Mapping[str, Any] | None = None) -> None:
        """Deliver an event, given as a value or by its wire name and payload."""
        if isinstance(event, str):
            event = _read_named(event, payload or {})
        if self._root is not self:
            self._root.emit(event if event.origin else replace(event, origin=self._origin))
            return
        self._waiting.append(event)
        # The outer call delivers this event after the current one.
        if self._delivering:
            return
        self._delivering = True
        try:
            while self._waiting:
                self._deliver(self._waiting.popleft())
        finally:
            self._delivering = False

    def hears(self, kind: type[Event]) -> bool:
        """Return True if a subscriber receives events of a type."""
        return any(subscriber.hears(kind) for subscriber in self._root._subscribers)

    def _deliver(self, event: Event) -> None:
        # A copy, because a handler may unsubscribe itself or others.
        for subscriber in [each for each in self._subscribers if each.hears(type(event))]:
            subscriber.handler(event)
        if isinstance(event, (ApprovalResponse, UserInput)):
            question = self._questions.get(event.request_id)
            if question and question.answer is None and isinstance(event, question.answer_type):
                question.answer = event
                question.answered.set()

    def answer(self, request_id: str, decision: ApprovalDecision) -> None:
        """Answer a request; the first answer counts."""
        self.emit(ApprovalResponse(request_id, decision))

    def answer_input(self, request_id: str, content: str) -> None:
        """Answer an ``inputPrompt`` with a line of text."""
        self.emit(UserInput(request_id, content))

    def is_open(self, request_id: str) -> bool:
        """Return True if this request still waits for an answer."""
        return request_id in self._root._questions

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
        """Ask the subscribers that can answer; without any, the request is denied at once."""
        answer = await self._question(
            request.request_id, ApprovalRequired(request), ApprovalResponse
        )
        if isinstance(answer, ApprovalResponse):
            return replace(answer.decision, by="user")
        return ApprovalDecision(False, note=NO_ONE_TO_ANSWER, by="headless")

    async def ask_input(self, prompt: str, options: Sequence[str] = ()) -> str | None:
        """Ask for a line of text, optionally one of ``options``; None if no person answers."""
        request_id = new_id("input")
        answer = await self._question(
            request_id, InputPrompt(request_id, prompt, tuple(options) or None), UserInput
        )
        return answer.content if isinstance(answer, UserInput) else None

    async def repeat(self, question: ApprovalRequired | InputPrompt) -> None:
        """Show the question of another process, until an answer to it is emitted on this bus."""
        if isinstance(question, ApprovalRequired):
            await self._question(question.request.request_id, question, ApprovalResponse)
        else:
            await self._question(question.request_id, question, UserInput)

    async def _question(
        self, request_id: str, event: Event, kind: type[ApprovalResponse | UserInput]
    ) -> Event | None:
        questions = self._root._questions
        question = questions[request_id] = _Question(kind)
        try:
            self.emit(event)
            if self.attended:
                await question.answered.wait()
            return question.answer
        finally:
            del questions[request_id]


def _read_named(name: str, payload: Mapping[str, Any]) -> Event:
    # Imported late, because only programs emit events by name.
    from forge_cli.core.event_kinds import EVENT_KINDS

    if name not in EVENT_KINDS:
        raise ValueError(f"unknown event '{name}'; {did_you_mean(name, EVENT_KINDS)}")
    problem = f"invalid payload for the event '{name}'"
    try:
        from forge_cli.core.short_payloads import check_keys, complete

        full = complete(name, payload)
        check_keys(EVENT_KINDS[name], full)
        event = EVENT_KINDS[name].read(full)
    except Unreadable as error:
        raise ValueError(f"{problem}: {error}") from None
    # Reading accepts levels that only a newer version knows; a program cannot mean one of those.
    levels = get_args(StatusLevel)
    if isinstance(event, StatusEvent) and event.level not in levels:
        raise ValueError(f"{problem}: level: must be one of {', '.join(levels)}")
    return event


def new_id(kind: str) -> str:
    """Return a new random id that starts with ``kind``."""
    return f"{kind}_{os.urandom(6).hex()}"
