"""The conversation with the API: stream an answer, try again where that helps, say what is wrong where it does not."""

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

PAUSES = 10
SILENCE = 120.0
"""Seconds without anything but keep-alives after which an answer counts as cut off."""


class AnthropicModel:
    """One of Anthropic's models.

    Calls come out once the answer is whole, so a call that was cut off is never made. Text comes out as it arrives;
    where an attempt breaks off after that, a ``Restart`` makes it void before the next attempt brings text again.
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
        """``name`` is ``PROVIDER:MODEL``, ``moves_cache`` as the encoder has it, ``options`` as the config has them."""
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
        """One turn; one that the API pauses is taken up again until it is done."""
        said: list[Block] = []
        text = ""
        usage = Usage()
        taken = frozenset[str]()
        for _ in range(PAUSES):
            answer = MessageAnswer()
            body = self._encoder.body(request, said)
            async with aclosing(self._ask(body, self._encoder.call_ids, taken)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, MessageAnswer):
                        answer = piece
                        continue
                    yield piece
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
                f"{self.name}: it paused its answer {PAUSES} times and came to no end",
                hint="try again",
            )
        for delta in self._last(answer, said, usage):
            yield delta

    def _last(self, answer: MessageAnswer, said: list[Block], usage: Usage) -> list[Delta]:
        """The end of a turn, behind its text: the calls, and how the turn ended."""
        native = kept(self._model, said)
        match answer.stop:
            case "refusal":
                why = answer.details.get("explanation") or answer.details.get("category")
                self._notify("warning", f"{self.name}: {DECLINED}{f': {why}' if why else ''}")
                return [*([] if answer.text else [TextDelta(NO_WORDS)]), TurnEnd("refusal", usage)]
            case stop if stop in CUT_OFF:
                limit = (
                    f"{self._max_tokens} tokens"
                    if stop == "max_tokens"
                    else "the end of its context window"
                )
                self._notify("warning", f"{self.name}: the answer was cut off at {limit}")
                return [*answer.calls, TurnEnd("max_tokens", usage, native)]
            case _:
                return [
                    *answer.calls,
                    TurnEnd("tool_use" if answer.calls else "end", usage, native),
                ]

    async def _ask(
        self, body: bytes, *taken: Set[str]
    ) -> AsyncGenerator[TextDelta | Restart | MessageAnswer]:
        """Attempts, until one brings a whole answer; that comes last. Its calls get other ids than those ``taken``."""
        for attempt in count(1):
            answer = MessageAnswer(taken)
            some = False
            shown = False
            try:
                async with aclosing(self._transport.events(body, self._model)) as events:
                    async for together in events:
                        some = True
                        text, garbled = answer.take(together)
                        if answer.blocks:
                            let_others_go()
                        if text:
                            shown = True
                            yield TextDelta(text)
                        if garbled:
                            raise garbled
                endpoint = self._transport.endpoint
                failure = (
                    endpoint.cut_off()
                    if some
                    else endpoint.garbage("a stream in which there is no event")
                )
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
    access = Credentials.find(f"anthropic:{name}")
    silence = env.options.get("timeout") or SILENCE
    through_sdk = env.options.get("transport") == "sdk"
    transport = sdk_transport(access, silence) if through_sdk else HttpTransport(access, silence)
    return make_model(f"anthropic:{name}", transport, env)


def make_model(
    name: str, transport: Transport, env: ModelEnv, *, moves_cache: bool = True
) -> AnthropicModel:
    """The model of that name behind a transport, as the config has it."""
    if env.options.get("tools") == "schema":
        problem = f"models: {name} calls tools by itself and cannot be forced into a schema"
        raise WorkerError(None, problem, hint="take `tools: schema` out of the config")
    if "temperature" in env.options:
        raise WorkerError(
            None,
            f"models: {name} takes no temperature",
            hint="take `temperature` out of the config",
        )
    model = AnthropicModel(
        name, transport, env.notify, moves_cache=moves_cache, options=env.options
    )
    model.context_window = env.options.get("context") or model.context_window
    return model


def missing() -> str | None:
    """The missing part; None where all is there."""
    try:
        Credentials.find("anthropic:MODEL")
    except ModelError as error:
        return f"{error.message}; {error.hint}"
    return None
