"""Bodies of requests that providers accept: valid JSON, and legal IDs of calls."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from forge_cli.core.calls import is_legal_id
from forge_cli.core.messages import Message
from forge_cli.core.wire import jsonable

_compact = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
_spaced = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class RequestIds:
    """The IDs of calls in the requests of a conversation: legal and unique, unlike in its log.

    New IDs depend on the history alone, so that every request begins with the bytes of the one
    before, which providers cache.
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._open: list[tuple[str, str]] = []

    def mend(self, message: Message) -> Message:
        """Return the next message with legal IDs; the same object if it needs no change."""
        if message.role == "assistant":
            given = [call.id for call in message.calls]
            ids = [self._own(call_id) for call_id in given]
            self._open = list(zip(given, ids, strict=True))
            if ids == given:
                return message
            calls = zip(message.calls, ids, strict=True)
            return replace(message, calls=tuple(replace(call, id=own) for call, own in calls))
        given = [result.call_id for result in message.results]
        ids = [self._answered(call_id) for call_id in given]
        if ids == given:
            return message
        results = zip(message.results, ids, strict=True)
        return replace(
            message, results=tuple(replace(result, call_id=own) for result, own in results)
        )

    def _own(self, call_id: str) -> str:
        own = call_id
        # Not from 0, or each of many equal IDs would try all earlier digests again.
        tries = len(self._taken)
        while not is_legal_id(own) or own in self._taken:
            # nine letters and digits, because Mistral's templates refuse any other id
            digest = hashlib.sha256(f"{tries} {call_id}".encode("utf-8", "surrogatepass"))
            own = digest.hexdigest()[:9]
            tries += 1
        self._taken.add(own)
        return own

    def _answered(self, call_id: str) -> str:
        """Return the ID of the call that a result is for; of equal IDs, the first one open."""
        for pair in self._open:
            if pair[0] == call_id:
                self._open.remove(pair)
                return pair[1]
        return call_id


def json_bytes(value: Any) -> bytes:
    """Return JSON in UTF-8 without spaces."""
    return _json(value, _compact).encode()


def json_within(value: Any) -> str:
    """Return JSON that becomes text in a request, such as the arguments of a call."""
    return _json(value, _spaced)


def _json(value: Any, encode: Callable[[Any], str]) -> str:
    try:
        text = encode(value)
    except (TypeError, ValueError, RecursionError):
        text = encode(jsonable(value))
    if _fits_utf8(text):
        return text
    # A lone surrogate has no UTF-8; its escape at least shows its number.
    return _LONE_SURROGATE.sub(lambda found: f"\\\\u{ord(found[0]):04x}", text)


def _fits_utf8(text: str) -> bool:
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False
