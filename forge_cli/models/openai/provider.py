"""The model behind a Chat Completions server: stream an answer, retry failures that may pass."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from itertools import count
from operator import is_

from forge_cli.core.messages import (
    Delta,
    Message,
    ModelRequest,
    Restart,
    TextDelta,
    ToolSpec,
    TurnEnd,
    let_others_go,
)
from forge_cli.core.notify import Notify, StatusNotice
from forge_cli.core.text import visible
from forge_cli.core.wire import JsonObject
from forge_cli.models.failures import DECLINED, DELAYS, NO_WORDS, ProviderFailure, Retry
from forge_cli.models.json_body import RequestIds, json_bytes
from forge_cli.models.openai.answer import ChatAnswer
from forge_cli.models.openai.dialects import NativeDialect, is_shown
from forge_cli.models.openai.server import PROGRESS, WANTS_PROGRESS, Server
from forge_cli.models.openai.written import written_call

_NO_MESSAGE = b',"messages":['
"""The last bytes of the beginning of a request if there is no system prompt."""


class OpenAIModel:
    """``openai:MODEL``, which encodes each message once, so that a long conversation is linear."""

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
        self._sent: list[Message] = []
        self._history = bytearray()
        self._request_ids = RequestIds()
        self._ids: set[str] = set()
        self._fixed: tuple[tuple[ToolSpec, ...], str] | None = None
        """The tools and the system prompt of the last request."""
        self._head = b""
        """The beginning of the last request."""

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
                if answer.finished:  # the model was done: only the end of the stream is missing
                    break
                if self._more.get(WANTS_PROGRESS) and WANTS_PROGRESS in failure.problem:
                    # this local server refuses the field of llama.cpp: ask again without it
                    self._more = dict(self._more)
                    del self._more[WANTS_PROGRESS]
                    self._fixed = None
                    body = self._body(request)
                    continue
                await self._retry.wait(attempt, failure)
                if self._dialect.shows_text and answer.pieces:
                    yield Restart(self._server.clean(failure.problem))
        for delta in self._conclude(answer):
            yield delta

    async def aclose(self) -> None:
        await self._server.aclose()

    def _tell_progress(self, chunks: Sequence[JsonObject]) -> None:
        """Report how much of the prompt the server has read, in steps of 10 %."""
        for chunk in chunks:
            progress = chunk.get(PROGRESS)
            if not isinstance(progress, dict):
                continue
            done = progress.get("processed")
            total = progress.get("total")
            if isinstance(done, int) and isinstance(total, int) and 0 < done < total:
                percent = 10 * (10 * done // total)
                notice = StatusNotice(f"the model reads the prompt: {percent} %", "prompt")
                if notice != self._told:
                    self._told = notice
                    self._notify("info", notice)

    def _tell_written_call(self, text: str) -> None:
        """Warn of a call that was written as text: the task looks done, but is not."""
        offered = {tool.name for tool in self._fixed[0]} if self._fixed else set()
        name = written_call(text, offered)
        if name is None:
            return
        what = f"a call of {visible(name)} was written as text, so it was not made"
        if name not in offered:
            what = f"{what}, and there is no such tool"
        hint = "a larger model calls tools more reliably"
        if not self._dialect.forces:
            hint = f'models: {{"{self.name}": {{tools: schema}}}} in the config may help'
        # urgent, so that `forge run -p` shows it, too
        notice = StatusNotice(f"{self.name}: {what}; {hint}", "written", urgent=True)
        self._notify("warning", notice)

    def _conclude(self, answer: ChatAnswer) -> list[Delta]:
        text, calls = self._dialect.read(answer, self._ids)
        stop = answer.stop
        if calls and stop == "end":  # servers see forced calls as text
            stop = "tool_use"
        if not calls:
            self._tell_written_call(text)
        if stop == "max_tokens":
            dropped = len(answer.slots) - len(calls)
            lost = ""
            if dropped > 0:
                lost = f"; {dropped} unfinished call(s) dropped"
            what = f"the answer was cut off at the server's limit of tokens{lost}"
            self._notify("warning", f"{self.name}: {what}")
        elif stop == "refusal":
            self._notify("warning", f"{self.name}: {DECLINED}")
        if stop == "refusal" and not text:
            return [TextDelta(NO_WORDS), TurnEnd(stop, answer.usage)]
        said: list[Delta] = []
        if text and not self._dialect.shows_text:
            said.append(TextDelta(text))
        return [*said, *calls, TurnEnd(stop, answer.usage)]

    def _body(self, request: ModelRequest) -> bytes:
        """Return the request as bytes, the history last, so that the next one begins the same."""
        fixed = (tuple(request.tools), request.system)
        # by value, because the loop makes the specifications anew for each turn
        if fixed != self._fixed:
            self._head = self._encode_head(request)
            self._fixed = fixed
        self._catch_up(request.messages)
        comma = b""
        if self._history and not self._head.endswith(_NO_MESSAGE):
            comma = b","
        return b"".join((self._head, comma, self._history, b"]}"))

    def _encode_head(self, request: ModelRequest) -> bytes:
        head: JsonObject = {
            "model": self._model,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self._more,
            **self._dialect.offer(request.tools),
        }
        first = b""
        if system := self._dialect.system(request):
            first = json_bytes({"role": "system", "content": system})
        return b"".join((json_bytes(head)[:-1], _NO_MESSAGE, first))

    def _catch_up(self, messages: Sequence[Message]) -> None:
        """Encode the new messages; all of them if earlier ones were replaced."""
        if len(self._sent) > len(messages) or not all(map(is_, self._sent, messages)):
            self._sent = []
            self._history = bytearray()
            self._request_ids = RequestIds()
        new = messages[len(self._sent) :]
        said: list[JsonObject] = []
        for message in new:
            said += self._dialect.encode(self._request_ids.mend(message))
            self._name_hidden_files(message)
            self._ids.update(call.id for call in message.calls)
        if said:
            self._history += b"," if self._history else b""
            # Without the brackets of the list, because the history goes on.
            self._history += json_bytes(said)[1:-1]
        self._sent += new

    def _name_hidden_files(self, message: Message) -> None:
        """Warn of each file that cannot be sent to the model."""
        for file in message.attachments:
            if not is_shown(file):
                what = f"{visible(file.name)} ({visible(file.media_type)})"
                text = f"{self.name} cannot be shown {what}; it only learns that the file exists"
                self._notify("warning", text)
