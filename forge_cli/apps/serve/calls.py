"""A call that a client has made: it works by itself, and its client hears what happens to it, one thing at a time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import anyio
from msgspec import Struct

from forge_cli.apps.serve.flat import flat_schema
from forge_cli.core.approval import ApprovalDecision, ApprovalRequest
from forge_cli.core.bus import new_id
from forge_cli.core.calls import ToolCall, ToolOutcome
from forge_cli.core.errors import InvalidInput, StatusLevel, ToolError
from forge_cli.core.interrupt import InterruptSignal
from forge_cli.core.wire import JsonObject
from forge_cli.schema.input_schema import InputSchema

PATIENCE = 600.0
"""Seconds for the answer to a question; after that it is a no."""
MOST_SAID = 1000
"""Messages of a call that wait to be sent; after that the oldest ones are dropped."""
UNANSWERED = "no answer came in time"


class CallProgress(Struct, frozen=True):
    """The progress of a call; a later one replaces one that was not heard yet."""

    message: str
    fraction: float | None = None


class CallMessage(Struct, frozen=True):
    """Something that the tool of a call has said; each of them is heard."""

    level: StatusLevel
    text: str


@dataclass(eq=False)
class CallQuestion:
    """Something that the call needs consent for."""

    request: ApprovalRequest
    heard: bool = False
    decision: ApprovalDecision | None = None
    answered: anyio.Event = field(default_factory=anyio.Event)

    def answer(self, decision: ApprovalDecision) -> None:
        """The first answer counts."""
        if self.decision is None:
            self.decision = decision
            self.answered.set()


@dataclass(eq=False)
class CallForm:
    """A question that the tool itself has, in the middle of the call."""

    asker: str
    question: str
    schema: JsonObject
    heard: bool = False
    values: JsonObject | None = None
    """The values that were filled in; None where it was declined."""
    answered: anyio.Event = field(default_factory=anyio.Event)

    def answer(self, values: JsonObject | None) -> None:
        """The first answer counts."""
        if not self.answered.is_set():
            self.values = values
            self.answered.set()


CallNews = CallMessage | CallProgress | CallQuestion | CallForm | ToolOutcome


class ServedCall:
    """One call, from its start to its outcome."""

    def __init__(self, call: ToolCall, *, can_ask: bool) -> None:
        """``can_ask`` tells whether its client can put questions to a person."""
        self.call = call
        self.can_ask = can_ask
        self.interrupt = InterruptSignal()
        self.questions: dict[str, CallQuestion | CallForm] = {}
        """The questions without an answer yet, by the ids of their requests."""
        self._said: deque[CallMessage] = deque(maxlen=MOST_SAID)
        self._progress: CallProgress | None = None
        self._outcome: ToolOutcome | None = None
        self._news = anyio.Event()

    @property
    def done(self) -> bool:
        return self._outcome is not None

    def report(self, message: str, fraction: float | None) -> None:
        self._progress = CallProgress(message, fraction)
        self._news.set()

    def say(self, level: StatusLevel, text: str) -> None:
        self._said.append(CallMessage(level, text))
        self._news.set()

    def finish(self, outcome: ToolOutcome) -> None:
        self._outcome = outcome
        self._news.set()

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
        """Have the client ask, and wait for the answer; without one it is a no."""
        question = self.questions[request.request_id] = CallQuestion(request)
        self._news.set()
        try:
            with anyio.move_on_after(PATIENCE):
                await question.answered.wait()
        finally:
            del self.questions[request.request_id]
        return (
            ApprovalDecision(False, note=UNANSWERED)
            if question.decision is None
            else question.decision
        )

    async def ask_person(self, asker: str, question: str, schema: JsonObject) -> JsonObject | None:
        """Have the client put a form to its user; None where that is declined, or no answer comes in time."""
        key = new_id("form")
        form = self.questions[key] = CallForm(asker, question, flat_schema(schema))
        self._news.set()
        try:
            with anyio.move_on_after(PATIENCE):
                await form.answered.wait()
        finally:
            del self.questions[key]
        if form.values is None:
            return None
        try:
            return InputSchema.of(schema).validate(form.values)
        except InvalidInput as error:
            raise ToolError(f"the answer to '{question}' does not fit: {error}") from None

    async def next(self) -> CallNews:
        """The next event; the outcome comes last, and again whenever it is asked for."""
        while True:
            if self._said:
                return self._said.popleft()
            if self._progress is not None:
                progress = self._progress
                self._progress = None
                return progress
            if self._outcome is not None:
                return self._outcome
            for question in self.questions.values():
                if not question.heard:
                    question.heard = True
                    return question
            await self._news.wait()
            self._news = anyio.Event()
