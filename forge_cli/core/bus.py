"""The event bus between a session and those that watch or steer it; asking never hangs."""

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
    """A question that waits for the event which answers it."""

    answer_type: type[ApprovalResponse | UserInput]
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: Event | None = None


class _Subscriber(Struct, eq=False):
    """A handler, and the events that it hears."""

    handler: Handler
    answers: bool
    only: tuple[type[Event], ...]
    transient: bool

    def hears(self, kind: type[Event]) -> bool:
        return issubclass(kind, self.only) and (self.transient or not kind.transient)


class EventBus:
    """Hands every event to every subscriber, in order, and pairs questions with their answers.

    An event emitted by a handler waits until every subscriber has received the one before it.
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
        """Return True if a subscriber can answer."""
        return any(subscriber.answers for subscriber in self._root._subscribers)

    @property
    def path(self) -> tuple[str, ...]:
        """The workers from the root down to the one that emits here; empty for the root itself."""
        return self._origin.path if self._origin else ()

    @property
    def delegation(self) -> str | None:
        """The id of the task of the worker that emits here; None for the root."""
        return self._origin.delegation if self._origin else None

    def child(self, origin: Origin) -> EventBus:
        """The same bus for a child worker: subscribers here get its events too, and answer its questions."""
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
        """Receive every event from now on, or those of some types; returns the function that unsubscribes.

        With ``answers`` the subscriber promises to answer each ``approvalRequired`` and ``inputPrompt``. Without
        ``transient`` it gets only those that are recorded.
        """
        subscriber = _Subscriber(handler, answers, only, transient)
        root = self._root
        root._subscribers.append(subscriber)

        def unsubscribe() -> None:
            if subscriber in root._subscribers:
                root._subscribers.remove(subscriber)
            if not self.attended:
                for question in root._questions.values():
                    question.answered.set()

        return unsubscribe

    def emit(self, event: Event | str, payload: Mapping[str, Any] | None = None) -> None:
        """Hand out an event, or the one of that name on the wire with this payload."""
        if isinstance(event, str):
            event = _read_named(event, payload or {})
        if self._root is not self:
            self._root.emit(event if event.origin else replace(event, origin=self._origin))
            return
        self._waiting.append(event)
        if self._delivering:
            return
        self._delivering = True
        try:
            while self._waiting:
                self._deliver(self._waiting.popleft())
        finally:
            self._delivering = False

    def hears(self, kind: type[Event]) -> bool:
        """Return True if a subscriber gets the events of a type."""
        return any(subscriber.hears(kind) for subscriber in self._root._subscribers)

    def _deliver(self, event: Event) -> None:
        for subscriber in [each for each in self._subscribers if each.hears(type(event))]:
            subscriber.handler(event)
        if isinstance(event, (ApprovalResponse, UserInput)):
            question = self._questions.get(event.request_id)
            if question and question.answer is None and isinstance(event, question.answer_type):
                question.answer = event
                question.answered.set()

    def answer(self, request_id: str, decision: ApprovalDecision) -> None:
        """Decide a request; the first answer counts."""
        self.emit(ApprovalResponse(request_id, decision))

    def answer_input(self, request_id: str, content: str) -> None:
        """Give the line of text that an ``inputPrompt`` asks for."""
        self.emit(UserInput(request_id, content))

    def is_open(self, request_id: str) -> bool:
        """Return True if somebody waits for the answer to this."""
        return request_id in self._root._questions

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
        """Put a request to the subscribers that can answer; without one it is denied at once, saying so."""
        answer = await self._question(
            request.request_id, ApprovalRequired(request), ApprovalResponse
        )
        if isinstance(answer, ApprovalResponse):
            return replace(answer.decision, by="user")
        return ApprovalDecision(False, note=NO_ONE_TO_ANSWER, by="headless")

    async def ask_input(self, prompt: str, options: Sequence[str] = ()) -> str | None:
        """Ask for a line of text, which may be one of a few; None when no person can give one."""
        request_id = new_id("input")
        answer = await self._question(
            request_id, InputPrompt(request_id, prompt, tuple(options) or None), UserInput
        )
        return answer.content if isinstance(answer, UserInput) else None

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
    from forge_cli.core.event_kinds import EVENT_KINDS

    known = EVENT_KINDS
    if name not in known:
        raise ValueError(f"there is no event '{name}'; {did_you_mean(name, known)}")
    try:
        from forge_cli.core.short_payloads import check_keys, complete

        full = complete(name, payload)
        check_keys(known[name], full)
        event = known[name].read(full)
    except Unreadable as error:
        raise ValueError(f"this is not the payload of an event '{name}': {error}") from None
    if isinstance(event, StatusEvent) and event.level not in get_args(
        StatusLevel
    ):  # a log may be of a newer version
        levels = ", ".join(get_args(StatusLevel))
        raise ValueError(
            f"this is not the payload of an event '{name}': level: must be one of {levels}"
        )
    return event


def new_id(kind: str) -> str:
    return f"{kind}_{os.urandom(6).hex()}"
