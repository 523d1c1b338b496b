"""Requests as bytes; each message is encoded once, so that a long conversation stays linear."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from operator import is_
from typing import NamedTuple

from forge_cli.core.calls import ToolCall
from forge_cli.core.errors import ModelError
from forge_cli.core.media import Blob, Image
from forge_cli.core.messages import Attachment, CallResult, Message, ModelRequest, ToolSpec
from forge_cli.core.wire import JsonObject
from forge_cli.models.json_body import RequestIds, json_bytes

Block = JsonObject
"""One block of a message's content, in the API's own form."""

CACHED = {"type": "ephemeral"}
LOOKBACK = 18
"""Blocks before a mark in which the API finds its cache; it looks at 20 with the marked one."""
IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
PDF = "application/pdf"

_THINKING = frozenset({"thinking", "redacted_thinking"})
_TEXT_TYPE = re.compile(r"text/.+|application/(.+\+)?(json|xml|yaml)")
_MARK = b',"cache_control":{"type":"ephemeral"}'
_END = b"}]}"
"""The end of the last block of a message, before which a mark is inserted."""


class _Sent(NamedTuple):
    """An encoded message: its role, its number of blocks, and its end in the history."""

    role: str
    blocks: int
    end: int


class Encoder:
    """An encoder of the requests of one model, which keeps the bytes of earlier requests.

    System prompt, tools and history stay byte for byte the same, followed by the new messages, so
    that the API can cache them. Marks show it where:

    - The mark on the system prompt keeps tools and system prompt if the history changes.
    - The mark on the last block keeps the history so far. With ``moves_cache`` the API sets it
      itself, otherwise it is part of the last message.
    - The API searches 20 blocks before a mark. If a turn has more, the end of the request before
      it is marked as well.
    """

    def __init__(
        self,
        model: str,
        max_tokens: int,
        *,
        moves_cache: bool = True,
        more: JsonObject | None = None,
        images: bool = True,
    ) -> None:
        """``more`` are further fields of each request; ``images`` includes those of results."""
        self._model = model
        self._images = images
        self._start: JsonObject = {
            "model": model,
            "max_tokens": max_tokens,
            "stream": True,
            **(more or {}),
        }
        if moves_cache:
            self._start["cache_control"] = CACHED
        self._moves_cache = moves_cache
        self._fixed: tuple[str, tuple[ToolSpec, ...]] | None = None
        self._head = b""
        self._forget()

    def _forget(self) -> None:
        self._seen: list[Message] = []
        self._sent: list[_Sent] = []
        self._history = bytearray()
        self._ids = RequestIds()
        self.call_ids: set[str] = set()
        """The IDs of the calls in the messages so far."""

    def body(self, request: ModelRequest, unfinished: Sequence[Block] = ()) -> bytes:
        """Return a whole request; ``unfinished`` is the content of a turn that the API paused."""
        fixed = (request.system, tuple(request.tools))
        if fixed != self._fixed:
            self._head = self._encode_head(*fixed)
            self._fixed = fixed
        self._catch_up(request.messages)
        paused = b""
        if unfinished:
            paused = b"," + _message("assistant", unfinished)
        return b"".join((self._head, *self._marked_history(), paused, b"]}"))

    def _marked_history(self) -> Iterator[bytes | memoryview]:
        """Yield the history in pieces, with the marks between them."""
        history = memoryview(self._history)
        start = 0
        for end in self._marks():
            yield history[start : end - len(_END)]
            yield _MARK
            start = end - len(_END)
        yield history[start:]

    def _marks(self) -> Iterator[int]:
        """Yield the ends of the messages that get a mark."""
        sent = self._sent
        answer = next((at for at in reversed(range(len(sent))) if sent[at].role == "assistant"), 0)
        if answer and sum(message.blocks for message in sent[answer:]) >= LOOKBACK:
            yield sent[answer - 1].end
        if sent and not self._moves_cache:
            yield sent[-1].end

    def _encode_head(self, system: str, tools: Sequence[ToolSpec]) -> bytes:
        head: JsonObject = dict(self._start)
        if tools:
            head["tools"] = [_tool(spec) for spec in tools]
        if system.strip():
            head["system"] = [{"type": "text", "text": system, "cache_control": CACHED}]
        elif tools:
            head["tools"][-1]["cache_control"] = CACHED
        return json_bytes(head)[:-1] + b',"messages":['

    def _catch_up(self, messages: Sequence[Message]) -> None:
        """Encode the new messages; all of them if earlier ones were replaced."""
        # By identity, because comparing the content of a long history is slow.
        if len(self._seen) > len(messages) or not all(map(is_, self._seen, messages)):
            self._forget()
        for message in messages[len(self._seen) :]:
            self._add(self._ids.mend(message))
            self._seen.append(message)
            self.call_ids.update(call.id for call in message.calls)

    def _add(self, message: Message) -> None:
        # the API refuses messages without content, so empty ones are left out
        blocks = self._encode(message)
        if blocks:
            role = "assistant" if message.role == "assistant" else "user"
            encoded = _message(role, blocks)
            self._history += b"," + encoded if self._history else encoded
            self._sent.append(_Sent(role, len(blocks), len(self._history)))

    def _encode(self, message: Message) -> list[Block]:
        match message.role:
            case "user":
                return [*map(attachment_block, message.attachments), *_text(message.text)]
            case "assistant":
                return list(self._assistant_blocks(message))
            case "tool":
                if not self._images:
                    return [_result(result, ()) for result in message.results]
                return [_result(result, result.files) for result in message.results]

    def _assistant_blocks(self, message: Message) -> Iterator[Block]:
        """Yield the blocks of the model, rebuilt if they came from another model."""
        native = message.native
        if isinstance(native, dict) and native.get("model") == self._model:
            blocks: list[Block] = [block for block in native["content"] if not _is_blank(block)]
            while blocks and blocks[-1]["type"] in _THINKING:
                blocks.pop()  # the API refuses a turn that ends with thinking
            yield from _with_ids(blocks, message.calls)
            return
        yield from _text(message.text)
        for call in message.calls:
            yield {"type": "tool_use", "id": call.id, "name": call.name, "input": call.args}


def _with_ids(blocks: Sequence[Block], calls: Sequence[ToolCall]) -> Iterator[Block]:
    """Yield the blocks with the IDs that their calls have in this request."""
    ids = iter([call.id for call in calls])
    for block in blocks:
        if block["type"] == "tool_use":
            yield {**block, "id": next(ids, block["id"])}
        else:
            yield block


def kept(model: str, blocks: Sequence[Block]) -> JsonObject:
    """Return the ``native`` content of a message: its blocks and the model they came from."""
    return {"model": model, "content": list(blocks)}


def _message(role: str, blocks: Sequence[Block]) -> bytes:
    return json_bytes({"role": role, "content": blocks})


def _text(text: str) -> Iterator[Block]:
    if text.strip():
        yield {"type": "text", "text": text}


def _is_blank(block: Block) -> bool:
    return block["type"] == "text" and not block["text"].strip()


def _tool(spec: ToolSpec) -> JsonObject:
    return {"name": spec.name, "description": spec.description, "input_schema": spec.input_schema}


def _result(result: CallResult, files: Sequence[Image | Blob]) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": result.call_id}
    if result.is_error:  # without files, which the API refuses in failed results
        text = "failed without a message"
        if result.text.strip():
            text = result.text
        return {**block, "content": text, "is_error": True}
    seen = [_seen(file) for file in files if file.data and file.media_type in (*IMAGES, PDF)]
    if seen:
        return {**block, "content": [*_text(result.text), *seen]}
    if result.text.strip():
        return {**block, "content": result.text}
    return block


def _seen(file: Image | Blob) -> Block:
    return {"type": "document" if file.media_type == PDF else "image", "source": _base64(file)}


def attachment_block(file: Attachment) -> Block:
    """Return an attached file as a block; raise ModelError for types that the API refuses."""
    if file.media_type in IMAGES:
        return {"type": "image", "source": _base64(file)}
    if file.media_type == PDF:
        return {"type": "document", "source": _base64(file), "title": file.name}
    if _TEXT_TYPE.fullmatch(file.media_type):
        return {"type": "text", "text": f"The attached file {file.name}:\n\n{_decoded(file)}"}
    raise ModelError(
        f"{file.name} cannot be attached: Anthropic's models do not accept {file.media_type}",
        hint="they accept text, PDF and images (PNG, JPEG, GIF, WebP)",
    )


def _base64(file: Attachment | Image | Blob) -> JsonObject:
    return {"type": "base64", "media_type": file.media_type, "data": b64encode(file.data).decode()}


def _decoded(file: Attachment) -> str:
    try:
        return file.data.decode("utf-8-sig") or "[it is empty]"
    except UnicodeDecodeError:
        problem = (
            f"{file.name} cannot be attached: its type is {file.media_type}, but it is not UTF-8"
        )
        raise ModelError(problem, hint="convert it to UTF-8 first") from None
