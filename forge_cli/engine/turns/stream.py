"""One answer of the model as it arrives: its text, redacted for display, and its calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing

from msgspec.structs import replace

from forge_cli.core.bounds import check_cancelled, count_cancellations
from forge_cli.core.bus import EventBus, new_id
from forge_cli.core.calls import ToolCall, is_legal_id
from forge_cli.core.errors import ForgeError, ModelError
from forge_cli.core.events import StatusEvent, Streaming
from forge_cli.core.interrupt import InterruptSignal
from forge_cli.core.messages import (
    Delta,
    Message,
    ModelProvider,
    ModelRequest,
    Restart,
    TextDelta,
    TurnEnd,
    paced_request,
)
from forge_cli.core.phrases import VOID
from forge_cli.core.text import TextJoiner, as_spelled
from forge_cli.core.wire import error_text
from forge_cli.engine.gate.toolbox import Toolbox
from forge_cli.engine.turns.limits import AnswerRoom
from forge_cli.sandbox.secrets import RedactedStream, Redactor


class AnswerStream:
    """A reader of one answer; an interrupted one keeps its text and loses its calls."""

    def __init__(
        self,
        model: ModelProvider,
        toolbox: Toolbox,
        bus: EventBus,
        redactor: Redactor,
        *,
        known_ids: Collection[str],
        aloud: bool,
    ) -> None:
        """``known_ids`` are those of earlier calls; only an answer ``aloud`` is shown."""
        self._model = model
        self._toolbox = toolbox
        self._bus = bus
        self._redactor = redactor
        self._known_ids = known_ids
        self._aloud = aloud
        self._stream_id = new_id("stream")
        # a replayed record names its results by the IDs of its calls
        self._keeps_ids: bool = getattr(model, "keeps_ids", False)
        self._end: TurnEnd | None = None
        self._begin()

    @property
    def _is_shown(self) -> bool:
        return self._aloud and self._bus.hears(Streaming)

    def _begin(self) -> None:
        """Begin from nothing, at first and if the provider starts over."""
        self.text = ""
        self._calls: list[ToolCall] = []
        self._has_changed_calls = False
        self._joiner = TextJoiner()
        self._shown = RedactedStream(self._redactor)
        self._shown_until = 0

    async def read(self, request: ModelRequest, interrupt: InterruptSignal) -> bool:
        """Read the answer to its end; return False if it was interrupted."""
        # A provider may swallow a cancellation of this task.
        before = count_cancellations()
        try:
            with interrupt.scope() as scope:
                async with paced_request(), aclosing(self._model.stream(request)) as deltas:
                    await self._read(deltas)
        except ForgeError:
            if self._aloud:
                self._emit("", done=True)
            raise
        await check_cancelled(before)
        self.text += self._joiner.close()
        if self._is_shown:
            if rest := self._shown.add(self.text[self._shown_until :]) + self._shown.close():
                self._emit(rest)
            self._emit("", done=True)
        return not (scope.cancelled_caught or interrupt.interrupted)

    def close(self) -> tuple[Message, TurnEnd]:
        """Return the message and its end; raise ModelError if the stream ended early."""
        if self._end is None:
            raise ModelError(f"{self._model.name} stopped in the middle of its answer")
        native = None if self._has_changed_calls else self._end.native
        return Message("assistant", self.text, tuple(self._calls), native=native), self._end

    async def _read(self, deltas: AsyncGenerator[Delta, None]) -> None:
        room = AnswerRoom(self._model.name)
        while delta := await self._next(deltas):
            room.take(delta)
            match delta:
                case TextDelta():
                    self._add_text(delta.text)
                case ToolCall():
                    self._calls.append(delta if self._keeps_ids else self._adopt(delta))
                case Restart():
                    self._begin()
                    self._bus.emit(StatusEvent("info", f"{VOID}{delta.reason}", about="void"))
                case TurnEnd():
                    self._end = delta

    async def _next(self, deltas: AsyncGenerator[Delta, None]) -> Delta | None:
        """Return the next delta; errors of a provider, third-party code, become ModelErrors."""
        try:
            return await anext(deltas, None)
        except ForgeError:
            raise
        except Exception as error:
            raise ModelError(f"{self._model.name} failed: {error_text(error)}") from error

    def _add_text(self, piece: str) -> None:
        self.text += self._joiner.add(piece)
        if self._is_shown:
            # A possible beginning of a secret is held back until more has come.
            if part := self._shown.add(self.text[self._shown_until :]):
                self._emit(part)
            self._shown_until = len(self.text)

    def _adopt(self, call: ToolCall) -> ToolCall:
        """Return a call with a legal, unused ID and the exact name of its tool."""
        adopted = call
        is_taken = call.id in self._known_ids or call.id in [each.id for each in self._calls]
        if is_taken or not is_legal_id(call.id):
            adopted = replace(adopted, id=new_id("call"))
        if call.name not in self._toolbox.offers:
            known = [tool.name for tool in self._toolbox.for_model(self._toolbox.offers.values())]
            name = as_spelled(call.name, known)
            if name != call.name:
                adopted = replace(adopted, name=name)
        if adopted is not call:
            # the provider's own form of the answer has the call as it was
            self._has_changed_calls = True
        return adopted

    def _emit(self, text: str, *, done: bool = False) -> None:
        self._bus.emit(Streaming(self._stream_id, text, done=done))
