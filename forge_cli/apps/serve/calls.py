"""A client's call, which runs in its own task, and the news about it for the client."""

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
from forge_cli.schema.json.input_schema import InputSchema

ANSWER_TIMEOUT = 600.0
"""Seconds to answer a question, after which the answer is no."""
MAX_QUEUED = 1000
"""Messages of a call that wait to be sent; after that the oldest are dropped."""
UNANSWERED = "no answer came in time"


class CallProgress(Struct, frozen=True):
    """The progress of a call; unsent progress is replaced by later progress."""

    message: str
    fraction: float | None = None


class CallMessage(Struct, frozen=True):
    """A message of the called tool; each one is sent."""

    level: StatusLevel
    text: str


@dataclass(eq=False)
class CallQuestion:
    """A request for consent to something in the call."""

    request: ApprovalRequest
    heard: bool = False
    decision: ApprovalDecision | None = None
    answered: anyio.Event = field(default_factory=anyio.Event)

    def answer(self, decision: ApprovalDecision) -> None:
        """Set the answer, unless there is one already."""
        if self.decision is None:
            self.decision = decision
            self.answered.set()


@dataclass(eq=False)
class CallForm:
    """A question of the tool itself in the middle of a call."""

    asker: str
    question: str
    schema: JsonObject
    heard: bool = False
    values: JsonObject | None = None
    """The values that were filled in, or None if the form was declined."""
    answered: anyio.Event = field(default_factory=anyio.Event)

    def answer(self, values: JsonObject | None) -> None:
        """Set the answer, unless there is one already."""
        if not self.answered.is_set():
            self.values = values
            self.answered.set()


CallNews = CallMessage | CallProgress | CallQuestion | CallForm | ToolOutcome


class ServedCall:
    """One call, from its start to its outcome."""

    def __init__(self, call: ToolCall, *, can_ask: bool) -> None:
        """Create the call; ``can_ask`` is True if its client can ask a person."""
        self.call = call
        self.can_ask = can_ask
        self.interrupt = InterruptSignal()
        self.questions: dict[str, CallQuestion | CallForm] = {}
        """Unanswered questions, by the ids of their requests."""
        self._said: deque[CallMessage] = deque(maxlen=MAX_QUEUED)
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
        """Ask the client's user for approval; return a denial if no answer comes in time."""
        question = self.questions[request.request_id] = CallQuestion(request)
        self._news.set()
        try:
            with anyio.move_on_after(ANSWER_TIMEOUT):
                await question.answered.wait()
        finally:
            del self.questions[request.request_id]
        if question.decision is None:
            return ApprovalDecision(False, note=UNANSWERED)
        return question.decision

    async def ask_person(self, asker: str, question: str, schema: JsonObject) -> JsonObject | None:
        """Ask the client's user to fill in a form; return None if they decline or do not answer."""
        key = new_id("form")
        form = self.questions[key] = CallForm(asker, question, flat_schema(schema))
        self._news.set()
        try:
            with anyio.move_on_after(ANSWER_TIMEOUT):
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
        """Return the next news; the outcome comes last, and is repeated after that."""
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
            self._news = anyio.Event()  # an event cannot be cleared
