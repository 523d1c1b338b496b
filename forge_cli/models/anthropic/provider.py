"""Anthropic's models: stream an answer, retry failures that may pass, report the others."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence, Set
from contextlib import aclosing
from itertools import count
from typing import Any

from forge_cli.core.errors import ModelError, WorkerError
from forge_cli.core.messages import (
    Delta,
    ModelEnv,
    ModelRequest,
    Restart,
    StopReason,
    TextDelta,
    TurnEnd,
    Usage,
    let_others_go,
)
from forge_cli.core.notify import Notify
from forge_cli.models.anthropic.catalog import context_window, max_tokens, thinking
from forge_cli.models.anthropic.decode import CUT_OFF, Garbled, MessageAnswer
from forge_cli.models.anthropic.encode import Block, Encoder, kept
from forge_cli.models.anthropic.sdk import sdk_transport
from forge_cli.models.anthropic.transport import Credentials, HttpTransport, Transport
from forge_cli.models.failures import DECLINED, DELAYS, NO_WORDS, ProviderFailure, Retry

MAX_PAUSES = 10
"""How often the API may pause one turn."""
IDLE_TIMEOUT = 120.0
"""Seconds with nothing but keep-alives after which an answer counts as cut off."""


class AnthropicModel:
    """One of Anthropic's models.

    Calls are returned once the answer is complete, so that a call that was cut off is never made.
    Text is returned as it arrives. If an attempt fails after that, a ``Restart`` voids the text
    before the next attempt.
    """

    def __init__(
        self,
        name: str,
        transport: Transport,
        notify: Notify,
        *,
        delays: Sequence[float] = DELAYS,
        moves_cache: bool = True,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Take ``PROVIDER:MODEL`` as name, and the ``options`` of the user's config."""
        model = name.partition(":")[2]
        self.name = name
        self.context_window = context_window(model)
        self._model = model
        self._transport = transport
        self._notify = notify
        said = options or {}
        self._max_tokens = said.get("max_tokens") or max_tokens(model)
        self._encoder = Encoder(
            model,
            self._max_tokens,
            moves_cache=moves_cache,
            more=thinking(model, said.get("thinking"), self._max_tokens),
            images=said.get("images", True),
        )
        self._retry = Retry(name, notify, transport.redact, delays)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Yield one turn, and continue it if the API pauses it."""
        said: list[Block] = []
        text = ""
        usage = Usage()
        taken = frozenset[str]()
        for _ in range(MAX_PAUSES):
            answer = MessageAnswer()
            body = self._encoder.body(request, said)
            async with aclosing(self._ask(body, self._encoder.call_ids, taken)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, MessageAnswer):
                        answer = piece
                        continue
                    yield piece
                    # A restart voids the whole turn, so its text before the pause is repeated.
                    if text and isinstance(piece, Restart):
                        yield TextDelta(text)
            said += answer.blocks
            taken |= {call.id for call in answer.calls}
            text += answer.text
            usage += answer.usage
            if answer.stop != "pause_turn":
                break
        else:
            raise ModelError(
                f"{self.name}: it paused its answer {MAX_PAUSES} times without an end",
                hint="try again",
            )
        for delta in self._last(answer, said, usage):
            yield delta

    def _last(self, answer: MessageAnswer, said: list[Block], usage: Usage) -> list[Delta]:
        """Return the end of a turn, after its text: the calls, and how it ended."""
        native = kept(self._model, said)
        match answer.stop:
            case "refusal":
                why = answer.details.get("explanation") or answer.details.get("category")
                self._notify("warning", f"{self.name}: {DECLINED}{f': {why}' if why else ''}")
                words: list[Delta] = [] if answer.text else [TextDelta(NO_WORDS)]
                return [*words, TurnEnd("refusal", usage)]
            case stop if stop in CUT_OFF:
                limit = "the end of its context window"
                if stop == "max_tokens":
                    limit = f"{self._max_tokens} tokens"
                self._notify("warning", f"{self.name}: the answer was cut off at {limit}")
                return [*answer.calls, TurnEnd("max_tokens", usage, native)]
            case _:
                reason: StopReason = "tool_use" if answer.calls else "end"
                return [*answer.calls, TurnEnd(reason, usage, native)]

    async def _ask(
        self, body: bytes, *taken: Set[str]
    ) -> AsyncGenerator[TextDelta | Restart | MessageAnswer]:
        """Try until there is a complete answer, which comes last; its IDs are not ``taken``."""
        for attempt in count(1):
            answer = MessageAnswer(taken)
            some = False
            shown = False
            try:
                async with aclosing(self._transport.events(body, self._model)) as events:
                    async for together in events:
                        some = True
                        text, garbled = answer.take(together)
                        # The answer has begun, so the prompt is in the cache for others.
                        if answer.blocks:
                            let_others_go()
                        if text:
                            shown = True
                            yield TextDelta(text)
                        if garbled:
                            raise garbled
                endpoint = self._transport.endpoint
                failure = endpoint.garbage("a stream without events")
                if some:
                    failure = endpoint.cut_off()
            except ProviderFailure as error:
                failure = error
            except (Garbled, ValueError) as error:
                failure = self._transport.endpoint.garbage(str(error))
            if answer.whole:
                yield answer
                return
            await self._retry.wait(attempt, failure)
            if shown:
                yield Restart(self._transport.redact(failure.problem))

    async def aclose(self) -> None:
        await self._transport.aclose()


def make(name: str, env: ModelEnv) -> AnthropicModel:
    """Create a model of Anthropic's own API."""
    access = Credentials.find(f"anthropic:{name}")
    silence = env.options.get("timeout") or IDLE_TIMEOUT
    transport: Transport
    if env.options.get("transport") == "sdk":
        transport = sdk_transport(access, silence)
    else:
        transport = HttpTransport(access, silence)
    return make_model(f"anthropic:{name}", transport, env)


def make_model(
    name: str, transport: Transport, env: ModelEnv, *, moves_cache: bool = True
) -> AnthropicModel:
    """Create a model behind a transport, as the user's config wants it."""
    if env.options.get("tools") == "schema":
        problem = f"models: {name} calls tools natively and cannot be forced into a schema"
        raise WorkerError(None, problem, hint="remove `tools: schema` from the config")
    if "temperature" in env.options:
        problem = f"models: {name} does not accept a temperature"
        raise WorkerError(None, problem, hint="remove `temperature` from the config")
    model = AnthropicModel(
        name, transport, env.notify, moves_cache=moves_cache, options=env.options
    )
    model.context_window = env.options.get("context") or model.context_window
    return model


def missing() -> str | None:
    """Return what is missing and how to get it; None if nothing is."""
    try:
        Credentials.find("anthropic:MODEL")
    except ModelError as error:
        return f"{error.message}; {error.hint}"
    return None
