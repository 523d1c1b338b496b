"""The history of a conversation, with a running digest, so that a long one costs no more per turn than a short one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import overload

from forge_cli.core.messages import Message, ToolSpec
from forge_cli.core.tool import digest_of


class History(Sequence[Message]):
    """Messages in order; they are only ever added."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._hash = hashlib.sha256()

    def append(self, message: Message) -> None:
        self._messages.append(message)
        plain = {
            "role": message.role,
            "text": message.text,
            "calls": [asdict(call) for call in message.calls],
            "results": [asdict(result) for result in message.results],
            "attachments": [[file.name, file.media_type, digest_of(file.data)] for file in message.attachments],
        }
        self._hash.update(json.dumps(plain, sort_keys=True).encode())

    def digest(self, system: str, tools: Sequence[ToolSpec]) -> str:
        """The hash of a whole request: history, system prompt and tools."""
        rest = json.dumps([system, [tool.wire() for tool in tools]], sort_keys=True)
        running = self._hash.copy()
        running.update(rest.encode())
        return running.hexdigest()

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        return self._messages[index]

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)
