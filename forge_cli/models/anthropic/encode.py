"""Requests as bytes, of which each begins with those of the one before."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence

from forge_cli.core.calls import ToolCall
from forge_cli.core.errors import ModelError
from forge_cli.core.media import Blob, Image
from forge_cli.core.messages import Attachment, CallResult, Message, ModelRequest, ToolSpec
from forge_cli.core.wire import JsonObject
from forge_cli.models.json_body import RequestIds, json_bytes

Block = JsonObject
"""One block of a message's content, as the API writes it."""

CACHED = {"type": "ephemeral"}
LOOKBACK = 18
"""Blocks before a mark in which the API surely finds what it kept: it looks at 20, the marked one among them."""
IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
PDF = "application/pdf"

_THINKING = frozenset({"thinking", "redacted_thinking"})
_TEXT_TYPE = re.compile(r"text/.+|application/(.+\+)?(json|xml|yaml)")


class Encoder:
    """Makes the bodies of one model's requests.

    System prompt, tools and history are byte for byte what they were in the request before, with the new messages after
    them, and marks tell the API where to keep what it has read. The one on the system prompt keeps tools and system
    prompt when the history changes. The one on the last block keeps the history so far: the API sets it by itself where
    it ``moves_cache``, else it is on the last message. The API finds what it kept no more than 20 blocks before a mark,
    so where a turn had more, the end of the request before is marked as well.
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
        """``more`` are further fields of each request; with ``images`` the model is shown those of results."""
        self._model = model
        self._images = images
        self._start: JsonObject = {"model": model, "max_tokens": max_tokens, "stream": True, **(more or {})}
        if moves_cache:
            self._start["cache_control"] = CACHED
        self._moves_cache = moves_cache

    def body(self, request: ModelRequest, unfinished: Sequence[Block] = ()) -> bytes:
        """The whole request; ``unfinished`` is what the model has said of a turn that it paused.

        The API refuses a message without content, so an empty one is left out.
        """
        ids = RequestIds()
        encoded = [(message.role, self._encode(ids.mend(message))) for message in request.messages]
        sent = [("assistant" if role == "assistant" else "user", blocks) for role, blocks in encoded if blocks]
        for at in self._marks(sent):
            sent[at][1][-1] = {**sent[at][1][-1], "cache_control": CACHED}
        paused = [("assistant", unfinished)] if unfinished else []
        messages = (json_bytes({"role": role, "content": blocks}) for role, blocks in (*sent, *paused))
        head = json_bytes(self._head(request.system, request.tools))
        return b"".join((head[:-1], b',"messages":[', b",".join(messages), b"]}"))

    def _marks(self, sent: Sequence[tuple[str, Sequence[Block]]]) -> Iterator[int]:
        """The messages that carry a mark on their last block."""
        answer = next((at for at in reversed(range(len(sent))) if sent[at][0] == "assistant"), 0)
        if answer and sum(len(blocks) for _, blocks in sent[answer:]) >= LOOKBACK:
            yield answer - 1
        if sent and not self._moves_cache:
            yield len(sent) - 1

    def _head(self, system: str, tools: Sequence[ToolSpec]) -> JsonObject:
        head: JsonObject = dict(self._start)
        if tools:
            head["tools"] = [_tool(spec) for spec in tools]
        if system.strip():
            head["system"] = [{"type": "text", "text": system, "cache_control": CACHED}]
        elif tools:
            head["tools"][-1]["cache_control"] = CACHED
        return head

    def _encode(self, message: Message) -> list[Block]:
        match message.role:
            case "user":
                return [*map(attachment_block, message.attachments), *_text(message.text)]
            case "assistant":
                return list(self._assistant_blocks(message))
            case "tool":
                return [_result(result, result.files if self._images else ()) for result in message.results]

    def _assistant_blocks(self, message: Message) -> Iterator[Block]:
        """The words of the model: as they came from this model, or rebuilt where another one said them."""
        native = message.native
        if isinstance(native, dict) and native.get("model") == self._model:
            blocks: list[Block] = [block for block in native["content"] if not _is_blank(block)]
            while blocks and blocks[-1]["type"] in _THINKING:
                blocks.pop()
            yield from _with_ids(blocks, message.calls)
            return
        yield from _text(message.text)
        for call in message.calls:
            yield {"type": "tool_use", "id": call.id, "name": call.name, "input": call.args}


def _with_ids(blocks: Sequence[Block], calls: Sequence[ToolCall]) -> Iterator[Block]:
    """The blocks with the ids that their calls have in this request."""
    ids = iter([call.id for call in calls])
    for block in blocks:
        yield {**block, "id": next(ids, block["id"])} if block["type"] == "tool_use" else block


def kept(model: str, blocks: Sequence[Block]) -> JsonObject:
    """The content of a message's ``native``: the blocks as they came, and from whom."""
    return {"model": model, "content": list(blocks)}


def _text(text: str) -> Iterator[Block]:
    if text.strip():
        yield {"type": "text", "text": text}


def _is_blank(block: Block) -> bool:
    return block["type"] == "text" and not block["text"].strip()


def _tool(spec: ToolSpec) -> JsonObject:
    return {"name": spec.name, "description": spec.description, "input_schema": spec.input_schema}


def _result(result: CallResult, files: Sequence[Image | Blob]) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": result.call_id}
    if result.is_error:
        return {
            **block,
            "content": result.text if result.text.strip() else "failed without a message",
            "is_error": True,
        }
    seen = [_seen(file) for file in files if file.data and file.media_type in (*IMAGES, PDF)]
    if seen:
        return {**block, "content": [*_text(result.text), *seen]}
    return {**block, "content": result.text} if result.text.strip() else block


def _seen(file: Image | Blob) -> Block:
    """A file of a result that the model is shown; only a call that succeeded may have one."""
    return {"type": "document" if file.media_type == PDF else "image", "source": _base64(file)}


def attachment_block(file: Attachment) -> Block:
    """A file as the API takes it; the sentence for those it cannot take."""
    if file.media_type in IMAGES:
        return {"type": "image", "source": _base64(file)}
    if file.media_type == PDF:
        return {"type": "document", "source": _base64(file), "title": file.name}
    if _TEXT_TYPE.fullmatch(file.media_type):
        return {"type": "text", "text": f"The attached file {file.name}:\n\n{_decoded(file)}"}
    raise ModelError(
        f"{file.name} cannot be attached: Anthropic's models take no {file.media_type}",
        hint="they take text, PDF and images (PNG, JPEG, GIF, WebP)",
    )


def _base64(file: Attachment | Image | Blob) -> JsonObject:
    return {"type": "base64", "media_type": file.media_type, "data": b64encode(file.data).decode()}


def _decoded(file: Attachment) -> str:
    try:
        return file.data.decode("utf-8-sig") or "[it is empty]"
    except UnicodeDecodeError:
        problem = f"{file.name} cannot be attached: it is said to be {file.media_type}, but is not UTF-8 text"
        raise ModelError(problem, hint="convert it to UTF-8 first") from None
