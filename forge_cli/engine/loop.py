"""The loop of model and tools: ask the model, pass its calls through the gate, hand back results, until it is done."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from forge_cli.core.bus import EventBus, new_id
from forge_cli.core.errors import ForgeError, ModelError
from forge_cli.core.events import MessageEvent, Status, Streaming, TurnEnd, TurnStart
from forge_cli.core.interrupt import InterruptSignal
from forge_cli.core.messages import (
    Attachment,
    CallResult,
    Delta,
    Message,
    ModelProvider,
    ModelRequest,
    Restart,
    TextDelta,
    ToolSpec,
    Usage,
)
from forge_cli.core.messages import TurnEnd as ModelTurnEnd
from forge_cli.core.tool import ToolCall, ToolOutcome, llm_tools
from forge_cli.core.wire import error_text
from forge_cli.engine.assemble import Toolbox
from forge_cli.engine.guard import Caller, Guard
from forge_cli.engine.history import History

GO_ON = "Your answer was cut off at its length limit, and no unfinished call was made. Go on from there."


class Interrupted(Exception):
    """Somebody stopped the work."""


class LimitReached(Exception):
    """The work ends here, although the model would go on."""


class Stopped(Exception):
    """A call was refused, and that ends the work."""


@dataclass
class Tally:
    """What one task has used so far."""

    turns: int = 0
    usage: Usage = field(default_factory=Usage)
    outcomes: list[ToolOutcome] = field(default_factory=list)


@dataclass(kw_only=True)
class Loop:
    model: ModelProvider
    toolbox: Toolbox
    guard: Guard
    bus: EventBus
    interrupt: InterruptSignal
    history: History
    system: str
    max_turns: int
    stop_on_refusal: bool

    async def work(self, task: str, attachments: Sequence[Attachment], tally: Tally) -> str:
        """Take turns until the model calls nothing more; returns its last words."""
        self._say(Message("user", task, attachments=tuple(attachments)))
        answer = ""
        while tally.turns < self.max_turns:
            tally.turns += 1
            reply, stop = await self._turn(tally)
            answer = "" if reply.calls else answer + reply.text
            if reply.calls:
                await self._call_all(reply.calls, tally)
            elif stop == "max_tokens":
                self._say(Message("user", GO_ON))
            elif stop == "refusal":
                raise ModelError(f"{self.model.name} declined to answer", hint="say the task in other words")
            else:
                return answer
        raise LimitReached(f"the limit of {self.max_turns} turns was reached")

    async def _turn(self, tally: Tally) -> tuple[Message, str]:
        offers = await self.toolbox.refresh()
        tools = llm_tools([offer.tool for offer in offers.values()])
        specs = [ToolSpec(tool.name, tool.description, tool.schema.json_schema) for tool in tools]
        digest = self.history.digest(self.system, specs)
        self.bus.emit(TurnStart(tally.turns, digest, tuple(spec.name for spec in specs)))
        reply, end = await self._listen(ModelRequest(self.system, self.history, specs))
        self._say(reply)
        tally.usage += end.usage
        self.bus.emit(TurnEnd(tally.turns, end.stop, end.usage))
        return reply, end.stop

    async def _listen(self, request: ModelRequest) -> tuple[Message, ModelTurnEnd]:
        """Hear one turn of the model out; one that is cut off leaves its text, and none of its calls."""
        stream_id, text, calls, end = new_id("stream"), "", list[ToolCall](), None
        with self.interrupt.scope() as scope:
            async with aclosing(self._deltas(request)) as deltas:
                async for delta in deltas:
                    match delta:
                        case TextDelta():
                            text += delta.text
                            self.bus.emit(Streaming(stream_id, delta.text, done=False))
                        case ToolCall():
                            calls.append(delta)
                        case Restart():
                            text, calls = "", []
                            self.bus.emit(Status("warning", f"the answer starts again: {delta.reason}"))
                        case ModelTurnEnd():
                            end = delta
        self.bus.emit(Streaming(stream_id, "", done=True))
        if scope.cancelled_caught or self.interrupt.interrupted:
            self._say(Message("assistant", text or "[Interrupted]"))
            raise Interrupted
        if end is None:
            raise ModelError(f"{self.model.name} stopped in the middle of its answer")
        return Message("assistant", text, tuple(calls), native=end.native), end

    async def _deltas(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """What the model says; a provider is foreign code, so whatever goes wrong in it becomes a sentence."""
        async with aclosing(self.model.stream(request)) as deltas:
            while True:
                try:
                    delta = await anext(deltas)
                except StopAsyncIteration:
                    return
                except ForgeError:
                    raise
                except Exception as error:
                    raise ModelError(f"{self.model.name} failed: {error_text(error)}") from error
                yield delta

    async def _call_all(self, calls: tuple[ToolCall, ...], tally: Tally) -> None:
        """Every call gets its one result, in order, before an interrupt or a refusal ends the work."""
        outcomes: list[ToolOutcome] = []
        refused: ToolOutcome | None = None
        for call in calls:
            if refused:
                outcomes.append(
                    self.guard.skip(call, "not called: an earlier call was refused, and that ends the work")
                )
                continue
            outcomes.append(await self.guard.call(call, Caller.MODEL))
            if self.stop_on_refusal and outcomes[-1].status in ("denied", "blocked"):
                refused = outcomes[-1]
        tally.outcomes += outcomes
        self.history.append(Message("tool", results=tuple(map(_result, outcomes))))
        if self.interrupt.interrupted:
            raise Interrupted
        if refused:
            raise Stopped(refused.error)

    def _say(self, message: Message) -> None:
        self.history.append(message)
        if message.text:
            files = {"attachments": [file.name for file in message.attachments]} if message.attachments else {}
            self.bus.emit(MessageEvent({"role": message.role, "content": message.text, **files}))


def _result(outcome: ToolOutcome) -> CallResult:
    return CallResult(outcome.call.id, outcome.call.name, outcome.text(), is_error=not outcome.ok)
