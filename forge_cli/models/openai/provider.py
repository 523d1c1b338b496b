"""The model behind a Chat Completions server: asks, listens, and asks again when the line breaks."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from itertools import count

from forge_cli.core.messages import Delta, ModelRequest, Restart, TextDelta, ToolSpec, TurnEnd, let_others_go
from forge_cli.core.notify import READING, Notify
from forge_cli.core.wire import JsonObject
from forge_cli.models.failures import DELAYS, ProviderFailure, Retry
from forge_cli.models.json_body import RequestIds, json_bytes
from forge_cli.models.openai.answer import ChatAnswer
from forge_cli.models.openai.dialects import NativeDialect
from forge_cli.models.openai.server import PROGRESS, WANTS_PROGRESS, Server

DECLINED = "[The model declined to answer]"
_NAMED = re.compile(r'"name"\s*:\s*"([a-zA-Z0-9_-]{1,64})"')
_ARGUMENTS = re.compile(r'"(?:arguments|parameters)"\s*:')


class OpenAIModel:
    """``openai:MODEL``."""

    def __init__(
        self,
        model: str,
        server: Server,
        dialect: NativeDialect,
        notify: Notify,
        *,
        context_window: int | None = None,
        delays: Sequence[float] = DELAYS,
        more: JsonObject | None = None,
    ) -> None:
        """``more`` are further fields of each request."""
        self._more = more or {}
        self.name = f"openai:{model}"
        self.context_window = context_window
        self._model = model
        self._server = server
        self._dialect = dialect
        self._notify = notify
        self._retry = Retry(self.name, notify, server.clean, delays)
        self._told = ""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta]:
        body = self._body(request)
        for attempt in count(1):
            answer = ChatAnswer()
            try:
                async with aclosing(self._server.chunks(body, self._model)) as chunks:
                    async for together in chunks:
                        self._tell_progress(together)
                        new = "".join([answer.add(chunk) for chunk in together])
                        if not answer.broken:
                            let_others_go()
                        if new and self._dialect.shows_text:
                            yield TextDelta(new)
                if not answer.broken:
                    break
                raise self._server.endpoint.cut_off()
            except ProviderFailure as failure:
                if answer.finished:
                    break
                if self._more.get(WANTS_PROGRESS) and WANTS_PROGRESS in failure.problem:
                    self._more = {key: value for key, value in self._more.items() if key != WANTS_PROGRESS}
                    body = self._body(request)
                    continue
                await self._retry.wait(attempt, failure)
                if self._dialect.shows_text and answer.pieces:
                    yield Restart(self._server.clean(failure.problem))
        for delta in self._conclude(answer, request):
            yield delta

    async def aclose(self) -> None:
        await self._server.aclose()

    def _tell_progress(self, chunks: Sequence[JsonObject]) -> None:
        """Say how much of the prompt a server has read that tells it, tenth by tenth."""
        for progress in (chunk[PROGRESS] for chunk in chunks if isinstance(chunk.get(PROGRESS), dict)):
            done, total = progress.get("processed"), progress.get("total")
            if isinstance(done, int) and isinstance(total, int) and 0 < done < total:
                told = f"{READING}{10 * (10 * done // total)} %"
                if told != self._told:
                    self._told = told
                    self._notify("info", told)

    def _conclude(self, answer: ChatAnswer, request: ModelRequest) -> list[Delta]:
        taken = {call.id for message in request.messages for call in message.calls}
        text, calls = self._dialect.read(answer, taken)
        stop = "tool_use" if calls and answer.stop == "end" else answer.stop
        if not calls and (name := _call_as_text(text, request.tools)):
            hint = f'models: {{"{self.name}": {{tools: schema}}}} in the config may help'
            self._notify("warning", f"{self.name}: a call of {name} was written as text, so it was not made; {hint}")
        if stop == "max_tokens":
            dropped = len(answer.slots) - len(calls)
            lost = f"; {dropped} unfinished call(s) dropped" if dropped > 0 else ""
            self._notify("warning", f"{self.name}: the answer was cut at the server's limit of tokens{lost}")
        elif stop == "refusal":
            self._notify("warning", f"{self.name}: the model or its server declined to answer")
        if stop == "refusal" and not text:
            return [TextDelta(DECLINED), TurnEnd(stop, answer.usage)]
        said: list[Delta] = [] if self._dialect.shows_text or not text else [TextDelta(text)]
        return [*said, *calls, TurnEnd(stop, answer.usage)]

    def _body(self, request: ModelRequest) -> bytes:
        """The request as bytes, the history last: the next request begins with the same ones."""
        head: JsonObject = {
            "model": self._model,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self._more,
            **self._dialect.offer(request.tools),
        }
        system, ids = self._dialect.system(request), RequestIds()
        messages: list[JsonObject] = [{"role": "system", "content": system}] if system else []
        for message in request.messages:
            messages += self._dialect.encode(ids.mend(message))
        return b"".join((json_bytes(head)[:-1], b',"messages":[', b",".join(map(json_bytes, messages)), b"]}"))


def _call_as_text(text: str, tools: Sequence[ToolSpec]) -> str | None:
    """The tool that an answer names as a call would, in JSON; small models write calls so."""
    named = _NAMED.search(text)
    offered = {tool.name for tool in tools}
    return named[1] if named and named[1] in offered and _ARGUMENTS.search(text) else None
