"""The messages of a conversation in the order in which the model reads them, and the digest of a request."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from forge_cli.core.calls import ToolCall
from forge_cli.core.messages import Attachment, CallResult, Message, ToolSpec
from forge_cli.core.tool import digest_of
from forge_cli.core.wire import JsonObject, jsonable

if TYPE_CHECKING:
    from forge_cli.sandbox.secrets import Redactor

_json_text = json.JSONEncoder(ensure_ascii=False).encode
_sorted_text = json.JSONEncoder(sort_keys=True).encode


class History(list[Message]):
    """Messages in order; the digest sees them as the record does, without secrets."""

    def __init__(self, messages: Iterable[Message] = (), redactor: Redactor | None = None) -> None:
        super().__init__()
        self._redactor = redactor
        self.call_ids: set[str] = set()
        """Every id that a call has had here, also in messages that were taken out since."""
        self.rewrite(messages)

    def append(self, message: Message) -> None:
        super().append(message)
        self.call_ids.update([call.id for call in message.calls])

    def rewrite(self, messages: Iterable[Message]) -> None:
        """Start over with these messages, to make room."""
        kept = tuple(messages)
        self.clear()
        self._hash = hashlib.sha256()
        self._hashed = 0
        """How many of the messages are in the hash: the others are added when somebody asks for a digest."""
        for message in kept:
            self.append(message)

    def apart(self, messages: Iterable[Message]) -> History:
        """A history of its own for these messages, as discreet as this one."""
        return History(messages, self._redactor)

    def without_names(self) -> History:
        """The same as forge saw it before it took values for secrets because of the names of their keys."""
        return History(self, self._redactor and self._redactor.without_names())

    def digest(self, system: str, tools: Sequence[ToolSpec]) -> str:
        """The hash of a whole request: history, system prompt and tools."""
        new = [_plain(message) for message in self[self._hashed :]]
        if self._redactor:
            new = self._redactor.redact(new)
        self._hash.update("".join(map(_sorted_text, new)).encode())
        self._hashed = len(self)
        running = self._hash.copy()
        running.update(_sorted_text([system, [tool.wire() for tool in tools]]).encode())
        return running.hexdigest()


def _plain(message: Message) -> JsonObject:
    return {
        "role": message.role,
        "text": message.text,
        "calls": [_call(call) for call in message.calls],
        "results": [_result(result) for result in message.results],
        "attachments": [[file.name, file.media_type, _content(file)] for file in message.attachments],
    }


def _call(call: ToolCall) -> JsonObject:
    """The keys that recorded digests were made with."""
    return {"id": call.id, "name": call.name, "input": call.args, "unreadable": call.unreadable}


def _result(result: CallResult) -> JsonObject:
    """As recorded digests were made, and with the files where there are some."""
    plain = {"call_id": result.call_id, "tool": result.tool, "text": result.text, "is_error": result.is_error}
    files = [[file.media_type, digest_of(file.data)] for file in result.files]
    return {**plain, "files": files} if files else plain


def _content(file: Attachment) -> str:
    """Text as text, in which secrets are seen, as in the record."""
    return file.data.decode("utf-8", "replace") if file.media_type.startswith("text/") else digest_of(file.data)


def args_text(call: ToolCall) -> str:
    """The args of a call, as JSON."""
    return _json_text(jsonable(call.args))
